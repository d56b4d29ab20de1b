"""Column generation: the optimum of all templates, from few simulations, whatever the threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from planner.candidates.frontier import measure_frontier
from planner.errors import LimitReachedError
from planner.kernels import COMPILED
from planner.milp import choose
from planner.planning.clock import Clock
from planner.planning.column_prices import shortfall
from planner.planning.program import instance_of
from tests.columns import CHAT, DOCS, LARGE, SMALL_LLM, question, scenario, workload

if TYPE_CHECKING:
    from pathlib import Path

    from planner.candidates.frontier import Frontier
    from tests.columns import Question

FIVE = {
    "a100-80g-sxm": 1.79,
    "h100-sxm": 2.99,
    "h200-sxm": 3.79,
    "b200-sxm": 5.49,
    "l40s": 1.09,
}
TIGHT = "ttft: 500 ms, tpot: 30 ms, attainment: 0.95"
LOOSE = "ttft: 5 s, tpot: 80 ms, attainment: 0.9"
ONE = scenario([workload(CHAT, SMALL_LLM, 150, TIGHT)], FIVE, tp="[1, 2, 4]")
CHEAPEST = scenario(
    [workload(CHAT, SMALL_LLM, 60, TIGHT), workload(DOCS, SMALL_LLM, 6, LOOSE)],
    {g: FIVE[g] for g in ("h100-sxm", "b200-sxm", "l40s")},
    tp="[1, 2]",
    stock={"b200-sxm": 1},
    more="objective: min_cost\n",
)
SEVENTY = scenario(
    [workload(CHAT, LARGE, 30, LOOSE)],
    {g: FIVE[g] for g in ("h100-sxm", "h200-sxm", "b200-sxm")},
    tp="[1, 2, 4, 8]",
)


def enumerated(asked: Question) -> dict[str, Frontier]:
    router = asked.problem.policies.router
    found = {}
    for j, column in asked.pricing.columns.items():
        guess = 0.85 * column.bound.load_rps
        size = max(1, round(sum(column.template.mix_rps) / guess))
        frontier = measure_frontier(
            asked.study, column.template, router, size, guess, asked.pricing.effort
        )
        if frontier is not None:
            found[j] = frontier
    return found


@pytest.mark.skipif(not COMPILED, reason="plain Python would take minutes to measure them all")
@pytest.mark.parametrize("text", [ONE, CHEAPEST, SEVENTY], ids=["one", "cheapest", "70B"])
def test_same_optimum_as_all_templates_with_a_fifth_of_the_requests(
    text: str, tmp_path: Path
) -> None:
    asked = question(text, tmp_path)
    problem, meter = asked.problem, asked.study.meter
    asked.pricing.run()
    priced = meter.requests
    everything = enumerated(asked)
    some = {j: everything[j] for j in asked.pricing.measured() if j in everything}
    best = choose(instance_of(problem, everything), problem.objective, gap=1e-4).objective
    found = choose(instance_of(problem, some), problem.objective, gap=1e-4).objective
    assert shortfall(problem.objective, found, best) <= problem.gap
    assert priced <= 0.2 * (meter.requests - priced)
    proof = asked.pricing.proof
    assert proof is not None
    assert proof.measured + proof.open <= len(asked.pricing.columns)


def test_results_do_not_depend_on_threads(tmp_path: Path) -> None:
    text = scenario([workload(CHAT, SMALL_LLM, 40, LOOSE)], {"h100-sxm": 2.99}, tp="[1, 2]")
    found = []
    for threads in (1, 4):
        asked = question(text, tmp_path)
        asked.pricing.runs.threads = threads
        asked.pricing.run()
        points = {j: (f.capacity_rps, f.points) for j, f in asked.pricing.measured().items()}
        found.append((points, asked.study.meter.requests, asked.pricing.proof))
    assert found[0] == found[1]


def test_time_that_is_over_ends_all_runs(tmp_path: Path) -> None:
    text = scenario([workload(CHAT, SMALL_LLM, 40, LOOSE)], {"h100-sxm": 2.99}, tp="[1, 2]")
    asked = question(text, tmp_path)
    asked.pricing.clock = asked.pricing.runs.clock = Clock(0.0)
    with pytest.raises(LimitReachedError):
        asked.pricing.run()
    assert asked.pricing.measured() == {}
