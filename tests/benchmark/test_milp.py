"""Time to a small gap on synthetic instances of the size that one period and domain has."""

import time

import pytest

from planner.milp import choose
from planner.milp.formulation import model_of
from planner.milp.objective import Objective
from tests.frontiers import BUDGETS, best_of_budgets, shedding_problem
from tests.instances import fleet_problem


@pytest.mark.benchmark
@pytest.mark.parametrize("objective", ["min_cost", "max_goodput", "max_goodput_per_usd"])
@pytest.mark.parametrize(("demand", "gap"), [(10.0, 1e-3), (1.0, 1e-2)])
def test_one_period_one_domain_within_ten_seconds(
    objective: Objective, demand: float, gap: float
) -> None:
    """7,000 units to 0.1 %; 700 units to 1 %, where 0.1 % would be less than one unit's price."""
    data = fleet_problem(demand)
    began_s = time.process_time()
    model = model_of(data)
    built_s = time.process_time() - began_s
    began_s = time.process_time()
    choice = choose(data, objective, gap=gap, time_limit_s=60)
    solved_s = time.process_time() - began_s
    nonzeros = model.program.A.nnz
    print(
        f"\n{objective}, {sum(choice.units.values())} units: {len(model.program.rows)} rows, "
        f"{len(model.program.columns)} columns, {nonzeros} nonzeros, built in {built_s:.3f} s "
        f"({built_s / nonzeros * 1e6:.1f} us each); {solved_s:.2f} CPU-s to a gap of "
        f"{choice.gap:.2e} in {len(choice.steps)} steps"
    )
    assert choice.status == "optimal"
    assert solved_s < 10


@pytest.mark.benchmark
@pytest.mark.parametrize("templates", [10, 40])
def test_the_best_ratio_beside_the_best_of_fifty_budgets(templates: int) -> None:
    """As good on every instance, in at most 8 steps, for a part of the time."""
    worst, steps, ours_s, theirs_s = 1.0, [], 0.0, 0.0
    for seed in range(20):
        data = shedding_problem(seed, templates, 4)
        began_s = time.process_time()
        best = choose(data, "max_goodput_per_usd", gap=1e-4)
        ours_s += time.process_time() - began_s
        began_s = time.process_time()
        rival, _ = best_of_budgets(data, 1e-4)
        theirs_s += time.process_time() - began_s
        worst = min(worst, best.objective / (rival.objective / rival.cost_usd_per_hour))
        steps.append(len(best.steps))
    print(
        f"\n{templates} templates, 20 instances: ratio at least {worst:.6f} of the best of"
        f" {BUDGETS} budgets; {sum(steps) / len(steps):.1f} steps, {max(steps)} at most;"
        f" {ours_s:.1f} CPU-s beside {theirs_s:.1f}"
    )
    assert worst >= 1 - 1e-4
    assert max(steps) <= 8
