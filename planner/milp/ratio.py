"""The most compliant requests per dollar, by Dinkelbach's method.

A ratio G/C of linear terms is at least theta for some fleet exactly when max (G - theta C) is
at least zero (Dinkelbach 1967). Each step solves that linear program in theta, and sets theta
to the ratio of the fleet that it finds; theta rises faster than linearly.

The bare ratio would abandon the dear classes. It is the rows, every promise among them, that
make the question a sound one; this module leaves them as they are.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from planner.errors import InputError, LimitReachedError
from planner.milp.affordable import cheapest, without_dear
from planner.milp.choice import Found, Step
from planner.milp.solve import solve

if TYPE_CHECKING:
    from planner.milp.clock import Deadline
    from planner.milp.formulation import Model
    from planner.milp.highs import Settings
    from planner.milp.solve import Solver

MAX_STEPS: Final = 8
"""Most steps; two to five are usual."""
FIRST_GAP: Final = 0.02
"""Gap of the cheapest fleet: it is a place to begin, and its bound is only divided by."""


def best_ratio(model: Model, settings: Settings, deadline: Deadline, solver: Solver) -> Found:
    """Find the fleet with the most compliant goodput per cost, and bound every other.

    The cheapest fleet gives the first theta, and its bound a lower bound C_min on the cost of
    any fleet. With UB an upper bound of max (G - theta C), every fleet has
    G/C <= theta + max(UB, 0)/C <= theta + max(UB, 0)/C_min. A step stops at the absolute gap
    that makes the last term half of the gap that was asked for.

    Returns:
        The fleet; its objective is in (weighted) compliant req/s per USD/h.

    Raises:
        InfeasibleError: No fleet keeps every row.
        InputError: A fleet costs nothing, so its ratio is unbounded.
        LimitReachedError: The time limit passed before any fleet was found.
        SolverError: An answer did not survive its check.
    """
    goodput = model.goodput_program().objective
    cost = model.cost_program().objective
    rough = replace(deadline.limit(settings, 0.5), gap=max(settings.gap, FIRST_GAP))
    first = cheapest(model, rough, deadline, solver)
    best, theta = first.x, _ratio(goodput(first.x), cost(first.x))
    data = model.data
    least_share = min(data.shares().values())
    least_unit = min((data.least_usd_per_hour(j) * least_share for j in data.J), default=0.0)
    # A fleet that is empty has no ratio; any other pays for a unit at least.
    least_cost = max(first.bound, least_unit)
    demand = sum(
        share * data.worth(w) * data.demand(w, t)
        for t, share in data.shares().items()
        for w in data.W
    )
    bound = demand / least_cost if least_cost > 0 else float("inf")
    steps = [Step(0.0, goodput(best), cost(best), bound)]

    while len(steps) < MAX_STEPS and bound > theta * (1 + settings.gap):
        near = max(settings.gap, 1e-7) * theta * max(least_cost, 0.0) / 2
        exact = replace(deadline.limit(settings), gap=0.0 if near else 1e-2, absolute_gap=near)
        worthwhile = without_dear(
            model, model.ratio_program(theta), demand / theta if theta > 0 else math.inf
        )
        try:
            found = solve(model, worthwhile, exact, solver, start=best)
        except LimitReachedError:
            break
        if least_cost > 0:
            bound = min(bound, theta + max(found.bound, 0.0) / least_cost)
        asked, reached = theta, _ratio(goodput(found.x), cost(found.x))
        if reached > theta:
            best, theta = found.x, reached
        steps.append(Step(asked, goodput(found.x), cost(found.x), bound))
        if reached <= asked * (1 + 1e-12):
            break
    return Found("max_goodput_per_usd", best, theta, max(bound, theta), tuple(steps))


def _ratio(goodput_rps: float, cost_usd_per_hour: float) -> float:
    if cost_usd_per_hour > 0:
        return goodput_rps / cost_usd_per_hour
    if goodput_rps > 0:
        raise InputError(
            "max_goodput_per_usd: a fleet that costs nothing keeps every promise, so the ratio "
            "has no bound; give every template a price, or ask for max_goodput"
        )
    return 0.0
