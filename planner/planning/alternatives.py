"""What else could have been: the fleets next to the plan, and the prices at which they take over.

All of it is solved again over the operating points that were measured for the plan, and nothing
of it is simulated.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from planner.errors import InfeasibleError, LimitReachedError
from planner.fleet import Alternatives, PriceRange, RunnerUp
from planner.milp import choose, price_range, reduced_costs, with_one
from planner.milp.clock import Deadline
from planner.planning.program import instance_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planner.candidates.frontier import Frontier
    from planner.fleet import Rejected
    from planner.milp import Choice
    from planner.planning.refine import Refined
    from planner.problem.resolve import Problem

PART_S: Final = 30.0
"""Time for each part, far beyond what it needs; what is not reached by then is left out."""
SLACK: Final = 1e-4
"""Least gap: by which share a rival must be better than the plan to take its place."""


def alternatives(problem: Problem, refined: Refined) -> Alternatives:
    """Solve again without what the plan has, and at other prices."""
    frontiers, choice = refined.frontiers, refined.choice
    used = {j: f for j, f in frontiers.items() if j in choice.units}
    covers = (
        f"{len(frontiers)} templates at the operating points that were measured for this plan; not"
        " simulated, and not templates that were left out before"
    )
    return Alternatives(
        runners_up=tuple(_runners_up(problem, refined, used)),
        price_ranges=tuple(_ranges(problem, refined)),
        covers=covers,
    )


def _runners_up(
    problem: Problem, refined: Refined, used: Mapping[str, Frontier]
) -> Iterator[RunnerUp]:
    deadline = Deadline.after(PART_S)
    kinds = sorted({kind for f in used.values() for kind in f.template.build.devices})
    for kind in kinds:
        rest = {j: f for j, f in refined.frontiers.items() if kind not in f.template.build.devices}
        yield _without(problem, refined.choice, f"accelerator {kind}", rest, deadline)
    for j in sorted(used):
        rest = {k: f for k, f in refined.frontiers.items() if k != j}
        yield _without(problem, refined.choice, f"pool {j}", rest, deadline)


def _without(
    problem: Problem,
    choice: Choice,
    what: str,
    rest: dict[str, Frontier],
    deadline: Deadline,
) -> RunnerUp:
    nothing = RunnerUp(without=what, pools=(), usd_per_hour=None, objective=None, loses=None)
    if not rest or deadline.left_s() <= 0:
        return nothing
    try:
        found = choose(
            instance_of(problem, rest),
            choice.name,
            time_limit_s=deadline.left_s(),
            gap=max(problem.gap / 4, SLACK),
        )
    except (InfeasibleError, LimitReachedError):
        return nothing
    return RunnerUp(
        without=what,
        pools=_pools(found.units),
        usd_per_hour=found.cost_usd_per_hour,
        objective=_told(found),
        loses=_loss(choice, found),
    )


def _told(choice: Choice) -> float:
    """Return an objective in the unit of the plan document: requests, not req/s, per dollar."""
    return choice.objective * (3600 if choice.name == "max_goodput_per_usd" else 1)


def _loss(choice: Choice, other: Choice) -> float:
    """Return by which share another fleet's objective is worse."""
    worse = other.objective - choice.objective
    return (worse if choice.name == "min_cost" else -worse) / abs(choice.objective or 1.0)


def _pools(units: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(f"{n} x {j}" for j, n in sorted(units.items()))


def _ranges(problem: Problem, refined: Refined) -> Iterator[PriceRange]:
    """Find the range of each accelerator's price, where the objective depends on prices."""
    if refined.choice.name == "max_goodput" or problem.sites.all:
        return  # whole nodes are bought: no accelerator has a price of its own
    deadline = Deadline.after(PART_S)
    data = instance_of(problem, refined.frontiers)
    gap = max(SLACK, problem.gap)
    for supply in problem.supplies:
        g, now = supply.accelerator.id, supply.usd_per_hour
        if not any(data.accelerator_of[j] == g for j in data.J):
            continue
        found = price_range(data, refined.choice, g, now, deadline, gap)
        if found is None:
            return
        yield PriceRange(
            accelerator=g,
            usd_per_hour=now,
            low=found.low if found.below else None,
            high=found.high if math.isfinite(found.high) else None,
            below=_pools(found.below),
            above=_pools(found.above),
        )


def with_numbers(
    rejected: Sequence[Rejected], problem: Problem, refined: Refined
) -> tuple[Rejected, ...]:
    """Add to the templates that were measured what the program says of each."""
    numbers = _rival_numbers(problem, refined)
    return tuple(
        one.model_copy(update={"numbers": {**one.numbers, **numbers.get(one.template, {})}})
        for one in rejected
    )


def _rival_numbers(problem: Problem, refined: Refined) -> dict[str, dict[str, float]]:
    """Return, for each measured template that the program did not take, what it is short of.

    The last two for the nearest template of each accelerator only: they take solves of their own.
    ``reduced_cost_usd_per_hour``: of a unit at the plan's prices of requests, stock and budget.
    ``loses_with_one``: by which share the best fleet with one is worse.
    ``unit_usd_per_hour_to_enter``: price of a unit at which that fleet is as good as the plan.
    """
    choice = refined.choice
    data = instance_of(problem, refined.frontiers)
    deadline = Deadline.after(PART_S)
    try:
        reduced = reduced_costs(data, choice, PART_S)
    except LimitReachedError:
        reduced = {}
    numbers: dict[str, dict[str, float]] = {}
    nearest: dict[str, str] = {}
    for j in sorted(data.J, key=lambda j: (reduced.get(j) or 0.0, j)):
        if j in choice.units:
            continue
        numbers[j] = {}
        if (beyond := reduced.get(j)) is not None:
            numbers[j]["reduced_cost_usd_per_hour"] = beyond
        nearest.setdefault(data.accelerator_of[j], j)
    for j in nearest.values():
        if deadline.left_s() <= 0:
            break
        forced = with_one(data, choice, j, deadline.left_s(), max(problem.gap / 4, SLACK))
        if forced is None:
            continue
        mine = numbers[j]
        mine["usd_per_hour_with_one"] = forced.choice.cost_usd_per_hour
        mine["loses_with_one"] = _loss(choice, forced.choice)
        if forced.enters_at_usd_per_hour is not None:
            mine["unit_usd_per_hour"] = data.usd_per_hour[j]
            mine["unit_usd_per_hour_to_enter"] = forced.enters_at_usd_per_hour
    return numbers
