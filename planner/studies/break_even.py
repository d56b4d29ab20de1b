"""The price at which an accelerator enters or leaves the best fleet, found by planning anew."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from planner.spec import Spec
from planner.studies.asking import PricedFleet
from planner.units import LEAST_USD_PER_HOUR

if TYPE_CHECKING:
    from planner.studies.asking import Asking

REACH: Final = 64.0
"""Times the price now, up and down, within which a flip is looked for."""
PRECISION: Final = 0.01
"""Relative distance of the two prices between which the choice flips."""


class BreakEven(Spec):
    """Two prices next to each other: at the lower the accelerator is bought, at the higher not."""

    accelerator: str
    now_usd_per_hour: float
    bought_now: int
    """How many, at the price now."""
    bought_at: PricedFleet | None
    """Highest price seen at which some are bought; null where none is at any price looked at."""
    not_bought_at: PricedFleet | None
    """Lowest seen at which none is; null where some are bought at any price looked at."""
    now: PricedFleet
    plans: int
    """Planned to find this out."""


def break_even(asking: Asking, precision: float = PRECISION) -> BreakEven:
    """Find the price at which the best fleet no longer has any of an accelerator.

    A dearer accelerator is bought less, as long as cost is what decides; so the choice flips once.
    The price is doubled or halved until it does, and the step then halved, in ratios.

    Args:
        asking: Plans the question at a price.
        precision: Relative distance of the two prices that are told.
    """
    now = asking.now_usd_per_hour
    here = asking.at(now)
    low: PricedFleet | None = here if here.count else None
    high: PricedFleet | None = None if here.count else here
    price, factor = now, 2.0 if here.count else 0.5
    while low is None or high is None:
        price *= factor
        if not max(now / REACH, LEAST_USD_PER_HOUR) <= price <= now * REACH:
            break
        found = asking.at(price)
        if found.count:
            low = found
        else:
            high = found
    while low is not None and high is not None:
        if high.usd_per_hour / low.usd_per_hour <= 1 + precision:
            break
        middle = asking.at(_round(math.sqrt(low.usd_per_hour * high.usd_per_hour)))
        if middle.count:
            low = middle
        else:
            high = middle
    return BreakEven(
        accelerator=asking.accelerator,
        now_usd_per_hour=now,
        bought_now=here.count,
        bought_at=low,
        not_bought_at=high,
        now=here,
        plans=len(asking.done),
    )


def _round(price: float) -> float:
    """Keep prices short, far within the precision."""
    return float(f"{price:.6g}")
