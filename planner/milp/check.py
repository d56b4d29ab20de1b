"""Our own look at every answer, whatever the solver's status says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from planner.errors import SolverError

if TYPE_CHECKING:
    from planner.milp.program import Floats, Program

INTEGRALITY: Final = 1e-5
"""Farthest that a column of whole numbers may lie from one."""
BOUND: Final = 1e-5
"""Most by which an answer may seem to beat its bound, as a share of the objective's terms."""
GAP_FLOOR: Final = 1e-6
"""A gap below this is none: tolerances on rows move the objective by as much."""


def check_integers(program: Program, x: Floats, solver: str) -> None:
    """Refuse an answer whose whole numbers are not whole.

    Raises:
        SolverError: A column that must be whole is farther than 1e-5 from it, or not finite.
    """
    if not np.isfinite(x).all():
        raise SolverError(f"{solver} returned a value that is not finite")
    off = np.where(program.integer, np.abs(x - np.round(x)), 0.0)
    worst = int(off.argmax()) if off.size else 0
    if off.size and off[worst] > INTEGRALITY:
        raise SolverError(
            f"{solver} called its answer a plan, but {program.columns[worst]} = {x[worst]:.9g} "
            "is not whole"
        )


def check_rows(program: Program, x: Floats, solver: str, tolerance: float) -> None:
    """Refuse an answer that breaks a row or a bound.

    Args:
        program: Rows and bounds.
        x: Values by column, shape ``(c,)``.
        solver: Whom to blame.
        tolerance: Largest violation, as a share of the row's largest term (at least 1).

    Raises:
        SolverError: A row or a bound is broken; the worst is named.
    """
    A = program.A
    activity = A @ x
    size = np.maximum(1.0, abs(A) @ np.abs(x))
    over = np.maximum(activity - program.row_upper, program.row_lower - activity) / size
    if over.size and over.max() > tolerance:
        worst = int(over.argmax())
        low, high = program.row_lower[worst], program.row_upper[worst]
        raise SolverError(
            f"{solver} called its answer a plan, but it breaks {program.rows[worst]}: "
            f"{activity[worst]:.9g} is not within [{low:.9g}, {high:.9g}]"
        )
    beyond = np.maximum(x - program.upper, program.lower - x) / np.maximum(1.0, np.abs(x))
    if beyond.size and beyond.max() > tolerance:
        worst = int(beyond.argmax())
        raise SolverError(
            f"{solver} called its answer a plan, but {program.columns[worst]} = {x[worst]:.9g} "
            "is out of bounds"
        )


def check_bound(program: Program, x: Floats, bound: float, solver: str) -> None:
    """Refuse a proof that contradicts the answer.

    An objective such as G - theta C is a small difference of large sums, so the tolerance is a
    share of the sum of its terms' sizes.

    Raises:
        SolverError: The answer is better than its own proven bound.
    """
    objective = program.objective(x)
    size = float(np.abs(program.cost) @ np.abs(x))
    better = objective - bound if program.maximise else bound - objective
    if better > BOUND * size:
        raise SolverError(
            f"{solver} found {objective:.9g} beyond the proven bound {bound:.9g}: one of them is "
            "wrong"
        )


def relative_gap(objective: float, bound: float) -> float:
    """Return ``|bound - objective| / |objective|``; 0 if equal, inf if only the objective is 0."""
    if bound == objective:
        return 0.0
    return abs(bound - objective) / abs(objective) if objective else float("inf")
