"""Presets of other demand: rates by hand, and what one fleet shows against the sweep beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from planner.errors import InputError
from planner.planning import plan_scenario
from planner.planning.stress import stresses_of
from planner.scenario.load import load_scenario
from planner.simulation.effort import Effort, RunSize

if TYPE_CHECKING:
    from pathlib import Path

EFFORT = Effort(4_000, RunSize(8_000, 3, 2_000), RunSize(10_000, 6, 2_500), 40_000, 24_000, 8)
SCENARIO = """\
format_version: "1.0"
name: Two workloads
workloads:
  - id: chat
    model: llama-3.1-8b
    arrivals: {poisson: 30 req/s}
    lengths: {prompt: {fixed: 1000}, output: {fixed: 100}}
    slo: {ttft: 500 ms, tpot: 40 ms, attainment: 95 %}
  - id: notes
    model: llama-3.1-8b
    arrivals: {poisson: 10 req/s}
    lengths: {prompt: {fixed: 500}, output: {fixed: 200}}
    slo: {ttft: 1 s, tpot: 40 ms, attainment: 95 %}
accelerators:
  - {id: h100-sxm, price: 2.99 USD/h}
policies: {tp_degrees: [1], max_num_batched_tokens: [2048], max_num_seqs: [256]}
objective: min_cost
"""


def loaded(more: str, folder: Path):
    file = folder / "scenario.yaml"
    file.write_text(SCENARIO + more)
    return load_scenario(file)


def test_a_shift_keeps_the_rate_of_all():
    rates = (30.0, 10.0, 5.0)
    shifts = stresses_of(("mix",), ("a", "b", "c"), rates)
    assert len(shifts) == 3
    for i, one in enumerate(shifts):
        assert sum(m * r for m, r in zip(one.multiples, rates, strict=True)) == pytest.approx(45)
        assert min(one.multiples) >= 0
        assert one.multiples[i] == max(one.multiples)
    assert shifts[1].multiples[1] == pytest.approx(1.5)


def test_nothing_is_left_where_one_workload_that_is_most_of_all_grows():
    first, _ = stresses_of(("mix",), ("a", "b"), (90.0, 10.0))
    assert first.multiples == pytest.approx((100 / 90, 0.0))


def test_a_client_doubles_or_leaves_and_the_last_does_not_leave():
    two = stresses_of(("client",), ("a", "b"), (1.0, 1.0))
    assert [s.multiples for s in two] == [(2, 1), (0, 1), (1, 2), (1, 0)]
    assert [s.multiples for s in stresses_of(("client",), ("a",), (1.0,))] == [(2,)]


@pytest.mark.minutes_in_plain
def test_a_fleet_is_shown_under_every_preset(tmp_path):
    more = "uncertainty: {stress: [level, mix, lengths, bursts, client, failover]}\n"
    plan = plan_scenario(loaded(more, tmp_path), effort=EFFORT)
    shown = {(s.preset, s.what): s for s in plan.evidence.stress}
    assert {preset for preset, _ in shown} == {
        *("level", "mix", "lengths", "bursts", "client", "failover"),
    }
    sweep = {p.multiple: p.attainment for p in plan.evidence.demand_sweep}
    level, twice = shown["level", "every workload × 1.25"], shown["failover", "every workload × 2"]
    for name in ("chat", "notes"):
        assert sweep[1.35][name].low <= level.attainment[name].value <= sweep[1.2][name].high
        assert twice.attainment[name].value <= level.attainment[name].value
    leaves = shown["client", "chat leaves"]
    assert set(leaves.attainment) == {"notes"}
    assert leaves.verdicts["notes"] == "kept"
    assert leaves.attainment["notes"].value >= sweep[1.0]["notes"].low
    burst, gamma = shown["bursts", "gaps with a CV of 3"], plan.evidence.arrival_sweep[-1]
    assert gamma.arrivals == "gamma, CV 3"
    for name, found in burst.attainment.items():
        assert found.value == pytest.approx(gamma.attainment[name].value, abs=1e-9)


@pytest.mark.parametrize(
    ("preset", "why"),
    [("no_cache", "no workload has a prefix; leave no_cache out")],
)
def test_a_preset_that_says_nothing_is_refused(preset, why, tmp_path):
    with pytest.raises(InputError, match=rf":18:24: uncertainty.stress.0: {why}"):
        plan_scenario(loaded(f"uncertainty: {{stress: [{preset}]}}\n", tmp_path), effort=EFFORT)


def test_one_workload_has_no_mix_and_users_have_no_bursts(tmp_path):
    head, tail = SCENARIO[: SCENARIO.index("  - id: notes")], SCENARIO[SCENARIO.index("accel") :]
    users = head.replace(
        "{poisson: 30 req/s}", "{closed_loop: {users: 30, think_time: {mean: 1 s, cv: 1}}}"
    )
    file = tmp_path / "scenario.yaml"
    file.write_text(users + tail + "uncertainty: {stress: [mix, bursts, lengths]}\n")
    with pytest.raises(InputError) as caught:
        plan_scenario(load_scenario(file), effort=EFFORT)
    said = str(caught.value).splitlines()
    assert [line.split("uncertainty.")[1] for line in said] == [
        "stress.0: needs two workloads; leave mix out",
        "stress.1: chat: its arrivals are replayed, sessions, or wait; leave bursts out",
        "stress.2: chat: its lengths belong to arrivals or prefixes; leave lengths out",
    ]
