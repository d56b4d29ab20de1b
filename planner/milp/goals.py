"""Of fleets that are as good within the gap, which: goals in order, each solved as a program.

The first objective becomes a row: no worse than the fleet in hand, but for the gap. Then each
goal is minimised in turn and held at what was reached, so that a later one chooses only among
what the earlier ones leave.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from scipy.sparse import csr_array, hstack, vstack

from planner.errors import SolverError
from planner.milp import highs
from planner.milp.check import check_integers, check_rows
from planner.milp.choice import Found
from planner.milp.nodes import most_units_for
from planner.milp.solve import RAW, settle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.milp.clock import Deadline
    from planner.milp.formulation import Model
    from planner.milp.highs import Settings
    from planner.milp.program import Floats, Program

Goal = Literal["fewest_pools", "fewest_moves", "lowest_power"]
"""Names of a scenario's ``then``."""

Wanted = Goal | Literal["fewest_accelerators"]
LEAST: Final = "fewest_accelerators"
"""What is wanted last of fleets in whole nodes, whose other accelerators stand empty."""

GAP: Final = 1e-6
HELD: Final = 1e-7
"""By which share a goal that was reached may give for a later one: rounding, no more."""
MOST_UNITS: Final = 100_000.0
"""Of a template that costs nothing."""


@dataclass(frozen=True, slots=True)
class Goals:
    """What is wanted beside the objective, in order, and what it is counted by."""

    order: tuple[Goal, ...]
    current: Mapping[str, int] = field(default_factory=dict)
    """Units by template of the fleet that runs now; for ``fewest_moves``."""
    watts: Mapping[str, float] = field(default_factory=dict)
    """Power of a unit by template; for ``lowest_power``."""


def prefer(
    model: Model, found: Found, goals: Goals, settings: Settings, deadline: Deadline
) -> Found:
    """Return the fleet that goals prefer among those as good as ``found`` within the gap.

    The bound and the steps stay those of the search. A goal for which there is no time, or
    whose answer does not survive its check, is passed over.

    Args:
        model: The written program.
        found: The best fleet.
        goals: What is wanted beside, in order.
        settings: The gap within which fleets are as good, and the seed.
        deadline: By when all must end.
    """
    x = found.x
    program = _as_good(model, found, settings.gap)
    width = len(program.columns)
    program = _counted(model, program, found, goals, settings.gap)
    # Units in whole nodes cost nothing beside the nodes, so that in the end they are counted.
    last: tuple[Wanted, ...] = (LEAST,) if model.data.nodes is not None else ()
    for goal in (*goals.order, *last):
        cost = _cost(model, program, goal, goals)
        if deadline.left_s() <= 0:
            break
        aimed = program.aiming_at(cost, maximise=False)
        answer = highs.run(aimed, dataclasses.replace(deadline.limit(settings), gap=GAP))
        if answer.x is None:
            break
        try:
            check_integers(aimed, answer.x, "highs")
            check_rows(aimed, answer.x, "highs", RAW)
            x = settle(model, answer.x[:width], "highs")
        except SolverError:
            break
        reached = aimed.objective(answer.x)
        program = _with_row(program, f"held({goal})", cost, reached * (1 + HELD) + HELD)
    return _again(model, found, x)


def units_by_template(model: Model) -> dict[str, list[int]]:
    """Return the columns that count units of each template wherever they stand, by period."""
    at = {name: i for i, name in enumerate(model.program.columns)}
    return {j: [at[model.v.N[j, t].name] for t in model.data.T] for j in model.data.J}


def _again(model: Model, found: Found, x: Floats) -> Found:
    """Return the fleet ``x`` with its own objective, and the proof of the search."""
    goodput = model.goodput_program().objective(x)
    cost = model.cost_program().objective(x)
    value = {"min_cost": cost, "max_goodput": goodput}.get(found.name)
    if value is None:
        value = goodput / cost if cost > 0 else found.objective
    best = min if found.name == "min_cost" else max
    return Found(found.name, x, value, best(found.bound, value), found.steps)


def _as_good(model: Model, found: Found, gap: float) -> Program:
    """Add the row that keeps a fleet as good as the one found, within the gap."""
    program = model.cost_program()
    cost, goodput = program.cost, model.goodput_program().cost
    if found.name == "min_cost":
        return _with_row(program, "as_good()", cost, found.objective * (1 + gap))
    if found.name == "max_goodput":
        program = _with_row(program, "as_good()", -goodput, -found.objective * (1 - gap))
        return _with_row(program, "as_cheap()", cost, float(cost @ found.x) * (1 + gap))
    theta = found.objective * (1 - gap)
    return _with_row(program, "as_good()", theta * cost - goodput, 0.0)


def _counted(model: Model, program: Program, found: Found, goals: Goals, gap: float) -> Program:
    """Add the columns that count pools and moves, and the rows that tie them to units."""
    most_usd = _most_cost(model, found, gap)
    units = units_by_template(model)
    if "fewest_pools" in goals.order:
        for j in model.data.J:
            program, used = _with_column(program, f"used({j})", whole=True, upper=1.0)
            for column in units[j]:
                row = _sparse(program, {column: 1.0, used: -_most_units(model, j, most_usd)})
                program = _with_row(program, f"used_if_any({j},{column})", row, 0.0)
    if "fewest_moves" in goals.order:
        for j in model.data.J:
            now = float(goals.current.get(j, 0))
            for column in units[j]:
                program, moved = _with_column(program, f"moved({j},{column})")
                more = _sparse(program, {column: 1.0, moved: -1.0})
                program = _with_row(program, f"more({j},{column})", more, now)
                fewer = _sparse(program, {column: -1.0, moved: -1.0})
                program = _with_row(program, f"fewer({j},{column})", fewer, -now)
    return program


def _cost(model: Model, program: Program, goal: Wanted, goals: Goals) -> Floats:
    """Return what a goal counts, by column."""
    start = {"fewest_pools": "used(", "fewest_moves": "moved("}.get(goal)
    if start is not None:
        return np.array([float(name.startswith(start)) for name in program.columns])
    cost = np.zeros(len(program.columns))
    for j, columns in units_by_template(model).items():
        each = float(model.data.devices[j]) if goal == LEAST else goals.watts.get(j, 0.0)
        cost[columns] = each
    return cost


def _most_cost(model: Model, found: Found, gap: float) -> float:
    """Return what a fleet that is as good may cost at most."""
    if found.name == "max_goodput_per_usd":
        demand = sum(model.data.worth(w) * d for w, d in model.data.demand_rps.items())
        return demand / (found.objective * (1 - gap)) if found.objective > 0 else math.inf
    return float(model.cost_program().cost @ found.x) * (1 + gap)


def _most_units(model: Model, j: str, most_usd: float) -> float:
    """Return how many units of a template a fleet that is as good may hold."""
    data = model.data
    if data.nodes is not None:
        return float(max(most_units_for(data, j, most_usd, MOST_UNITS), 1))
    usd, stock = data.usd_per_hour[j], data.stock.get(data.accelerator_of[j])
    by_cost = most_usd / usd if usd > 0 else MOST_UNITS
    by_stock = stock / data.devices[j] if stock is not None else MOST_UNITS
    most = min(by_cost, by_stock, data.max_units.get(j, MOST_UNITS), MOST_UNITS)
    return max(math.floor(most + 1e-6), 1.0)


def _sparse(program: Program, entries: Mapping[int, float]) -> Floats:
    row = np.zeros(len(program.columns))
    for column, value in entries.items():
        row[column] = value
    return row


def _with_row(program: Program, name: str, row: Floats, most: float) -> Program:
    """Return the program with the row ``row @ x <= most``, divided by its largest coefficient."""
    size = float(np.abs(row).max(initial=0.0)) or 1.0
    return dataclasses.replace(
        program,
        rows=(*program.rows, name),
        A=csr_array(vstack([program.A, csr_array(row[None, :] / size)])),
        row_lower=np.append(program.row_lower, -np.inf),
        row_upper=np.append(program.row_upper, most / size),
    )


def _with_column(
    program: Program, name: str, *, whole: bool = False, upper: float = np.inf
) -> tuple[Program, int]:
    """Return the program with one more column, from 0 to ``upper``, and where it is."""
    empty = csr_array((len(program.rows), 1))
    wider = dataclasses.replace(
        program,
        columns=(*program.columns, name),
        A=csr_array(hstack([program.A, empty])),
        lower=np.append(program.lower, 0.0),
        upper=np.append(program.upper, upper),
        cost=np.append(program.cost, 0.0),
        integer=np.append(program.integer, whole),
    )
    return wider, len(program.columns)
