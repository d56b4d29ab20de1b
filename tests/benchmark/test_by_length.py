"""Routing by length between replicas that do both and groups: a search of many simulations."""

from __future__ import annotations

import pytest

from planner.data import shipped
from planner.planning import plan_scenario
from planner.scenario.load import load_scenario
from planner.simulation.effort import Effort, RunSize

pytestmark = pytest.mark.benchmark

SHORT = Effort(3_000, RunSize(8_000, 3, 1_200), RunSize(12_000, 4, 2_000), 96_000, 12_000, 4)


def test_short_prompts_go_to_replicas_that_do_both_and_long_ones_to_groups():
    plan = plan_scenario(load_scenario(shipped("scenarios") / "by-length.yaml"), effort=SHORT)
    assert plan.evidence.verified
    (split,) = plan.splits
    short, long = (part.id for part in split.parts)
    roles = {(p.role, p.id.split("@")[1].split("/")[0]) for p in plan.pools}
    assert roles == {("colocated", short), ("prefill", long), ("decode", long)}
    made = {d.question: d for d in plan.decisions}
    apart = made["prefill and decode together or apart"]
    assert apart.answer == "both ways"
    assert plan.totals is not None
    for way in ("apart", "together"):
        assert plan.totals.cost_usd_per_hour < apart.numbers[f"usd_per_hour_{way}"]
    by_length = made["split assistant by prompt length"]
    assert plan.totals.cost_usd_per_hour < by_length.numbers["usd_per_hour_one_pool"]
