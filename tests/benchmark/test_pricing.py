"""How much of all operating points column generation simulates, and whether it loses anything."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from planner.candidates.frontier import measure_frontier
from planner.milp import choose
from planner.milp.pricing import relaxation_of
from planner.planning.column_prices import shortfall
from planner.planning.program import instance_of
from tests.columns import CHAT, CODE, DOCS, LARGE, SMALL_LLM, question, scenario, workload

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from planner.candidates.frontier import Frontier
    from tests.columns import Question

pytestmark = pytest.mark.benchmark

FIVE = {
    "a100-80g-sxm": 1.79,
    "h100-sxm": 2.99,
    "h200-sxm": 3.79,
    "b200-sxm": 5.49,
    "l40s": 1.09,
}
THREE = {"h100-sxm": 2.99, "h200-sxm": 3.79, "b200-sxm": 5.49}
TIGHT, LOOSE = (
    "ttft: 500 ms, tpot: 30 ms, attainment: 0.95",
    "ttft: 5 s, tpot: 80 ms, attainment: 0.9",
)
CALM = "ttft: 20 s, tpot: 150 ms, attainment: 0.9"
STOCKS = {"h100-sxm": 12, "h200-sxm": 8, "l40s": 16}

INSTANCES = {
    "one workload": scenario([workload(CHAT, SMALL_LLM, 150, TIGHT)], FIVE, tp="[1, 2, 4]"),
    "a small load": scenario([workload(CHAT, SMALL_LLM, 8, TIGHT)], FIVE, tp="[1, 2, 4]"),
    "two workloads": scenario(
        [workload(CHAT, SMALL_LLM, 60, TIGHT), workload(DOCS, SMALL_LLM, 6, CALM)],
        FIVE,
        tp="[1, 2, 4]",
    ),
    "three workloads": scenario(
        [
            workload(CHAT, SMALL_LLM, 40, TIGHT),
            workload(CODE, SMALL_LLM, 20, LOOSE),
            workload(DOCS, SMALL_LLM, 4, CALM),
        ],
        FIVE,
        tp="[1, 2]",
        seqs="[64, 256]",
    ),
    "70B": scenario([workload(CHAT, LARGE, 30, LOOSE)], THREE, tp="[1, 2, 4, 8]"),
    "70B, two workloads": scenario(
        [workload(CHAT, LARGE, 12, TIGHT), workload(DOCS, LARGE, 3, CALM)],
        THREE,
        tp="[2, 4, 8]",
    ),
    "stocks": scenario(
        [workload(CHAT, SMALL_LLM, 200, TIGHT), workload(DOCS, SMALL_LLM, 10, CALM)],
        FIVE,
        tp="[1, 2]",
        stock=STOCKS,
    ),
    "two models": scenario(
        [workload(CHAT, SMALL_LLM, 80, TIGHT), workload(DOCS, LARGE, 3, CALM)],
        FIVE,
        tp="[1, 2, 4]",
    ),
    "per dollar": scenario(
        [workload(CHAT, SMALL_LLM, 90, LOOSE), workload(CODE, SMALL_LLM, 30, LOOSE)],
        FIVE,
        tp="[1, 2]",
        more="objective: max_goodput_per_usd\n",
    ),
    "per dollar, 70B": scenario(
        [workload(CODE, LARGE, 10, LOOSE)],
        THREE,
        tp="[1, 2, 4, 8]",
        more="objective: max_goodput_per_usd\n",
    ),
    "within a budget": scenario(
        [workload(CHAT, SMALL_LLM, 60, TIGHT), workload(DOCS, SMALL_LLM, 6, CALM)],
        FIVE,
        tp="[1, 2]",
        more="objective: max_goodput\nlimits: {budget: 60 USD/h}\n",
    ),
    "many policies": scenario(
        [workload(CODE, SMALL_LLM, 60, LOOSE)],
        FIVE,
        tp="[1, 2, 4]",
        budgets="[1024, 2048, 4096, 8192]",
        seqs="[32, 64, 128, 256]",
    ),
}


def enumerated(asked: Question) -> Mapping[str, Frontier]:
    """Measure every template, with the effort that is spent on those that are priced in."""
    pricing = asked.pricing
    router = asked.problem.policies.router
    found = {}
    for j, column in pricing.columns.items():
        guess = 0.85 * column.most_rps
        size = max(1, round(sum(column.template.mix_rps) / guess))
        frontier = measure_frontier(
            asked.study, column.template, router, size, guess, pricing.effort
        )
        if frontier is not None:
            found[j] = frontier
    return found


@pytest.mark.parametrize("name", INSTANCES)
def test_the_same_optimum_with_a_fifth_of_the_simulations(name: str, tmp_path: Path) -> None:
    asked = question(INSTANCES[name], tmp_path)
    problem, pricing, meter = asked.problem, asked.pricing, asked.study.meter
    began_s = time.process_time()
    pricing.run()
    priced, priced_s = meter.requests, time.process_time() - began_s
    began_s = time.process_time()
    everything = enumerated(asked)
    all_, all_s = meter.requests - priced, time.process_time() - began_s

    aim = problem.objective
    full = choose(instance_of(problem, everything), aim, gap=1e-4)
    # Pools of priced and of enumerated templates were measured at slightly different sizes: the
    # fleet that pricing chose from is valued by the enumeration's points.
    some = {j: everything[j] for j in pricing.measured() if j in everything}
    few = choose(instance_of(problem, some), aim, gap=1e-4)
    lp = shortfall(
        aim,
        relaxation_of(instance_of(problem, some), aim).value,
        relaxation_of(instance_of(problem, everything), aim).value,
    )
    lost = shortfall(aim, few.objective, full.objective)
    over = max(
        f.capacity_rps.value / pricing.columns[j].bound.load_rps for j, f in everything.items()
    )
    print(
        f"\n| {name} | {len(pricing.columns)} | {len(pricing.measured())} | {priced / all_:.1%}"
        f" | {lost:.2%} | {lp:.2%} | {priced_s:.1f} of {all_s:.1f} CPU-s | {over:.2f} |"
    )
    assert lost <= problem.gap
    assert priced <= 0.2 * all_
