"""What a limit is worth: USD/h for one more of what it limits.

Two routes, and each price says which it took. ``relaxation``: the dual of a row in the linear
relaxation, where fractions of units may be had; one solve prices every row, and column
generation wants these. ``re-solve``: the difference that one more makes to the best whole
fleet; exact, one solve per limit. (Duals at fixed integers, a common third, are no prices
here: what costs money is whole units, so a fixed fleet's bill does not move.)
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from planner.errors import LimitReachedError
from planner.milp import highs
from planner.milp.check import GAP_FLOOR
from planner.milp.choose import choose
from planner.milp.clock import Deadline
from planner.milp.formulation import CONSTRAINTS, model_of, rows
from planner.milp.highs import Settings
from planner.milp.links import NO_LINKS
from planner.milp.nodes import NO_NODES
from planner.milp.surviving import with_losses

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planner.milp.choice import Choice
    from planner.milp.formulation import Model
    from planner.milp.instance import Instance
    from planner.milp.program import Program

    Row = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Price:
    """What one more of a limit is worth."""

    number: str
    """Of the family on the page."""
    family: str
    index: tuple[str, ...]
    unit: str
    """One more of what: ``accelerator``, ``unit``, ``USD/h``, ``req/s`` (of demand for C2, of
    compliant requests for C3 and C9, of requests turned away for C5)."""
    objective_per_unit: float
    """Change of the objective (its own unit) per unit; above zero where the objective grows."""
    usd_per_hour: float | None
    """The same as money saved (above zero) or spent; None where nothing ties it to money."""
    method: Literal["relaxation", "re-solve"]
    unsure_per_unit: float = 0.0
    """How far ``objective_per_unit`` may be off, from the gaps of the solves it comes from."""


UNITS: Mapping[str, str] = {
    "C2": "req/s",
    "C3": "req/s",
    "C5": "req/s",
    "C6": "accelerator",
    "C7": "unit",
    "C8": "USD/h",
    "C9": "req/s",
    "C32": "node",
    "C34": "W",
    "C36": "unit started or stopped",
    "C40": "req/s",
    "C14": "accelerator",
    "C51": "accelerator",
    "C54": "byte/s",
}
"""What each family's price is per; the others are definitions."""


def relaxation_prices(
    data: Instance, choice: Choice, time_limit_s: float = 60.0
) -> tuple[Price, ...]:
    """Price every row that is a limit or a demand by the duals of the linear relaxation.

    In money: as it stands for ``min_cost``; divided by the ratio for ``max_goodput_per_usd``;
    divided by the price of the budget for ``max_goodput``, if the budget binds.

    Raises:
        LimitReachedError: The time limit passed.
    """
    data = with_losses(data, choice.losses)
    model = model_of(data)
    program = program_of(model, choice)
    answer = highs.run(program.relaxed(), Settings(time_limit_s=time_limit_s))
    if answer.row_duals is None:
        raise LimitReachedError("the time limit passed before the limits were priced")
    duals: dict[Row, float] = {
        (number, index): float(dual) / _row_scale(data, number, index)
        for (number, index, _), dual in zip(rows(data, model.v), answer.row_duals, strict=True)
    }
    money = money_of(choice, duals.get(("C8", ())))
    return tuple(
        Price(
            number,
            CONSTRAINTS[number].__name__,
            index,
            UNITS[number],
            dual,
            None if money is None else dual * money,
            "relaxation",
        )
        for (number, index), dual in duals.items()
        if number in UNITS
    )


def resolve_prices(
    data: Instance, choice: Choice, *, time_limit_s: float = 60.0, gap: float = 1e-6
) -> tuple[Price, ...]:
    """Price one more accelerator, one more unit, and the budget, by solving again.

    The budget is raised by the dearest unit, and the change divided by that. Each solve gets an
    equal share of the time that is left; a limit whose solve finds no fleet in it is left out.
    What the gaps leave open stands beside each price. Under goodput per dollar the money is what
    the fleet's goodput would cost less at the ratio that one more brings.

    Args:
        data: The instance that ``choice`` solves.
        choice: The fleet without the change; solved again first if its gap is wider than ``gap``.
        time_limit_s: For all solves together.
        gap: Of each solve.
    """
    changes = list(_one_more(data))
    deadline = Deadline.after(time_limit_s)
    base = choice
    if choice.gap > max(gap, GAP_FLOOR) and changes:
        base = _again(data, choice, deadline.left_s() / (len(changes) + 1), gap) or choice
    found: list[Price] = []
    for position, (number, index, changed, by) in enumerate(changes):
        share_s = deadline.left_s() / (len(changes) - position)
        other = _again(changed, choice, share_s, gap)
        if other is None:
            continue
        per_unit = (other.objective - base.objective) / by
        unsure = (abs(other.bound - other.objective) + abs(base.bound - base.objective)) / by
        family, unit = CONSTRAINTS[number].__name__, UNITS[number]
        money = -per_unit if choice.name == "min_cost" else None
        if choice.name == "max_goodput_per_usd" and other.objective > 0:
            money = base.cost_usd_per_hour * (1 - base.objective / other.objective) / by
        found.append(Price(number, family, index, unit, per_unit, money, "re-solve", unsure))
    return tuple(found)


def _again(data: Instance, choice: Choice, time_limit_s: float, gap: float) -> Choice | None:
    try:
        return choose(data, choice.name, time_limit_s=time_limit_s, gap=gap)
    except LimitReachedError:
        return None


def _one_more(data: Instance) -> Iterator[tuple[str, tuple[str, ...], Instance, float]]:
    for g, count in data.stock.items():
        yield "C6", (g,), dataclasses.replace(data, stock={**data.stock, g: count + 1}), 1.0
    for j, count in data.max_units.items():
        limits = {**data.max_units, j: count + 1}
        yield "C7", (j,), dataclasses.replace(data, max_units=limits), 1.0
    yield from _one_more_node(data)
    if data.moves is not None and data.moves.most is not None:
        more = dataclasses.replace(data.moves, most=data.moves.most + 1)
        yield "C36", (), dataclasses.replace(data, moves=more), 1.0
    if data.budget_usd_per_hour is not None:
        nodes = (data.nodes or NO_NODES).usd_per_hour.values()
        by = max((*data.usd_per_hour.values(), *nodes)) or 1.0
        budget = data.budget_usd_per_hour + by
        yield "C8", (), dataclasses.replace(data, budget_usd_per_hour=budget), by


def _one_more_node(data: Instance) -> Iterator[tuple[str, tuple[str, ...], Instance, float]]:
    where = data.nodes or NO_NODES
    for d, count in where.stock.items():
        more = dataclasses.replace(where, stock={**where.stock, d: count + 1})
        yield "C32", (d,), dataclasses.replace(data, nodes=more), 1.0
    for name, (members, watts) in where.power.items():
        by = max((where.node_watts.get(d, 0.0) for d in members), default=0.0)
        if by > 0:
            power = {**where.power, name: (members, watts + by)}
            more = dataclasses.replace(where, power=power)
            yield "C34", (name,), dataclasses.replace(data, nodes=more), by


def program_of(model: Model, choice: Choice) -> Program:
    """Return the program whose relaxation prices the rows: a ratio at the one reached."""
    if choice.name == "min_cost":
        return model.cost_program()
    if choice.name == "max_goodput":
        return model.goodput_program()
    return model.ratio_program(choice.objective)


def _row_scale(data: Instance, number: str, index: tuple[str, ...]) -> float:
    """Return what the page divides a row by."""
    if number in ("C2", "C3", "C5"):
        return data.scale(index[0], index[1] if len(index) > 1 else data.T[0])
    if number == "C40":
        return data.scale(index[1], index[2] if len(index) > 2 else data.T[0])
    if number == "C34":
        return (data.nodes or NO_NODES).power[index[0]][1]
    if number == "C54":
        return (data.links or NO_LINKS).carries[index[0]]
    if number == "C8":
        return data.budget_usd_per_hour or 1.0
    if number == "C9":
        return data.goodput_floor_rps or 1.0
    return 1.0


def money_of(choice: Choice, budget_dual: float | None) -> float | None:
    """Return USD/h per unit of the objective, above zero for money saved."""
    if choice.name == "min_cost":
        return -1.0
    if choice.name == "max_goodput_per_usd":
        return 1 / choice.objective if choice.objective else None
    return 1 / budget_dual if budget_dual else None
