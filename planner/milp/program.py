"""A program as arrays: what the solver gets, and what our own check reads.

Both work on the rows that the formulation wrote, through one copy.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pulp
from scipy.sparse import csr_array

from planner.errors import SolverError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_LOG: Final = logging.getLogger(__name__)
WIDE: Final = 1e7
"""A ratio of largest to smallest coefficient above which the numbers are logged as worth a look."""


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Optimise ``cost @ x`` subject to ``row_lower <= A @ x <= row_upper`` and column bounds.

    Shapes: columns ``(c,)``, rows ``(r,)``, ``A`` ``(r, c)`` by rows. Infinite bounds are inf.
    """

    columns: tuple[str, ...]
    rows: tuple[str, ...]
    A: csr_array
    row_lower: Floats
    row_upper: Floats
    lower: Floats
    upper: Floats
    cost: Floats
    integer: NDArray[np.bool_]
    maximise: bool

    def objective(self, x: Floats) -> float:
        """Return the value of the objective at ``x``, shape ``(c,)``."""
        return float(self.cost @ x)

    def coefficient_ratio(self) -> float:
        """Return largest over smallest absolute coefficient of the rows; 1 if there is none."""
        sizes = np.abs(self.A.data[self.A.data != 0])
        return float(sizes.max() / sizes.min()) if sizes.size else 1.0

    def relaxed(self) -> Program:
        """Return the linear relaxation: the same without the demand for whole numbers."""
        return dataclasses.replace(self, integer=np.zeros_like(self.integer))

    def with_integers_at(self, x: Floats) -> Program:
        """Return the linear program that is left when the integer columns stand at ``x``."""
        lower = np.where(self.integer, x, self.lower)
        upper = np.where(self.integer, x, self.upper)
        return dataclasses.replace(self.relaxed(), lower=lower, upper=upper)

    def aiming_at(self, cost: Floats, *, maximise: bool) -> Program:
        """Return the same rows and columns with another objective, shape ``(c,)``."""
        return dataclasses.replace(self, cost=cost, maximise=maximise)


def read(problem: pulp.LpProblem) -> Program:
    """Copy a PuLP problem into arrays, once, columns and rows in PuLP's order.

    Raises:
        SolverError: Two columns or two rows share a name, so that some solvers would merge
            them, or a coefficient is not finite.
    """
    variables, constraints = problem.variables(), problem.constraints()
    index = {id(v): i for i, v in enumerate(variables)}
    starts, indices, data = [0], list[int](), list[float]()
    for row in constraints:
        for v, a in row.items():
            indices.append(index[id(v)])
            data.append(a)
        starts.append(len(indices))
    rhs = np.array([-row.constant for row in constraints], dtype=float)
    sense = np.array([row.sense for row in constraints], dtype=int)
    cost = objective_of(problem.objective, variables)
    program = Program(
        columns=tuple(v.name for v in variables),
        rows=tuple(row.name for row in constraints),
        A=csr_array(
            (np.array(data, dtype=float), np.array(indices, dtype=np.int32), np.array(starts)),
            shape=(len(constraints), len(variables)),
        ),
        row_lower=np.where(sense == pulp.LpConstraintLE, -np.inf, rhs),
        row_upper=np.where(sense == pulp.LpConstraintGE, np.inf, rhs),
        lower=np.array([-np.inf if v.lowBound is None else v.lowBound for v in variables]),
        upper=np.array([np.inf if v.upBound is None else v.upBound for v in variables]),
        cost=cost,
        integer=np.array([v.cat == pulp.LpInteger for v in variables], dtype=bool),
        maximise=problem.sense == pulp.LpMaximize,
    )
    _refuse_clashes(program)
    _look_at_numbers(program, rhs)
    return program


def objective_of(term: pulp.LpAffineExpression | None, variables: list[pulp.LpVariable]) -> Floats:
    """Return the coefficients of an objective term in the order of ``variables``."""
    if term is None:
        return np.zeros(len(variables))
    return np.array([term.get(v, 0.0) for v in variables], dtype=float)


def _refuse_clashes(program: Program) -> None:
    for kind, names in (("columns", program.columns), ("rows", program.rows)):
        if len(set(names)) < len(names):
            seen = sorted(names)
            twice = next(a for a, b in itertools.pairwise(seen) if a == b)
            raise SolverError(f"two {kind} share the name {twice}; a solver could merge them")


def _look_at_numbers(program: Program, rhs: Floats) -> None:
    for numbers in (program.A.data, rhs, program.cost):
        if not np.isfinite(numbers).all():
            raise SolverError("a coefficient of the program is not finite")
    ratio = program.coefficient_ratio()
    level = logging.INFO if ratio > WIDE else logging.DEBUG
    _LOG.log(
        level,
        "%d rows, %d columns, %d nonzeros; largest / smallest coefficient %.1e",
        len(program.rows),
        len(program.columns),
        program.A.nnz,
        ratio,
    )
