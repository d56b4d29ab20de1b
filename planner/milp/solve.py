"""The only place that runs a solver, and believes none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
import pulp

from planner.errors import InfeasibleError, LimitReachedError, SolverError
from planner.milp import highs, solvers, spread
from planner.milp.check import check_bound, check_integers, check_rows
from planner.milp.highs import Answer, Settings

if TYPE_CHECKING:
    from planner.milp.formulation import Model
    from planner.milp.program import Floats, Program

    Solver: TypeAlias = str | pulp.LpSolver

RAW: Final = 1e-5
"""Tolerance on the rows of an answer as it comes; the plan made of it is held to a finer one."""
FINE: Final = 2e-6
"""Tolerance on the rows of a plan with whole units."""


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """A plan with whole units that keeps every row, and the bound that came with it."""

    x: Floats
    """Values by column, shape ``(c,)``; the integer ones are whole."""
    bound: float
    """Proven bound of the objective; infinite if there is none."""
    ended: Literal["optimal", "limit"]
    """Whether the solver says that it was done, or a limit ended its work."""


def solve(
    model: Model,
    program: Program,
    settings: Settings,
    solver: Solver = "highs",
    start: Floats | None = None,
) -> Solution:
    """Solve ``program`` (rows of ``model``, any objective), and check what comes back.

    The integers are rounded; with them fixed, a linear program chooses anew how the units run:
    at the highest compliant goodput that the fleet can reach while keeping every row.

    Args:
        model: The written program.
        program: The same rows and columns, with the objective to be solved for.
        settings: Time, gaps and seed.
        solver: ``highs``, the name of a solver that PuLP knows, or such a solver.
        start: A first incumbent by column, shape ``(c,)``; used by ``highs``.

    Raises:
        InfeasibleError: The solver says that the program has no solution.
        LimitReachedError: The time limit passed before any solution was found.
        SolverError: The solver failed, or its answer did not survive the check.
    """
    name = solver if isinstance(solver, str) else solver.name
    if isinstance(solver, str) and solver.lower() == "highs":
        answer = spread.run(model, program, settings, model.start if start is None else start)
    else:
        answer = _ask_pulp(model, program, settings, solver)
    if answer.status == "infeasible":
        raise InfeasibleError("no fleet keeps every promise within the limits")
    if answer.status == "unbounded":
        raise SolverError(f"{name} calls the program unbounded; it is not")
    if answer.x is None:
        raise LimitReachedError(
            f"{settings.time_limit_s:.3g} s passed before {name} found any fleet; give it more time"
        )
    check_integers(program, answer.x, name)
    check_rows(program, answer.x, name, RAW)
    bound = answer.bound if answer.bound is not None else _own_bound(program, answer.x, settings)
    check_bound(program, answer.x, bound, name)
    return Solution(settle(model, answer.x, name), bound, answer.status)


def settle(model: Model, x: Floats, solver: str) -> Floats:
    """Round the integers of ``x``, and run that fleet at its highest compliant goodput.

    Returns:
        Values by column, shape ``(c,)``; every row holds.

    Raises:
        SolverError: The rounded fleet cannot keep every row.
    """
    rounded = np.where(model.program.integer, np.round(x), x)
    fixed = model.goodput_program().with_integers_at(rounded)
    answer = highs.run(fixed, Settings(feasibility=1e-6))
    # Where rows are tight to the last digit, the linear program may find no room: then the
    # weights stay as they came, and the check below decides.
    weights = rounded if answer.x is None else answer.x
    settled = np.where(model.program.integer, rounded, np.maximum(weights, model.program.lower))
    check_rows(model.program, settled, solver, FINE)
    return settled


def _own_bound(program: Program, x: Floats, settings: Settings) -> float:
    """Prove a bound by HiGHS, for solvers that hide theirs: of the relaxation if that is enough."""
    answer = highs.run(program.relaxed(), settings)
    if answer.status == "infeasible":
        raise SolverError("a fleet was found where not even fractions of units keep every row")
    worst = np.inf if program.maximise else -np.inf
    relaxed = worst if answer.bound is None else answer.bound
    found = program.objective(x)
    if abs(found - relaxed) <= max(settings.gap * abs(found), settings.absolute_gap):
        return relaxed
    whole = highs.run(program, settings, x)
    return relaxed if whole.bound is None else whole.bound


def _ask_pulp(model: Model, program: Program, settings: Settings, solver: Solver) -> Answer:
    """Let a solver of PuLP work on the rows that PuLP holds."""
    problem, variables = model.problem, model.problem.variables()
    aim = {v: float(c) for v, c in zip(variables, program.cost, strict=True)}
    problem.setObjective(pulp.LpAffineExpression(aim))
    problem.sense = pulp.LpMaximize if program.maximise else pulp.LpMinimize
    for v in variables:
        v.varValue = None
    engine = solvers.named(solver, settings) if isinstance(solver, str) else solver
    status = solvers.run(problem, engine, settings.time_limit_s)
    if status is None:
        return Answer("limit")
    if status == pulp.LpStatusInfeasible:
        return Answer("infeasible")
    if status == pulp.LpStatusUnbounded:
        return Answer("unbounded")
    values = [v.varValue for v in variables]
    if problem.sol_status == pulp.LpSolutionNoSolutionFound or any(y is None for y in values):
        return Answer("limit")
    done = problem.sol_status == pulp.LpSolutionOptimal
    return Answer("optimal" if done else "limit", np.array(values, dtype=float))
