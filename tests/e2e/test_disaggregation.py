"""Prefill and decode apart: where it pays and where it does not, by honest physics."""

from __future__ import annotations

from functools import cache
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from planner.data import shipped
from planner.explanation.why import explain_plan
from planner.kernels import COMPILED
from planner.planning import plan_scenario, simulate_plan
from planner.planning.apart import QUESTION
from planner.planning.apart_lines import LINES
from planner.planning.replay import fleet_in
from planner.planning.study import study_of
from planner.planning.tracing import trace_plan
from planner.reporting.bill_difference import signed
from planner.reporting.tables import plan_table
from planner.reporting.why import why_tables
from planner.scenario.load import load_scenario
from planner.simulation.capacity import REPLAYING
from planner.simulation.effort import Effort, RunSize
from planner.simulation.pool import run_pool
from planner.studies import Bounds, axis_of, flip_map

if TYPE_CHECKING:
    from planner.fleet import Decision, FleetPlan

pytestmark = pytest.mark.skipif(not COMPILED, reason="groups are simulated step by step: hours")

SHORT = Effort(6_000, RunSize(16_000, 4, 2_500), RunSize(24_000, 5, 4_000), 96_000, 24_000, 8)

SIGNS = ("apart", "apart-tcp", "apart-loose", "apart-first-token")
"""What measurements say of serving apart, a scenario each."""


@cache
def plan_of(name: str, *settings: str) -> FleetPlan:
    loaded = load_scenario(shipped("scenarios") / f"{name}.yaml", settings)
    return plan_scenario(loaded, effort=SHORT)


def decided(plan: FleetPlan) -> Decision:
    return next(d for d in plan.decisions if d.question == QUESTION)


def difference(plan: FleetPlan) -> float:
    """What apart costs more than together, as a share."""
    numbers = decided(plan).numbers
    return numbers["usd_per_hour_apart"] / numbers["usd_per_hour_together"] - 1


def at_capacity(plan: FleetPlan) -> float:
    """What apart costs more than together if units could be cut, USD/h."""
    numbers = decided(plan).numbers
    cut = [line for line in LINES if not line.startswith("whole_units")]
    return sum(numbers[f"usd_per_hour_{line}"] for line in cut)


def test_tight_gaps_and_long_outputs_over_a_fast_link_are_served_apart():
    plan = plan_of("apart")
    assert plan.evidence.verified
    assert decided(plan).answer == "apart"
    assert difference(plan) <= -0.2
    assert {(p.role, p.group) for p in plan.pools} == {
        ("prefill", plan.pools[0].group),
        ("decode", plan.pools[0].group),
    }


@pytest.mark.parametrize("name", SIGNS)
def test_the_plan_is_proven_and_its_dollar_lines_sum_to_the_difference(name):
    plan = plan_of(name)
    assert plan.status == "optimal"
    assert plan.evidence.verified
    made = decided(plan)
    numbers = made.numbers
    wanted = numbers["usd_per_hour_apart"] - numbers["usd_per_hour_together"]
    lines = {line.item: line.usd_per_hour for line in made.lines}
    assert tuple(lines) == LINES
    assert sum(lines.values()) == pytest.approx(wanted, abs=1e-9)
    assert {f"usd_per_hour_{item}": usd for item, usd in lines.items()}.items() <= numbers.items()
    for item in ("interference_removed", "whole_units_together"):
        assert lines[item] <= 0
    causes = ("ratio_rounding", "joint_deadlines", "hand_off", "exposed_transfer")
    for item in (*causes, "weight_replication", "whole_units_apart"):
        assert lines[item] >= -1e-9


def test_the_lines_are_in_the_table_and_in_the_explanation():
    plan = plan_of("apart")
    for tables in (plan_table(plan), why_tables(explain_plan(plan))):
        console = Console(width=100, file=StringIO(), color_system=None)
        console.print(*tables)
        said = console.file.getvalue()
        line = next(x for x in said.splitlines() if x.lstrip().startswith("interference removed"))
        assert signed(line_of(plan, "interference_removed")) in line
        assert "exposed transfer" not in said  # nothing, on such a link
        assert "difference" in said


def line_of(plan: FleetPlan, item: str) -> float:
    return next(x.usd_per_hour for x in decided(plan).lines if x.item == item)


def test_the_link_carries_what_requests_bring():
    """Bytes of the prompts over the bandwidth, by hand: 80 layers, 8 KV heads of 128, 16 bits."""
    plan = plan_of("apart")
    decode = next(p for p in plan.pools if p.role == "decode")
    assert decode.link is not None
    tokens = 2000 * decode.offered_rps
    assert decode.kv_dtype in ("fp8", "bf16")
    size = {"fp8": 1, "bf16": 2}[decode.kv_dtype]
    wanted = tokens * 2 * 80 * 8 * 128 * size / 200e9 / (decode.groups or 1)
    assert decode.link.busy_share == pytest.approx(wanted, rel=0.05)
    transfer = plan.workloads[0].kv_transfer_s
    assert transfer is not None
    assert transfer.p50 >= 1e-3  # the latency of the link
    assert transfer.p99 < 0.1


def test_links_are_as_busy_as_the_plan_s_budget_of_them_says():
    for name in ("apart", "two-accelerators"):
        plan = plan_of(name)
        pools = [p for p in plan.pools if p.role == "decode"]
        assert pools
        for pool in pools:
            use = next(u for u in plan.limits if u.name == f"links of {pool.group} (bytes/s)")
            assert pool.link is not None
            assert use.limit is not None
            assert pool.link.busy_share == pytest.approx(use.used / use.limit, rel=0.05)


def test_with_the_ratio_fixed_longer_prompts_and_outputs_do_no_good():
    sweep = {
        (p.prompt_multiple, p.output_multiple): p.attainment["assistant"].value
        for p in plan_of("apart").evidence.length_sweep
    }
    assert set(sweep) == {(0.75, 1.0), (1.25, 1.0), (1.0, 0.75), (1.0, 1.25)}
    assert sweep[1.25, 1.0] <= sweep[0.75, 1.0]
    assert sweep[1.0, 1.25] <= sweep[1.0, 0.75] + 0.005


def test_what_is_lost_at_other_lengths_is_told_beside_a_fleet_without_a_ratio():
    """By hand: at the same offered rate goodput falls as attainment does, on the same draws."""
    plan = plan_of("apart")
    (base,) = [point for point in plan.evidence.demand_sweep if point.multiple == 1.0]
    for point in plan.evidence.length_sweep:
        wanted = 1 - point.attainment["assistant"].value / base.attainment["assistant"].value
        assert point.goodput_lost == pytest.approx(wanted, abs=1e-9)
        assert point.goodput_lost_together is not None
    (made,) = [d for d in plan.decisions if "a quarter longer" in d.question]
    worst = max(p.goodput_lost or 0.0 for p in plan.evidence.length_sweep)
    assert made.answer == f"{worst:.1%} of the compliant goodput is lost at worst"
    assert max(made.numbers.values()) == worst


def test_two_sides_in_balance_drown_where_one_has_a_quarter_more_to_do():
    """Sides of 5.55 req/s each at 5 req/s: a quarter more work for either is 12 % too much."""
    sweep = plan_of("two-accelerators").evidence.length_sweep
    lost = {(p.prompt_multiple, p.output_multiple): p.goodput_lost for p in sweep}
    assert lost[1.25, 1.0] > 0.5
    assert lost[1.0, 1.25] > 0.5
    assert lost[0.75, 1.0] < 0.01
    assert all(p.unstable == (lost[p.prompt_multiple, p.output_multiple] > 0.5) for p in sweep)


def test_a_plan_with_groups_is_simulated_again_from_its_document():
    plan = plan_of("apart")
    again = simulate_plan(plan, effort=SHORT)
    assert again[0].verdict == "kept"
    assert again[0].attainment.value == pytest.approx(plan.workloads[0].attainment.value, abs=0.01)
    assert again[0].routing == plan.workloads[0].routing


def test_over_ten_gigabit_tcp_groups_lose_what_they_win_over_a_fast_link():
    slow = plan_of("apart-tcp")
    assert decided(slow).answer == "together"
    assert at_capacity(plan_of("apart")) < 0 < at_capacity(slow)
    numbers = decided(slow).numbers
    assert numbers["rps_per_group"] <= 1.25e9 / numbers["kv_bytes_per_request"]
    assert numbers["usd_per_hour_exposed_transfer"] > 0.2 * numbers["usd_per_hour_apart"]


def test_a_transfer_that_no_group_can_hide_is_told_with_its_numbers():
    plan = plan_of("apart-tcp", "workloads.assistant.slo.ttft=450 ms")
    told = decided(plan)
    assert told.answer == "together"
    assert told.because.startswith("groups are not feasible over tcp at 1.25 GB/s")
    # 80 layers x 2 x 8 heads x 128 x 1 byte (fp8 cache) or 2 (bf16) a token, and 2 ms.
    assert told.numbers["transfer_s"] == pytest.approx(0.002 + 1594 * 163_840 / 1.25e9, rel=0.01)


def test_with_loose_deadlines_groups_win_nothing():
    plan = plan_of("apart-loose")
    assert decided(plan).answer == "together"
    assert difference(plan) >= 0
    search = 0.03  # of the coarse searches behind the lines, relative
    assert at_capacity(plan) > -search * decided(plan).numbers["usd_per_hour_together"]


def test_a_looser_pace_and_a_tighter_first_token_turn_the_order():
    assert difference(plan_of("apart")) < 0
    turned = plan_of("apart-first-token")
    assert decided(turned).answer == "together"
    assert difference(turned) > 0.2


def test_a_cell_of_a_map_says_what_the_plan_says():
    loaded = load_scenario(shipped("scenarios") / "apart-first-token.yaml")
    found = flip_map(loaded, [axis_of(loaded, "ttft=1")], Bounds(1, effort=SHORT))
    (cell,) = found.cells
    plan = plan_of("apart-first-token")
    numbers = decided(plan).numbers
    assert cell.winner == decided(plan).answer
    assert cell.usd_per_hour_together == pytest.approx(numbers["usd_per_hour_together"])
    assert cell.usd_per_hour_apart == pytest.approx(numbers["usd_per_hour_apart"])
    assert cell.fluid_difference_usd_per_hour == pytest.approx(at_capacity(plan))
    assert cell.verified


def test_groups_stand_beside_replicas_that_do_both():
    plan = plan_of("side-by-side")
    assert plan.evidence.verified
    assert decided(plan).answer == "both ways"
    assert {p.role for p in plan.pools} == {"colocated", "prefill", "decode"}
    numbers = decided(plan).numbers
    assert plan.totals is not None
    for way in ("apart", "together"):
        assert plan.totals.cost_usd_per_hour < numbers[f"usd_per_hour_{way}"]


def test_two_kinds_of_accelerators_beat_either_alone():
    plan = plan_of("two-accelerators")
    assert plan.evidence.verified
    assert {(p.role, p.accelerator) for p in plan.pools} == {
        ("prefill", "h100-sxm"),
        ("decode", "h200-sxm"),
    }
    which = next(d for d in plan.decisions if d.question == "which accelerator")
    for name in ("h100-sxm", "h200-sxm"):
        alone = which.numbers[f"usd_per_hour_on_{name}_alone"]
        assert which.numbers["usd_per_hour"] < 0.97 * alone


def test_groups_take_ways_whose_links_carry_their_kv_and_a_simulation_confirms_the_use():
    plan = plan_of("shared-links")
    assert plan.evidence.verified
    links = {x.name: x for x in plan.limits if x.name.startswith("link ")}
    for use in links.values():
        assert use.limit is not None
        assert use.simulated is not None
        assert use.used <= use.limit
        assert use.simulated == pytest.approx(use.used, rel=0.05)
    # 2 x 64 layers x 8 heads x 128 x 2 bytes a token, 2,000 of them, 12 times a second; a rack's
    # uplink is half of what its nodes send: 12.5 GB/s of two nodes, 6.25 of one: too little.
    out = links["link rack:region.hall.rack1:out (GB/s)"]
    assert out.used == pytest.approx(12 * 2000 * 262_144 / 1e9, rel=0.02)
    assert out.limit == pytest.approx(12.5)
    into = [links[f"link rack:region.hall.rack{i}:in (GB/s)"] for i in (2, 3)]
    assert [x.limit for x in into] == pytest.approx([6.25, 6.25])
    assert sum(x.used for x in into) == pytest.approx(out.used)


def test_sides_of_groups_are_placed_at_the_ends_of_their_ways():
    plan = plan_of("shared-links")
    decode = [p for p in plan.pools if p.link is not None]
    assert all(p.link_class == "zone-rdma" for p in decode)
    for pool in decode:
        assert pool.link is not None
        assert sum(way.share for way in pool.link.ways) == pytest.approx(1.0)
        for way in pool.link.ways:
            assert (way.prefill, way.decode[:9]) == ("hall.rack1.h100-sxm", "hall.rack")
        wanted = {way.decode: way.groups for way in pool.link.ways}
        units: dict[str, set[int | None]] = {}
        for row in plan.placement:
            if row.pool == pool.id:
                units.setdefault(row.domain, set()).add(row.unit)
        assert {domain: len(own) for domain, own in units.items()} == wanted


def test_a_plan_over_shared_links_is_simulated_again_as_it_stands():
    plan = plan_of("shared-links")
    again = simulate_plan(plan, effort=SHORT)
    assert [w.verdict for w in again] == ["kept"]


def test_what_a_transfer_takes_is_told_idle_and_under_load():
    plan = plan_of("shared-links")
    for link in (p.link for p in plan.pools if p.link is not None):
        idle, loaded = link.kv_transfer_idle_s, link.kv_transfer_s
        assert idle is not None
        assert loaded is not None
        # Alone: 262,144 bytes for each of some 2,000 tokens (a median of a gamma law with a CV of
        # 0.5 is 0.917 of its mean) at 6.25 GB/s, and 2 ms. Others on the link only add to that.
        assert idle.p50 == pytest.approx(0.002 + 0.917 * 2000 * 262_144 / 6.25e9, rel=0.03)
        assert loaded.p50 >= idle.p50
        assert loaded.p99 > idle.p99


def test_a_traced_group_has_the_very_requests_of_the_simulation():
    """The same times with every step kept; each request's pieces follow each other to the tick."""
    plan = plan_of("apart")
    (run,) = trace_plan(plan, requests=1_500, folder=Path())
    problem, fleet = fleet_in(plan, None, Path())
    study = study_of(problem)
    (pool,) = fleet.for_simulation(problem.policies.router)
    draw = study.draws.get(pool.load_rps, 1_500, 0, REPLAYING)
    rate = sum(pool.load_rps) * pool.setup.simulated / pool.setup.replicas
    fast = run_pool(pool.setup, draw, rate, study.deadlines, keep=True)
    assert fast.offered.sum() == run.counted.size
    assert fast.compliant.sum() == run.met[run.counted].sum()
    assert fast.latencies.ttft_s.tolist() == (run.ttft[run.counted] * 1e-12).tolist()
    assert run.engines == ("prefill 0", "decode 0")
    charged = sum(share.sum() for share in run.charges(run.counted).values())
    assert charged == pytest.approx((~run.met[run.counted]).sum())
    told = run.timelines(run.counted[:200].tolist())
    for rank, pieces in told.items():
        took = run.records.finish[rank] - run.traffic.arrival[rank] + run.path
        assert sum(piece.end - piece.start for piece in pieces) == took
        assert all(a.end == b.start for a, b in pairwise(pieces))
    assert {piece.stage for pieces in told.values() for piece in pieces} >= {
        "prefill",
        "kv_transfer",
        "handoff",
        "decode",
    }
