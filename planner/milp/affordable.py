"""Programs without the units that no good fleet can pay for.

A solver works with tolerances beside the largest coefficient of its objective. A unit that costs
a million times what a whole fleet costs would push every other price below them. Once a fleet is
known, units that alone cost more than any better fleet can be left out, and nothing is lost.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from planner.errors import LimitReachedError
from planner.milp.solve import solve

if TYPE_CHECKING:
    from planner.milp.clock import Deadline
    from planner.milp.formulation import Model
    from planner.milp.highs import Settings
    from planner.milp.program import Program
    from planner.milp.solve import Solution, Solver

WIDE: Final = 100.0
"""Price of a unit beside that of a whole fleet above which it is worth leaving out."""


def without_dear(model: Model, program: Program, most_usd_per_hour: float) -> Program:
    """Return the program without units that alone cost more than a fleet may.

    The program itself where no unit is much dearer: then prices are as near as they need be.

    Args:
        model: The written program, which knows the columns of a template.
        program: The same rows and columns, with an objective.
        most_usd_per_hour: Cost that no fleet better than the best one known exceeds.
    """
    data, shares = model.data, model.data.shares()
    price = {
        (j, t): share * data.least_usd_per_hour(j) for t, share in shares.items() for j in data.J
    }
    dear = {i for i, usd in price.items() if usd > most_usd_per_hour}
    if not any(price[i] > WIDE * most_usd_per_hour for i in dear):
        return program
    upper = program.upper.copy()
    at = {name: i for i, name in enumerate(program.columns)}
    for (j, _, t), column in model.v.n.items():
        if (j, t) in dear:
            upper[at[column.name]] = 0.0
    return dataclasses.replace(program, upper=upper)


def cheapest(model: Model, settings: Settings, deadline: Deadline, solver: Solver) -> Solution:
    """Find the cheapest fleet, again without what is dearer than the one found, while it helps.

    Args:
        model: The written program.
        settings: Gap, seed and time of the first solve; later ones get what is left.
        deadline: By when all must end.
        solver: As for :func:`planner.milp.solve.solve`.

    Raises:
        InfeasibleError: No fleet keeps every row.
        LimitReachedError: The time limit passed before any fleet was found.
        SolverError: An answer did not survive its check.
    """
    whole = program = model.cost_program()
    found = solve(model, program, settings, solver)
    while True:
        narrower = without_dear(model, whole, whole.objective(found.x))
        if int((narrower.upper == 0).sum()) <= int((program.upper == 0).sum()):
            return found
        program = narrower
        again = dataclasses.replace(settings, time_limit_s=deadline.left_s())
        try:
            found = solve(model, program, again, solver, start=found.x)
        except LimitReachedError:
            return found
