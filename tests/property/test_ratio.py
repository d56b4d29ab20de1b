"""The best ratio is no worse than the best of fifty budgets, and found in a few steps."""

import pytest

from planner.milp import choose
from planner.milp.ratio import MAX_STEPS
from tests.frontiers import best_of_budgets, shedding_problem

GAP = 1e-4


@pytest.mark.parametrize("seed", range(4))
def test_no_budget_has_a_better_ratio(seed):
    data = shedding_problem(seed)
    best = choose(data, "max_goodput_per_usd", gap=GAP)
    rival, spread = best_of_budgets(data, GAP)
    assert best.status == "optimal"
    assert len(best.steps) <= MAX_STEPS
    assert best.objective >= rival.objective / rival.cost_usd_per_hour * (1 - GAP)
    assert best.bound >= rival.objective / rival.cost_usd_per_hour * (1 - 1e-7)
    assert spread > 0.01  # budgets do differ: the best of them is not any


@pytest.mark.parametrize("seed", range(100, 120))
def test_theta_rises_to_the_ratio_in_at_most_eight_steps(seed):
    data = shedding_problem(seed)
    best = choose(data, "max_goodput_per_usd", gap=GAP)
    thetas = [step.theta for step in best.steps]
    bounds = [step.bound for step in best.steps]
    assert best.status == "optimal"
    assert len(thetas) <= MAX_STEPS == 8
    assert thetas == sorted(thetas)
    assert bounds == sorted(bounds, reverse=True)
    assert best.objective == pytest.approx(
        max(step.goodput_rps / step.cost_usd_per_hour for step in best.steps)
    )
