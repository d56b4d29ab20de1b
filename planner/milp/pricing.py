"""What the linear relaxation pays for: the prices at which new columns are judged.

A template that the program does not hold yet would improve its relaxation only if a unit of it
is worth more, at these prices, than it costs: column generation (Dantzig and Wolfe 1960). All
losses are in the unit of the objective and in the sense of a cost: above zero, a unit is not
worth having.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.sparse import csr_array, vstack

from planner.errors import InfeasibleError, LimitReachedError
from planner.milp import highs
from planner.milp.clock import Deadline
from planner.milp.formulation import model_of, rows
from planner.milp.highs import Settings
from planner.milp.indices import ALONE
from planner.milp.moves import NO_MOVES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from planner.milp.formulation import Model
    from planner.milp.highs import Answer
    from planner.milp.instance import Instance
    from planner.milp.objective import Objective
    from planner.milp.program import Floats, Program

    Rates = Mapping[str, float]

MOST_STEPS: Final = 20
"""Steps of the ratio's relaxation; two to five close it."""
CLOSED: Final = 1e-9
"""Relative rise of the ratio that counts as none."""


@dataclass(frozen=True, slots=True)
class UnitPrices:
    """Prices of one optimal relaxation, in the unit of its objective."""

    usd: float
    """Of a USD/h: 1 where cost is the objective; what the ratio or the budget asks of it else."""
    device: Mapping[str, float]
    """Of one accelerator of a stock, at least 0; by accelerator."""
    load: Mapping[str, float]
    """Worth of taking one req/s of a workload, free in sign: all demand must be taken."""
    goodput: Mapping[str, float]
    """Worth of one compliant req/s of a workload, at least 0."""
    demand_rps: Mapping[str, float]
    start: float = 0.0
    """Of starting a unit, at least 0, where moves against the units of today count."""

    def cost(self, usd_per_hour: float, devices: int, accelerator: str) -> float:
        """Return what a unit costs: its price, the stock that it takes, and its start."""
        return self.usd * usd_per_hour + self.device.get(accelerator, 0.0) * devices + self.start

    def worth(self, load_rps: Rates, goodput_rps: Rates) -> float:
        """Return what a unit at one operating point is worth.

        One that could carry more than all of a workload works that share of its time (C4).
        """
        over = max(rate / self.demand_rps[w] for w, rate in load_rps.items())
        carried = sum(self.load[w] * rate for w, rate in load_rps.items())
        kept = sum(self.goodput[w] * rate for w, rate in goodput_rps.items())
        return (carried + kept) / max(over, 1.0)

    def loss(self, cost: float, points: Iterable[tuple[Rates, Rates]]) -> float:
        """Return the reduced cost of a unit: its cost less its worth at its best point or idle."""
        return cost - max([0.0, *(self.worth(load, goodput) for load, goodput in points)])


@dataclass(frozen=True, slots=True)
class Relaxation:
    """The best fleet of fractions of units: no fleet of whole ones is better."""

    value: float
    """Of the objective: USD/h, req/s by worth, or req/s by worth per USD/h."""
    prices: UnitPrices
    used: frozenset[str]
    """Templates of which it has some."""


def relaxation_of(data: Instance, objective: Objective, time_limit_s: float = 60.0) -> Relaxation:
    """Solve the linear relaxation, for the ratio by Dinkelbach's steps.

    Raises:
        InfeasibleError: Not even fractions of units keep every row.
        LimitReachedError: The time limit passed.
    """
    model, deadline = model_of(data), Deadline.after(time_limit_s)
    if objective == "min_cost":
        program = model.cost_program()
        return _relaxation(model, program, _solved(program, deadline), 1.0)
    if objective == "max_goodput":
        program = model.goodput_program()
        return _relaxation(model, program, _solved(program, deadline), 0.0)
    goodput, cost = model.goodput_program(), model.cost_program()
    x = _x(_solved(cost, deadline))
    theta = 0.0
    for _ in range(MOST_STEPS):
        asked, paid = theta, cost.objective(x)
        if paid <= 0:  # nothing is paid: every ratio is reached
            break
        theta = max(goodput.objective(x) / paid, asked)
        program = model.ratio_program(theta)
        answer = _solved(program, deadline)
        x = _x(answer)
        if theta <= asked * (1 + CLOSED):
            break
    program = model.ratio_program(theta)
    found = _relaxation(model, program, _solved(program, deadline), theta)
    return Relaxation(theta, found.prices, found.used)


@dataclass(frozen=True, slots=True)
class Improvement:
    """Whether whole units can do better than a value of the objective."""

    used: frozenset[str]
    """Templates of a fleet that does; empty if none was found."""
    proven: bool
    """Whether none exists, where none was found: else the time was over."""


def improvement_on(
    data: Instance, objective: Objective, value: float, time_limit_s: float, *, near: float
) -> Improvement:
    """Look for a fleet of whole units that is better than a value of the objective.

    One solve under a row that says so, which bounds far sooner than the best fleet is found.

    Args:
        data: The instance.
        objective: Its name.
        value: To be beaten, in the unit of :class:`Relaxation`.
        time_limit_s: Most that the solve may take.
        near: Share of the objective within which the fleet found is the best.
    """
    model = model_of(data)
    if objective == "min_cost":
        program = model.cost_program()
        program, allowed = _cut(program, program.cost, -np.inf, value), near * value
    elif objective == "max_goodput":
        program = model.goodput_program()
        program, allowed = _cut(program, program.cost, value, np.inf), near * value
    else:
        program = model.ratio_program(value)
        program = _cut(program, program.cost, 0.0, np.inf)
        allowed = near * sum(data.worth(w) * rate for w, rate in data.demand_rps.items())
    settings = Settings(time_limit_s=time_limit_s, gap=0.0, absolute_gap=allowed)
    answer = highs.run(program, settings)
    if answer.x is None:
        return Improvement(frozenset(), answer.status == "infeasible")
    of = dict(zip(program.columns, answer.x.tolist(), strict=True))
    used = frozenset(j for j in data.J if of[model.v.N[j, ALONE].name] > 0.5)
    return Improvement(used, proven=False)


def _cut(program: Program, row: Floats, lower: float, upper: float) -> Program:
    """Return the program with one row more, scaled so that its largest coefficient is 1."""
    scale = float(np.abs(row).max(initial=0.0)) or 1.0
    return replace(
        program,
        rows=(*program.rows, "better"),
        A=csr_array(vstack([program.A, csr_array(row[None, :] / scale)], format="csr")),
        row_lower=np.append(program.row_lower, lower / scale),
        row_upper=np.append(program.row_upper, upper / scale),
    )


def _solved(program: Program, deadline: Deadline) -> Answer:
    answer = highs.run(program.relaxed(), Settings(time_limit_s=deadline.left_s()))
    if answer.status == "infeasible":
        raise InfeasibleError("not even fractions of units keep every promise within the limits")
    if answer.x is None or answer.row_duals is None or answer.bound is None:
        raise LimitReachedError("the time limit passed before the relaxation was solved")
    return answer


def _x(answer: Answer) -> Floats:
    assert answer.x is not None  # refused above
    return answer.x


def _relaxation(model: Model, program: Program, answer: Answer, usd: float) -> Relaxation:
    """Read prices off the duals; ``sign`` turns a gain into a loss."""
    data, v = model.data, model.v
    sign = -1.0 if program.maximise else 1.0
    assert answer.row_duals is not None  # refused above
    assert answer.bound is not None
    duals: dict[tuple[str, tuple[str, ...]], float] = {
        (number, index): sign * float(dual)
        for (number, index, _), dual in zip(rows(data, v), answer.row_duals, strict=True)
    }
    of = dict(zip(program.columns, _x(answer).tolist(), strict=True))
    budget = data.budget_usd_per_hour
    spent = -duals.get(("C8", ()), 0.0) / (budget or 1.0)
    moves = data.moves or NO_MOVES
    worth = {w: data.worth(w) if program.maximise else 0.0 for w in data.W}
    return Relaxation(
        answer.bound,
        UnitPrices(
            usd=usd + spent,
            device={g: -duals.get(("C6", (g,)), 0.0) for g in data.G},
            load={w: duals["C2", (w,)] / data.demand_rps[w] for w in data.W},
            goodput={w: worth[w] + duals["C3", (w,)] / data.demand_rps[w] for w in data.W},
            demand_rps=dict(data.demand_rps),
            start=(usd + spent) * moves.usd_per_hour - duals.get(("C36", ()), 0.0),
        ),
        frozenset(j for j in data.J if of[v.N[j, ALONE].name] > 1e-9),
    )
