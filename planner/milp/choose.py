"""The entry: an instance and an objective in, a fleet or the reason for none out."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from planner.errors import InfeasibleError, InputError, LimitReachedError
from planner.milp.affordable import cheapest, without_dear
from planner.milp.alike import merged, told_apart
from planner.milp.choice import Found, Step, choice_of
from planner.milp.clock import Deadline
from planner.milp.dominated import without_dominated
from planner.milp.formulation import model_of
from planner.milp.goals import prefer
from planner.milp.highs import Settings
from planner.milp.ratio import best_ratio
from planner.milp.relax import no_fleet
from planner.milp.relaxed_losses import with_relaxed_losses
from planner.milp.solve import solve
from planner.milp.start import incumbent
from planner.milp.surviving import (
    AT_ONCE,
    named_apart,
    not_survived,
    with_every_group,
    with_losses,
)

if TYPE_CHECKING:
    from planner.milp.choice import Choice
    from planner.milp.formulation import Model
    from planner.milp.goals import Goals
    from planner.milp.instance import Instance
    from planner.milp.objective import Objective
    from planner.milp.solve import Solver


def choose(
    instance: Instance,
    objective: Objective,
    *,
    time_limit_s: float = 60.0,
    gap: float = 1e-3,
    solver: Solver = "highs",
    seed: int = 0,
    goals: Goals | None = None,
) -> Choice:
    """Choose units and operating points that keep every promise within the limits.

    Of fleets with equal units the one with the highest compliant goodput is returned. Of
    fleets with the highest goodput, ``max_goodput`` returns a cheapest one.

    Args:
        instance: What can be built, and what is asked for.
        objective: ``min_cost``, ``max_goodput`` or ``max_goodput_per_usd``.
        time_limit_s: Seconds for all solves together; the best fleet so far is returned then.
            Explaining why there is none may take as long again.
        gap: Relative gap at which a fleet counts as optimal; below 1e-6 counts as 1e-6.
        solver: ``highs``, the name of a solver that PuLP knows, or such a solver.
        seed: Of the solver's random numbers; equal arguments give equal answers, unless the
            time limit ends the work.
        goals: What is preferred among fleets that are as good within the gap; the search begins
            at the current fleet, if there is one that keeps every promise.

    Returns:
        The fleet with its bound; ``status`` tells whether the gap was closed.

    Raises:
        InfeasibleError: No fleet exists; a :class:`~planner.milp.relax.NoFleetError`, which
            names the limits that would have to give way, and by how much.
        InputError: The objective, the solver, the time limit or the gap cannot be used.
        LimitReachedError: The time limit passed before any fleet was found.
        SolverError: The solver failed, or its answer did not survive our check.
    """
    for name, number in (("time_limit_s", time_limit_s), ("gap", gap)):
        if not (math.isfinite(number) and number >= 0):
            raise InputError(f"{name}: must be finite and at least 0; got {number}")
    now = goals.current if goals is not None else {}
    asked, (instance, sets) = instance, merged(without_dominated(instance, now))
    deadline, settings = Deadline.after(time_limit_s), Settings(gap=gap, seed=seed)
    instance = with_relaxed_losses(instance, deadline.left_s() / 4)
    while True:
        model = model_of(instance)
        if now:
            model = dataclasses.replace(model, start=incumbent(model, now))
        try:
            found = _find(model, objective, settings, deadline, solver)
        except InfeasibleError as error:
            raise no_fleet(with_every_group(instance), max(time_limit_s, 1.0)) from error
        choice = choice_of(model, found, gap)
        worst = not_survived(instance, choice.units_in)[:AT_ONCE]
        if not worst and goals is not None and found.objective > 0:
            choice = choice_of(model, prefer(model, found, goals, settings, deadline), gap)
            worst = not_survived(instance, choice.units_in)[:AT_ONCE]
        if not worst:
            return told_apart(choice, asked, sets)
        known = choice.losses
        instance = with_losses(instance, (*known, *named_apart(worst, known)))


def _find(
    model: Model, objective: Objective, settings: Settings, deadline: Deadline, solver: Solver
) -> Found:
    if objective == "min_cost":
        return _least_cost(model, settings, deadline, solver)
    if objective == "max_goodput":
        return _most_goodput(model, settings, deadline, solver)
    if objective == "max_goodput_per_usd":
        return best_ratio(model, settings, deadline, solver)
    known = "min_cost, max_goodput, max_goodput_per_usd"
    raise InputError(f"objective {objective!r} is not known; use one of {known}")


def _least_cost(model: Model, settings: Settings, deadline: Deadline, solver: Solver) -> Found:
    found = cheapest(model, deadline.limit(settings), deadline, solver)
    cost = model.cost_program().objective(found.x)
    bound = min(found.bound, cost)
    step = Step(0.0, model.goodput_program().objective(found.x), cost, bound)
    return Found("min_cost", found.x, cost, bound, (step,))


def _most_goodput(model: Model, settings: Settings, deadline: Deadline, solver: Solver) -> Found:
    """Find the highest goodput; then the least cost of that goodput, idle units being in vain."""
    program, price = model.goodput_program(), model.cost_program().objective
    if model.data.budget_usd_per_hour is not None:
        program = without_dear(model, program, model.data.budget_usd_per_hour)
    found = solve(model, program, deadline.limit(settings, 0.7), solver)
    best, goodput = found.x, program.objective(found.x)
    steps = [Step(0.0, goodput, price(best), found.bound)]
    held = model_of(dataclasses.replace(model.data, goodput_floor_rps=goodput))
    try:
        least = without_dear(held, held.cost_program(), price(best))
        cheaper = solve(held, least, deadline.limit(settings), solver, start=best)
    except (LimitReachedError, InfeasibleError):
        cheaper = None  # no time left for it, or a floor that rounding put out of reach
    if cheaper is not None and price(cheaper.x) < price(best):
        best, goodput = cheaper.x, program.objective(cheaper.x)
        steps.append(Step(0.0, goodput, price(best), found.bound))
    return Found("max_goodput", best, goodput, max(found.bound, goodput), tuple(steps))
