"""HiGHS, given the arrays: the default solver, and the one that our own checks use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import highspy
import numpy as np

from planner.errors import SolverError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.milp.program import Floats, Program


@dataclass(frozen=True, slots=True)
class Settings:
    """How hard to try: the limit of time, the gaps at which to stop, and the seed."""

    time_limit_s: float = 60.0
    gap: float = 1e-3
    """Relative gap, a share of the objective."""
    absolute_gap: float = 0.0
    """Absolute gap, in the unit of the objective."""
    target: float | None = None
    """An objective that is good enough to stop at, whatever the gap."""
    seed: int = 0
    feasibility: float = 1e-7
    """Tolerance on a row, a bound and an integer, after scaling."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What a solver said, before anything is checked."""

    status: Literal["optimal", "limit", "infeasible", "unbounded"]
    x: Floats | None = None
    """Values by column, shape ``(c,)``; None if there is no incumbent."""
    bound: float | None = None
    """Proven bound of the objective; None if the solver hides it."""
    row_duals: Floats | None = None
    """Change of the objective per unit of a row's limit, shape ``(r,)``; programs without
    integers only."""


class _Quiet(highspy.Highs):
    """HiGHS without its banner, which the ordinary constructor prints on stdout."""

    def __init__(self) -> None:
        super(highspy.Highs, self).__init__()  # past the callbacks, whose set-up prints
        self.setOptionValue("output_flag", False)


_STATUS: Final[dict[highspy.HighsModelStatus, Literal["optimal", "infeasible", "unbounded"]]] = {
    highspy.HighsModelStatus.kOptimal: "optimal",
    highspy.HighsModelStatus.kModelEmpty: "optimal",
    highspy.HighsModelStatus.kInfeasible: "infeasible",
    highspy.HighsModelStatus.kUnboundedOrInfeasible: "infeasible",
    highspy.HighsModelStatus.kUnbounded: "unbounded",
}
_LIMITS: Final = (
    highspy.HighsModelStatus.kTimeLimit,
    highspy.HighsModelStatus.kIterationLimit,
    highspy.HighsModelStatus.kInterrupt,
    highspy.HighsModelStatus.kSolutionLimit,
    highspy.HighsModelStatus.kObjectiveTarget,
)


def run(program: Program, settings: Settings, start: Floats | None = None) -> Answer:
    """Solve with one thread and a fixed seed; ``start`` is a first incumbent, shape ``(c,)``.

    Continuous columns are scaled by powers of two so that none has a coefficient above one,
    and the objective so that its largest is about one: tolerances then mean the same whether
    rates are 1e-5 or 1e7 req/s, and scaling rounds nothing.

    Raises:
        SolverError: HiGHS failed, or took another number of rows or columns than it was given.
    """
    scale, unit = _column_scale(program), _objective_scale(program)
    solver = _Quiet()
    for option, value in _options(settings, unit).items():
        if solver.setOptionValue(option, value) != highspy.HighsStatus.kOk:
            raise SolverError(f"HiGHS refuses {option} = {value}")
    if solver.passModel(_model(program, scale, unit)) == highspy.HighsStatus.kError:
        raise SolverError("HiGHS refuses the program")
    if (solver.getNumCol(), solver.getNumRow()) != (len(program.columns), len(program.rows)):
        raise SolverError("HiGHS took another number of rows or columns than it was given")
    if start is not None:
        incumbent = highspy.HighsSolution()
        incumbent.col_value = (start / scale).tolist()
        solver.setSolution(incumbent)
    solver.run()
    answer = _answer(solver, program, scale, unit)
    if start is not None and not _closed(program, settings, answer):
        # Seen with 1.16: presolve improves on the start, the bound is that of the better fleet,
        # and the start itself is returned as optimal.
        return run(program, settings)
    return answer


def _closed(program: Program, settings: Settings, answer: Answer) -> bool:
    """Tell whether an answer that is called optimal has the gap for it."""
    if answer.status != "optimal" or answer.x is None or answer.bound is None:
        return True
    found = program.objective(answer.x)
    allowed = max(settings.gap * abs(found), settings.absolute_gap)
    terms = float(np.abs(program.cost) @ np.abs(answer.x))
    return abs(found - answer.bound) <= allowed + 1e-6 * terms


def _answer(solver: _Quiet, program: Program, scale: Floats, unit: float) -> Answer:
    status, info = solver.getModelStatus(), solver.getInfo()
    if status in _STATUS and _STATUS[status] != "optimal":
        return Answer(_STATUS[status])
    if status not in _STATUS and status not in _LIMITS:
        raise SolverError(f"HiGHS stopped with {solver.modelStatusToString(status)!r}")
    reached: Literal["optimal", "limit"] = "optimal" if status in _STATUS else "limit"
    is_mip = bool(program.integer.any())
    solution = solver.getSolution()
    feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    x = np.array(solution.col_value, dtype=float) * scale if feasible else None
    bound = float(info.mip_dual_bound if is_mip else info.objective_function_value) / unit
    if not is_mip and reached == "limit":
        return Answer("limit")
    duals = None if is_mip else np.array(solution.row_dual, dtype=float) / unit
    return Answer(reached, x, bound if np.isfinite(bound) else None, duals)


def _options(settings: Settings, unit: float) -> dict[str, float | int | str]:
    options: dict[str, float | int | str] = {
        "threads": 1,
        "parallel": "off",
        "random_seed": settings.seed,
        "time_limit": max(settings.time_limit_s, 0.0),
        "mip_rel_gap": settings.gap,
        "mip_abs_gap": settings.absolute_gap * unit,
        "mip_feasibility_tolerance": settings.feasibility,
        "primal_feasibility_tolerance": settings.feasibility,
        "small_matrix_value": 1e-12,
    }
    if settings.target is not None:
        options["objective_target"] = settings.target * unit
    return options


def _column_scale(program: Program) -> Floats:
    """Return powers of two: one scaled column times its scale is the column of the page."""
    largest = np.zeros(len(program.columns))
    np.maximum.at(largest, program.A.indices, np.abs(program.A.data))
    shrink = ~program.integer & (largest > 1)
    return np.where(shrink, 2.0 ** -np.ceil(np.log2(np.where(shrink, largest, 1.0))), 1.0)


def _objective_scale(program: Program) -> float:
    """Return a power of two that brings the largest coefficient of the objective near one.

    Columns that are fixed at zero do not count.
    """
    costs = np.abs(program.cost * _column_scale(program))[_open(program)]
    largest = float(costs.max(initial=0.0))
    return float(2.0 ** -np.ceil(np.log2(largest))) if largest > 0 else 1.0


def _open(program: Program) -> NDArray[np.bool_]:
    """Tell which columns are not fixed at zero, shape ``(c,)``."""
    fixed: NDArray[np.bool_] = (program.lower == 0) & (program.upper == 0)
    return ~fixed


def _model(program: Program, scale: Floats, unit: float) -> highspy.HighsLp:
    A = program.A
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(program.columns), len(program.rows)
    model.sense_ = highspy.ObjSense.kMaximize if program.maximise else highspy.ObjSense.kMinimize
    model.col_cost_ = np.where(_open(program), program.cost * scale * unit, 0.0)
    model.col_lower_, model.col_upper_ = program.lower / scale, program.upper / scale
    model.row_lower_, model.row_upper_ = program.row_lower, program.row_upper
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = A.indptr
    model.a_matrix_.index_ = A.indices
    model.a_matrix_.value_ = A.data * scale[A.indices]
    if program.integer.any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        model.integrality_ = [kinds[whole] for whole in program.integer.astype(int)]
    return model
