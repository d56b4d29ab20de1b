"""What is preferred among fleets that are as good, in the words of the program."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from planner.fleet import Change, SearchStep
from planner.milp import Goals
from planner.planning.moves import moves_by_template

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.candidates.frontier import Frontier
    from planner.milp import Choice
    from planner.planning.fleet import Fleet
    from planner.problem.resolve import Problem


def goals_of(problem: Problem, frontiers: Mapping[str, Frontier]) -> Goals | None:
    """Return the second goals of a problem, and its current fleet; None if there are neither."""
    if not problem.then and not problem.current:
        return None
    watts = {}
    for j, frontier in frontiers.items():
        build = frontier.template.build
        # A board whose power is not known counts as none: better told low than not at all.
        group = build.group
        sides = ((build, 1),) if group is None else group.sides
        watts[j] = sum(
            n * side.accelerators * (side.curve.accelerator.board_power or 0.0) for side, n in sides
        )
    return Goals(problem.then, dict(problem.current), watts)


def steps_of(choice: Choice) -> tuple[SearchStep, ...]:
    """Return the solves behind a choice, in the units of the plan document."""
    per_usd = 3600.0 if choice.name == "max_goodput_per_usd" else 1.0
    return tuple(
        SearchStep(
            theta=step.theta * 3600.0,
            goodput_rps=step.goodput_rps,
            cost_usd_per_hour=step.cost_usd_per_hour,
            bound=step.bound * per_usd if math.isfinite(step.bound) else None,
        )
        for step in choice.steps
    )


def changes_of(problem: Problem, fleet: Fleet) -> tuple[Change, ...]:
    """Say what of the current plan changes; nothing where there is none."""
    before, after = dict(problem.current), {p.template.id: p.units for p in fleet.pools}
    if not before:
        return ()
    moves = {j: abs(after.get(j, 0) - before.get(j, 0)) for j in {*before, *after}}
    moves |= moves_by_template(problem, fleet)
    return tuple(
        Change(pool=j, before=before.get(j, 0), after=after.get(j, 0), moves=moves[j])
        for j in sorted(moves)
        if moves[j]
    )
