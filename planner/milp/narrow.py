"""A first fleet from the few templates that the linear relaxation finds nearly worth having.

Most of a large program's templates are of no use to any good fleet. First the units of the
relaxation are rounded, by a program in which each count may only move to its next whole numbers:
where units are many, that is a good fleet in a moment. Then the few templates with the least
reduced cost are solved over. The relaxation's bound, which covers every template, often proves one
of these fleets within the gap; else it is the whole program's first incumbent.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.milp import highs
from planner.milp.highs import Answer
from planner.milp.indices import ALONE

if TYPE_CHECKING:
    from planner.milp.formulation import Model
    from planner.milp.highs import Settings
    from planner.milp.program import Floats, Program

FEW: Final = 50
"""Templates that are kept, or three per workload if that is more."""
TIME_SHARE: Final = 0.15
"""Of the time limit, for the solve over few templates."""
FEW_GAP: Final = 0.75
"""Of the gap asked for, to which the few are solved if the relaxation does not prove them first."""
ROUNDING_SHARE: Final = 0.03
"""Of the time limit, for rounding the relaxation."""
HOPELESS: Final = 3.0
"""Gaps of the rounded fleet to the relaxation, in those allowed, beyond which no fleet is likely
to be proven by the relaxation: units are few and large, and the whole program decides."""
USED: Final = 1e-6
"""Units of the relaxation above which a column is in use."""


def run(model: Model, program: Program, settings: Settings, start: Floats | None) -> Answer:
    """Solve with HiGHS: over the few templates first, then, if need be, over all.

    Args:
        model: The written program, which knows the columns of a template.
        program: The same rows and columns, with an objective.
        settings: Time, gaps and seed.
        start: A first incumbent by column, shape ``(c,)``.
    """
    few = max(FEW, 3 * len(model.data.W))
    if len(model.data.J) <= few:
        return highs.run(program, settings, start)
    relaxed = highs.run(program.relaxed(), settings)
    if relaxed.x is None or relaxed.row_duals is None or relaxed.bound is None:
        known = start if relaxed.status == "limit" else None
        return dataclasses.replace(relaxed, x=known, bound=None)
    until = _until(program, settings, relaxed.bound)
    start, off = _better(program, start, _rounded(program, relaxed.x, until), relaxed.bound)
    allowed = _allowed(settings, relaxed.bound)
    if start is not None and off <= 0.99 * allowed:
        return Answer("optimal", start, relaxed.bound)
    if HOPELESS * allowed < off < float("inf"):
        return _whole(program, settings, start, relaxed.bound)
    losses = loss_per_unit(model, program, relaxed.row_duals)
    kept = set(sorted(model.data.J, key=losses.__getitem__)[:few])
    narrow = _only(model, program, kept, start)
    first = highs.run(narrow, until, start)
    left = dataclasses.replace(settings, time_limit_s=settings.time_limit_s * (1 - TIME_SHARE))
    if first.x is None:
        return highs.run(program, left, start)
    found = program.objective(first.x)
    if abs(found - relaxed.bound) <= _allowed(settings, found):
        return Answer("optimal", first.x, relaxed.bound)
    return _whole(program, left, first.x, relaxed.bound)


def _whole(program: Program, settings: Settings, start: Floats | None, bound: float) -> Answer:
    """Solve over every template, from a fleet and a bound that are known."""
    answer = highs.run(program, settings, start)
    if answer.x is None and answer.status == "limit":
        return Answer("limit", start, bound)
    return answer


def _rounded(program: Program, x: Floats, until: Settings) -> Floats | None:
    """Round the relaxation: every whole column in use to a next number, or one more; else none.

    Args:
        program: The whole program.
        x: The relaxation's columns, shape ``(c,)``.
        until: When a fleet is good enough.

    Returns:
        The best fleet so, by column; None where none keeps every row.
    """
    used = program.integer & (x > USED)
    lower = np.where(program.integer, np.maximum(program.lower, np.floor(x + USED)), program.lower)
    most = np.where(used, np.ceil(x - USED) + 1, np.maximum(program.lower, 0.0))
    upper = np.where(program.integer, np.minimum(program.upper, most), program.upper)
    near = dataclasses.replace(program, lower=np.minimum(lower, upper), upper=upper)
    time_s = until.time_limit_s * ROUNDING_SHARE / TIME_SHARE
    return highs.run(near, dataclasses.replace(until, time_limit_s=time_s)).x


def _better(
    program: Program, one: Floats | None, other: Floats | None, bound: float
) -> tuple[Floats | None, float]:
    """Return the better of two fleets, and how far it is from a bound; infinite without any."""
    found = [x for x in (one, other) if x is not None]
    if not found:
        return None, float("inf")
    best = min(found, key=lambda x: abs(program.objective(x) - bound))
    return best, abs(program.objective(best) - bound)


def loss_per_unit(model: Model, program: Program, row_duals: Floats) -> dict[str, float]:
    """Return what one unit of each template loses at the relaxation's prices, at least 0.

    Its reduced cost at its best operating point: of the unit itself and of the point's weight.
    In the unit of the objective; 0 for the templates that the relaxation uses.
    """
    losses = losses_in(model, program, row_duals)
    return {j: min(losses[j, t] for t in model.data.T) for j in model.data.J}


def losses_in(model: Model, program: Program, row_duals: Floats) -> dict[tuple[str, str], float]:
    """Return the same by template and period, of a unit where it loses least."""
    sign = -1.0 if program.maximise else 1.0
    reduced = sign * (program.cost - program.A.T @ row_duals)
    of = dict(zip(program.columns, reduced.tolist(), strict=True))
    v, apart = model.v, model.data.D != (ALONE,)
    best = {
        (j, t): min(of[v.x[j, o, t].name] for o in model.data.points_of(j))
        + (of[v.N[j, t].name] if apart else 0.0)
        for j in model.data.J
        for t in model.data.T
    }
    losses = dict.fromkeys(best, float("inf"))
    for (j, _, t), column in v.n.items():
        losses[j, t] = min(losses[j, t], of[column.name] + best[j, t])
    return losses


def _only(model: Model, program: Program, kept: set[str], start: Floats | None) -> Program:
    """Return the program without units of other templates, but for those of ``start``."""
    upper = program.upper.copy()
    at = {name: i for i, name in enumerate(program.columns)}
    for (j, _, _), n in model.v.n.items():
        column = at[n.name]
        if j not in kept and not (start is not None and start[column] > 0):
            upper[column] = 0.0
    return dataclasses.replace(program, upper=upper)


def _until(program: Program, settings: Settings, bound: float) -> Settings:
    """Stop at a fleet that the relaxation's ``bound`` proves to be within the gap."""
    # A little nearer than the gap, so that rounding does not take it away again.
    allowed = 0.99 * _allowed(settings, bound / (1 + settings.gap))
    return dataclasses.replace(
        settings,
        time_limit_s=settings.time_limit_s * TIME_SHARE,
        gap=FEW_GAP * settings.gap,
        absolute_gap=FEW_GAP * settings.absolute_gap,
        target=bound - allowed if program.maximise else bound + allowed,
    )


def _allowed(settings: Settings, objective: float) -> float:
    return max(settings.gap * abs(objective), settings.absolute_gap)
