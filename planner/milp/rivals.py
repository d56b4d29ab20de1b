"""What it would cost to have a template in the fleet that is not in it.

Two measures. The *reduced cost* of a unit at the duals of the linear relaxation: what it costs
more than it is worth there, where fractions of units may be had. And the *loss*: how much
dearer the best fleet with at least one such unit is, solved again; exact.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.errors import InfeasibleError, InputError, LimitReachedError
from planner.milp import highs
from planner.milp.choose import choose
from planner.milp.clock import Deadline
from planner.milp.formulation import model_of
from planner.milp.highs import Settings
from planner.milp.narrow import loss_per_unit
from planner.milp.prices import money_of, program_of
from planner.milp.surviving import with_losses

if TYPE_CHECKING:
    from planner.milp.choice import Choice
    from planner.milp.instance import Instance

MOST_STEPS: Final = 6
"""Fleets that are met on the way to the price at which a unit enters; one or two are usual."""


def reduced_costs(
    data: Instance, choice: Choice, time_limit_s: float = 60.0
) -> dict[str, float | None]:
    """Return what a unit of each template costs beyond its worth at the relaxation's prices.

    A unit is worth what the best of its operating points carries and keeps, less what it takes
    of stocks and limits. In USD/h; None where nothing ties the objective to money.

    Raises:
        LimitReachedError: The time limit passed.
    """
    model = model_of(with_losses(data, choice.losses))
    program = program_of(model, choice)
    answer = highs.run(program.relaxed(), Settings(time_limit_s=time_limit_s))
    if answer.row_duals is None:
        raise LimitReachedError("the time limit passed before the templates were priced")
    duals = np.asarray(answer.row_duals)
    losses = loss_per_unit(model, program, duals)
    budget = {row: -dual for row, dual in zip(program.rows, duals.tolist(), strict=True)}
    money = money_of(choice, budget.get("budget_is_kept()"))
    factor = abs(money) if money is not None else None
    found: dict[str, float | None] = {}
    for j in data.J:
        found[j] = None if factor is None else max(losses[j], 0.0) * factor
    return found


@dataclass(frozen=True, slots=True)
class Forced:
    """The best fleet with at least one unit of a template."""

    choice: Choice
    enters_at_usd_per_hour: float | None
    """Highest price of a unit at which a fleet with it is as good as the best; None if at none."""


def with_one(
    data: Instance, choice: Choice, j: str, time_limit_s: float, gap: float = 1e-5
) -> Forced | None:
    """Choose the best fleet that holds ``j``, and the price of its unit at which it would enter.

    Returns:
        None if no fleet within the limits holds it, or time ran out.
    """
    deadline = Deadline.after(time_limit_s)
    held = dataclasses.replace(data, min_units={**data.min_units, j: 1})
    try:
        first = forced = choose(held, choice.name, time_limit_s=time_limit_s, gap=gap)
        if data.nodes is not None:  # whole nodes have a price, units have none
            return Forced(first, None)
        price = _meets_at(data, choice, forced, j)
        for _ in range(MOST_STEPS):
            at = max(price or 0.0, 0.0)
            usd = {**data.usd_per_hour, j: at}
            cheaper = dataclasses.replace(held, usd_per_hour=usd)
            forced = choose(cheaper, choice.name, time_limit_s=deadline.left_s(), gap=gap)
            higher = _meets_at(data, choice, forced, j)
            if higher is None or (
                price is not None and higher <= price + max(gap, 1e-6) * abs(price)
            ):
                break
            price = higher
    except (InfeasibleError, InputError, LimitReachedError):
        return None
    return Forced(first, price if price is not None and price > 0 else None)


def _meets_at(data: Instance, choice: Choice, forced: Choice, j: str) -> float | None:
    """Return the price of a unit at which a fleet with some would be as good as the best."""
    units = forced.units[j]
    rest = sum(n * data.usd_per_hour[k] for k, n in forced.units.items() if k != j)
    rest += forced.bill.get("moves", 0.0)
    if choice.name == "min_cost":
        worth = choice.cost_usd_per_hour
    elif choice.name == "max_goodput_per_usd" and choice.objective > 0:
        goodput = sum(data.worth(w) * rate for w, rate in forced.goodput_rps.items())
        worth = goodput / choice.objective
    else:
        return None
    return (worth - rest) / units
