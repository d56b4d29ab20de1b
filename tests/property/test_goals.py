"""Second goals against every fleet there is: first as good, then best by each goal in order."""

import numpy as np
import pytest

from planner.errors import InfeasibleError
from planner.milp import Goals, choose
from tests.brute import cost_of, fleets, goodput_of
from tests.property.test_milp import OBJECTIVES, tiny

ORDERS = (
    ("fewest_pools",),
    ("fewest_moves", "lowest_power"),
    ("lowest_power", "fewest_pools"),
    ("fewest_pools", "fewest_moves", "lowest_power"),
)


def counted(goal, data, n, goals):
    units = dict(zip(data.J, n, strict=True))
    if goal == "fewest_pools":
        return sum(count > 0 for count in n)
    if goal == "fewest_moves":
        return sum(abs(units[j] - goals.current.get(j, 0)) for j in data.J)
    return sum(units[j] * goals.watts[j] for j in data.J)


def as_good(data, known, objective, gap):
    """Every fleet within the gap of the best; under most goodput, as cheap as the cheapest too."""
    value = {
        "min_cost": lambda n, g: -cost_of(data, n),
        "max_goodput": lambda n, g: g,
        "max_goodput_per_usd": lambda n, g: g / cost_of(data, n) if cost_of(data, n) else 0.0,
    }[objective]
    best = max(value(n, g) for n, g in known)
    near = [(n, g) for n, g in known if value(n, g) >= best - gap * abs(best) - 1e-9]
    if objective == "max_goodput":
        top = [cost_of(data, n) for n, g in known if g >= best * (1 - 1e-9)]
        near = [(n, g) for n, g in near if cost_of(data, n) <= min(top) * (1 + gap) + 1e-9]
    return [n for n, _ in near]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", range(25))
def test_the_fleet_is_the_first_by_the_goals_in_their_order(seed, objective, order):
    data, gap = tiny(seed), 0.05
    rng = np.random.default_rng([seed, 7])
    goals = Goals(
        order,
        current={j: int(rng.integers(0, 4)) for j in data.J},
        watts={j: float(rng.integers(1, 9)) for j in data.J},
    )
    try:
        first = choose(data, objective, gap=1e-7)
    except InfeasibleError:
        return
    if first.objective <= 0:
        return
    known = [(n, g) for n in fleets(data) if (g := goodput_of(data, n)) is not None]
    choice = choose(data, objective, gap=gap, goals=goals)
    own = tuple(choice.units.get(j, 0) for j in data.J)
    # The search may end anywhere within the gap, and the goals give another gap from there.
    sure = as_good(data, known, objective, 0.0)
    reach = as_good(data, known, objective, 2.2 * gap)
    assert own in reach
    if objective == "max_goodput":  # a cheaper fleet with less goodput is not given up for a dearer
        sure = [n for n in sure if cost_of(data, n) <= cost_of(data, own)]

    def rank(n):
        return tuple(round(counted(goal, data, n, goals), 6) for goal in order)

    assert rank(own) <= min(map(rank, sure), default=rank(own))
    assert choice.objective == pytest.approx(
        {
            "min_cost": choice.cost_usd_per_hour,
            "max_goodput": sum(data.worth(w) * g for w, g in choice.goodput_rps.items()),
        }.get(objective, choice.objective)
    )


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", range(25))
def test_without_a_gap_the_goals_choose_among_the_best_alone(seed, objective):
    data = tiny(seed)
    goals = Goals(("fewest_pools", "lowest_power"), watts=dict.fromkeys(data.J, 1.0))
    try:
        plain = choose(data, objective, gap=1e-6)
        choice = choose(data, objective, gap=1e-6, goals=goals)
    except InfeasibleError:
        return
    assert choice.objective == pytest.approx(plain.objective, rel=1e-5)
    if plain.objective <= 0:
        return
    known = [(n, g) for n in fleets(data) if (g := goodput_of(data, n)) is not None]
    best = as_good(data, known, objective, 1e-9)

    def rank(n):
        return tuple(counted(goal, data, n, goals) for goal in goals.order)

    assert rank(tuple(choice.units.get(j, 0) for j in data.J)) <= min(map(rank, best))
