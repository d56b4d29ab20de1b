"""The difference of two bills in lines: they sum to it, and each is zero without its cause."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.candidates.groups import Group
from planner.planning.apart_lines import LINES, Apart, Sides, Together, dollar_lines
from planner.planning.apart_measured import Held, held_at_most, sides_of_group
from planner.scenario.disaggregation import KvLink
from planner.simulation.capacity import coarse_capacity
from planner.simulation.undisturbed import undisturbed_capacity
from tests.problems import affine_law, fixed, setup, spread, study
from tests.templates import build_of, random_law

if TYPE_CHECKING:
    from planner.candidates.template import Build

rates = st.floats(0.1, 100)
money = st.floats(0.1, 50)
FASTER = st.floats(1, 3)
NEVER_NEGATIVE = (
    "stranded_prefill_compute",
    "stranded_prefill_hbm",
    "stranded_decode_hbm",
    "weight_replication",
    "ratio_rounding",
    "joint_deadlines",
    "hand_off",
    "exposed_transfer",
)


@st.composite
def replicas_that_do_both(draw: st.DrawFn) -> Together:
    capacity = draw(rates)
    calm = capacity * draw(FASTER)
    prompt_s = draw(st.floats(0.01, 0.99)) / calm
    prefill = 1 / prompt_s / draw(FASTER)
    return Together(draw(rates), draw(money), capacity, calm, prompt_s, prefill, draw(rates))


@st.composite
def groups(draw: st.DrawFn) -> Apart:
    n_p, n_d = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    group = draw(rates)
    hop = group * draw(FASTER)
    free = hop * draw(FASTER)
    prefill, decode = free * draw(FASTER), free * draw(FASTER)
    once = decode * draw(FASTER)
    sides = Sides(
        group=group,
        hop=hop,
        free=free,
        prefill=prefill / n_p,
        prefill_roomy=prefill * draw(FASTER) / n_p,
        decode=decode / n_d,
        decode_once=once / n_d,
        decode_roomy=once * draw(FASTER) / n_d,
    )
    return Apart(draw(rates), n_p, n_d, draw(money), draw(money), sides)


@given(
    st.lists(replicas_that_do_both(), min_size=1, max_size=3),
    st.lists(groups(), min_size=1, max_size=3),
    money,
    money,
)
def test_lines_sum_to_the_difference_and_keep_their_signs(together, apart, before, after):
    lines = dollar_lines(together, apart, before, after)
    assert tuple(lines) == LINES
    scale = sum(abs(x) for x in lines.values()) + 1
    assert sum(lines.values()) == pytest.approx(after - before, abs=1e-12 * scale)
    for name in NEVER_NEGATIVE:
        assert lines[name] >= -1e-12 * scale
    assert lines["interference_removed"] <= 1e-12 * scale


EVEN = Sides(2.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0)
"""One prefill replica in balance with two for decode, and nothing between them that costs."""
BOTH = Together(6.0, 5.0, 1.0, 1.0, 0.25, 4.0, 4 / 3)


def one_cause(**changes: float) -> set[str]:
    """Lines that are not zero, of a group with some capacities changed beside one without."""
    found = dollar_lines([BOTH], [Apart(6.0, 1, 2, 2.0, 2.0, replace(EVEN, **changes))], 30.0, 18.0)
    before = dollar_lines([BOTH], [Apart(6.0, 1, 2, 2.0, 2.0, EVEN)], 30.0, 18.0)
    return {name for name in LINES if abs(found[name] - before[name]) > 1e-12}


def test_without_a_cause_its_line_is_zero():
    """Units fit, sides are in balance, nothing is between them: the builds alone make it."""
    lines = dollar_lines([BOTH], [Apart(6.0, 1, 2, 2.0, 2.0, EVEN)], 30.0, 18.0)
    assert {name for name, usd in lines.items() if abs(usd) > 1e-12} == {"suited_builds"}
    assert lines["suited_builds"] == pytest.approx(-12.0)


def test_a_cause_moves_its_own_line():
    """What a cause costs is on its line; what is bought for it, on that of whole units."""
    rest = {"whole_units_apart"}
    assert one_cause(group=1.9) == {"exposed_transfer"} | rest
    assert one_cause(group=1.9, hop=1.9) == {"hand_off"} | rest
    assert one_cause(group=1.9, hop=1.9, free=1.9) == {"joint_deadlines"} | rest
    assert one_cause(decode_once=1.2, decode_roomy=1.2) == {"weight_replication", "suited_builds"}
    assert one_cause(decode_roomy=1.2) == {"stranded_prefill_hbm", "suited_builds"}
    assert one_cause(prefill_roomy=2.2) == {"stranded_decode_hbm", "suited_builds"}
    assert one_cause(prefill=2.2, prefill_roomy=2.2) == {"ratio_rounding", "suited_builds"}


# -- what is measured --------------------------------------------------------------------------


def build(blocks: int, weights_bytes: float) -> Build:
    """A replica whose cache takes one byte a token, and weights so many bytes."""
    one = build_of(random_law(np.random.default_rng(3)), "a", (512, 64), blocks, 2.0)
    room = SimpleNamespace(
        reserve=SimpleNamespace(weights_bytes=weights_bytes), kv_bytes_per_token=1.0
    )
    curve = SimpleNamespace(**vars(one.curve), room=lambda: room)
    return replace(one, curve=cast("object", curve))  # type: ignore[arg-type]


def a_group(*, weights: float = 1600.0, idle_blocks: int = 100, **link: object) -> Group:
    given = {"bandwidth": 1e6, "latency": 0.01} | link
    way = KvLink.model_construct(transport="tcp", sharing="fifo", **given)
    prefill, decode = build(100 + idle_blocks, weights), build(300, weights)
    return Group(prefill, decode, 1, 2, way, 0.02, 1000.0)


HELD = Held(prefill=1600.0, decode=1e9)
"""A hundred blocks of prompts; all of the decode side's."""


def by_formula(group: Group) -> float:
    """A group as theory has it: the slower side, decode by its cache, and less for the way."""
    sides = min(5.0 * group.n_prefill, group.n_decode * group.decode.limits.kv_blocks / 100)
    way = group.link.latency + 1000 * group.kv_bytes_per_token / group.link.bandwidth
    return 1 / (1 / sides + 0.1 * (way + group.hand_off_s))


def found(group: Group, held: Held = HELD) -> Sides:
    return sides_of_group(group, by_formula(group), held, by_formula)


def test_every_cause_is_found_where_it_is():
    rps = found(a_group())
    assert rps.group < rps.hop < rps.free
    assert rps.decode < rps.decode_once < rps.decode_roomy
    assert rps.decode == pytest.approx(3.0)
    assert rps.decode_once == pytest.approx(3.5)  # 1,600 bytes of weights are 50 blocks each
    assert rps.decode_roomy == pytest.approx(4.0)  # and 100 idle blocks 50 more
    assert rps.prefill == rps.prefill_roomy == pytest.approx(5.0)


def test_a_link_without_end_exposes_nothing():
    rps = found(a_group(bandwidth=float("inf"), latency=0.0))
    assert rps.group == rps.hop < rps.free


def test_a_hand_off_in_no_time_costs_nothing():
    rps = found(replace(a_group(), hand_off_s=0.0))
    assert rps.group < rps.hop == rps.free


def test_weights_of_no_size_are_not_replicated():
    rps = found(a_group(weights=0.0))
    assert rps.decode == rps.decode_once < rps.decode_roomy


def test_a_cache_in_full_use_strands_nothing():
    rps = found(a_group(idle_blocks=0))
    assert rps.decode_once == rps.decode_roomy
    assert found(a_group(), Held(1e9, 1e9)).decode_roomy == found(a_group()).decode_once


def test_idle_cache_of_decode_is_lent_to_prefill():
    seen = []

    def noted(group: Group) -> float:
        seen.append(group.prefill.limits.kv_blocks)
        return 1.0

    sides_of_group(a_group(), 1.0, Held(1e9, 4800.0), noted)
    assert set(seen) == {200, 200 + 300}  # of 600 blocks on two replicas 300 are held


def test_requests_hold_what_their_deadlines_let_them():
    """Little: 2 req/s of 1,000 tokens for 0.5 s before; 1,050 tokens for 100 x 10 ms after."""
    work = study(fixed(1000, 101), ttft_ms=(500.0,), tpot_ms=(10.0,), promise=(0.9,))
    held = held_at_most(work, (2.0,), 2.0)
    assert held.prefill == pytest.approx(1000)
    assert held.decode == pytest.approx(2 * 1050.5 * 1.0)


def test_where_steps_do_not_grow_there_is_no_interference_to_forgive():
    work = study(spread(300, 60, 0.5), ttft_ms=(400.0,), tpot_ms=(22.0,), promise=(0.9,))
    pool = setup(affine_law(20.0, 0.0, 512), 32)
    plain = coarse_capacity(work, pool, (1.0,), 5.0, 3_000)
    assert plain > 0
    assert undisturbed_capacity(work, pool, (1.0,), 5.0, 3_000) == plain


def test_prompts_that_stretch_steps_cost_capacity_that_is_found():
    """A chunk of 512 tokens takes 51 ms of a pace of 30: half of the steps may not have one."""
    work = study(fixed(512, 60), ttft_ms=(400.0,), tpot_ms=(30.0,), promise=(0.9,))
    pool = setup(affine_law(20.0, 100.0, 512), 64)
    plain = coarse_capacity(work, pool, (1.0,), 3.0, 3_000)
    calm = undisturbed_capacity(work, pool, (1.0,), 3.0, 3_000)
    assert calm > 1.3 * plain > 0
