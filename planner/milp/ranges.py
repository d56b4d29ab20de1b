"""How far a price may move before another fleet is better.

A fleet's cost is linear in the price of one type of accelerator, whatever else it holds. So two
fleets are equally good at one price, and the best fleet at that price is either one of them or
a third that is better still. Each step solves at the price at which the last rival would be as
good, and takes the rival that it finds there; the prices close in on the plan's range from
outside, and the last is its end.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from planner.errors import InfeasibleError, LimitReachedError, SolverError
from planner.milp.choose import choose

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.milp.choice import Choice
    from planner.milp.clock import Deadline
    from planner.milp.instance import Instance

MOST_STEPS: Final = 12
"""Rivals that are met on the way to one end; two or three are usual."""
DEAR: Final = 1e3
"""Times the price now: dearer than that counts as without an end."""
CHEAP: Final = 1e-6
"""Times the price now: a price of nothing makes programs without a best fleet."""


@dataclass(frozen=True, slots=True)
class Range:
    """Prices of one accelerator between which a fleet stays the best one, USD/h."""

    accelerator: str
    now: float
    low: float
    """Below it another fleet is better; 0 if none is at any price."""
    high: float
    """Above it another fleet is better; infinite if none is at any price."""
    below: Mapping[str, int]
    """Units of the fleet that takes over below ``low``; empty if none does."""
    above: Mapping[str, int]
    """Units of the fleet that takes over above ``high``; empty if none does, or if the budget is
    what ends there."""


def price_range(
    data: Instance, choice: Choice, g: str, now: float, deadline: Deadline, gap: float = 1e-4
) -> Range | None:
    """Find the prices of accelerator ``g`` between which ``choice`` is the best fleet.

    All templates built from ``g`` get dearer or cheaper by what their devices do.

    Args:
        data: The instance that ``choice`` solves, at a price of ``now``.
        choice: The best fleet at that price; ``min_cost`` or ``max_goodput_per_usd``.
        g: The accelerator.
        now: Its price, USD/h for each.
        deadline: When to stop.
        gap: By which share a rival must be better to count as such.

    Returns:
        None if time ran out before both ends were known.
    """
    try:
        low, below = _end(data, choice, g, now, now * CHEAP, deadline, gap)
        high, above = _end(data, choice, g, now, now * DEAR, deadline, gap)
    except LimitReachedError:
        return None
    affordable = _affordable(data, choice, g, now)
    high = high if above else float("inf")
    if affordable < high:
        high, above = affordable, {}
    return Range(g, now, low if below else 0.0, high, below, above)


def _affordable(data: Instance, choice: Choice, g: str, now: float) -> float:
    """Return the price of ``g`` at which a fleet costs the whole budget; infinite without one."""
    _, rest, count = _parts(data, choice, g, now)
    if data.budget_usd_per_hour is None or count == 0:
        return float("inf")
    return max((data.budget_usd_per_hour - rest) / count, now)


def _end(
    data: Instance,
    choice: Choice,
    g: str,
    now: float,
    outside: float,
    deadline: Deadline,
    gap: float,
) -> tuple[float, Mapping[str, int]]:
    """Close in on one end of the range from a price outside it."""
    price, rival = outside, dict[str, int]()
    for _ in range(MOST_STEPS):
        other = _at(data, choice, g, now, price, deadline, gap)
        if other is None or not _beats(data, other, choice, g, now, price, gap):
            return price, rival
        meets = _meet(data, other, choice, g, now)
        if meets is None or not min(price, now) <= meets <= max(price, now):
            return now, dict(other.units)
        price, rival = meets, dict(other.units)
    return price, rival


def _at(
    data: Instance,
    choice: Choice,
    g: str,
    now: float,
    price: float,
    deadline: Deadline,
    gap: float,
) -> Choice | None:
    """Choose the best fleet at another price of ``g``."""
    usd = {j: c + (price - now) * data.held(j, g) for j, c in data.usd_per_hour.items()}
    priced = dataclasses.replace(data, usd_per_hour={j: max(c, 0.0) for j, c in usd.items()})
    left_s = deadline.left_s()
    if left_s <= 0:
        raise LimitReachedError("the time limit passed before the range of a price was known")
    try:
        return choose(priced, choice.name, time_limit_s=left_s, gap=gap / 4)
    except (InfeasibleError, SolverError):
        return None


def _parts(data: Instance, one: Choice, g: str, now: float) -> tuple[float, float, float]:
    """Return goodput (1 where cost alone counts), cost without ``g``, and devices of ``g``."""
    count = sum(n * data.held(j, g) for j, n in one.units.items())
    cost = sum(n * data.usd_per_hour[j] for j, n in one.units.items()) + one.bill.get("moves", 0.0)
    goodput = 1.0
    if one.name == "max_goodput_per_usd":
        goodput = sum(data.worth(w) * rate for w, rate in one.goodput_rps.items())
    return goodput, cost - count * now, float(count)


def _beats(
    data: Instance, other: Choice, choice: Choice, g: str, now: float, price: float, gap: float
) -> bool:
    goodput, rest, count = _parts(data, choice, g, now)
    its_goodput, its_rest, its_count = _parts(data, other, g, now)
    ours = (rest + count * price) / goodput
    its = (its_rest + its_count * price) / its_goodput
    return its < ours * (1 - gap)


def _meet(data: Instance, other: Choice, choice: Choice, g: str, now: float) -> float | None:
    """Return the price at which two fleets are equally good; None if at every or at none."""
    goodput, rest, count = _parts(data, choice, g, now)
    its_goodput, its_rest, its_count = _parts(data, other, g, now)
    slope = its_goodput * count - goodput * its_count
    if slope == 0:
        return None
    return (goodput * its_rest - its_goodput * rest) / slope
