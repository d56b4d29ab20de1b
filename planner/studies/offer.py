"""A supplier's offer: so many accelerators, paid around the clock, for so many months.

What is offered is paid whether it is used or not. So the best fleet with it costs the offer, and
what is bought beside it when those of the offer are as good as free; the offer is worth

    (cost of the best fleet without it - cost of the rest beside it) / accelerators

an hour each, and it is taken below that price. All of it is cost at the demand of the scenario.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

from planner.errors import InputError
from planner.spec import Spec
from planner.units import LEAST_USD_PER_HOUR, PRICE

if TYPE_CHECKING:
    from planner.studies.asking import Asking, PricedFleet

HOURS_PER_MONTH: Final = 730
EXAMPLE: Final = "64 h200-sxm at 2.10 USD/h for 24 months"
MIN_COST: Final = "objective=min_cost"
_WORDS: Final = re.compile(
    r"^\s*(?P<count>[\d_,]+)\s*(?:x\s+)?(?P<id>[a-z0-9][a-z0-9._-]*)\s+at\s+(?P<price>.+?)"
    r"(?:\s+for\s+(?P<months>\d{1,3})\s+months?)?\s*$",
    re.IGNORECASE,
)


class Offer(Spec):
    """What is offered."""

    accelerator: str
    count: int
    usd_per_hour: float
    """Of one, used or not."""
    months: int


class OfferAnswer(Spec):
    """Whether to take it, and at which price that would flip."""

    offer: Offer
    verdict: Literal["accept", "refuse"]
    without_usd_per_hour: float
    """The best fleet without the offer."""
    with_usd_per_hour: float
    """The offer and what is bought beside it."""
    beside_usd_per_hour: float
    """What is bought beside it."""
    saves_usd_per_hour: float
    """Negative where the offer costs more than it spares."""
    saves_usd: float
    """Over all months."""
    flips_at_usd_per_hour: float
    """The offer's worth: it is taken below this price."""
    used: int
    """Of the offered ones, by the fleet that has them; the rest lies idle."""
    without: tuple[str, ...]
    with_it: tuple[str, ...]
    notes: tuple[str, ...]


def read_offer(text: str) -> Offer:
    """Read an offer in words.

    Raises:
        InputError: It is written otherwise.
    """
    found = _WORDS.match(text)
    if found is None:
        raise InputError(f"{text!r}: write an offer as '{EXAMPLE}'")
    try:
        price = PRICE.read(found["price"])
    except ValueError as error:
        raise InputError(f"{text!r}: {error}; write an offer as '{EXAMPLE}'") from error
    count = int(found["count"].replace(",", "").replace("_", "") or 0)
    months = int(found["months"] or 12)
    if not 0 < count <= 10_000_000 or months == 0 or price < LEAST_USD_PER_HOUR:
        raise InputError(f"{text!r}: count, price and months must be above 0, as in '{EXAMPLE}'")
    return Offer(accelerator=found["id"].lower(), count=count, usd_per_hour=price, months=months)


def answer_offer(asking: Asking, offer: Offer) -> OfferAnswer:
    """Plan without and with an offer.

    Args:
        asking: Plans the question; its scenario offers the accelerator, at the market's price.
        offer: The offer.

    Raises:
        InputError: There is no fleet even with it.
    """
    without = asking.at(asking.now_usd_per_hour, (MIN_COST,))
    stock = f"accelerators.{asking.accelerator}.stock={offer.count}"
    free = asking.at(LEAST_USD_PER_HOUR, (MIN_COST, stock))
    if free.cost_usd_per_hour is None:
        raise InputError(
            f"{offer.count} x {offer.accelerator} beside what else can be bought is no fleet that"
            " keeps every promise (beyond an offer none of its kind is bought); nothing to weigh"
        )
    beside = free.cost_usd_per_hour - free.count * LEAST_USD_PER_HOUR
    paid = offer.count * offer.usd_per_hour
    notes = []
    base = without.cost_usd_per_hour
    if base is None:
        raise InputError("without the offer there is no fleet that keeps every promise: take it")
    worth = (base - beside) / offer.count
    if free.count >= offer.count:
        notes.append(
            "all of the offer is used, and none beside it at the market's price was weighed: it may"
            " be worth more"
        )
    idle = offer.count - free.count
    if idle:
        notes.append(f"{idle} of {offer.count} lie idle at this demand and are paid all the same")
    notes += _unproven(without, free)
    saves = base - beside - paid
    return OfferAnswer(
        offer=offer,
        verdict="accept" if saves > 0 else "refuse",
        without_usd_per_hour=base,
        with_usd_per_hour=beside + paid,
        beside_usd_per_hour=beside,
        saves_usd_per_hour=saves,
        saves_usd=saves * HOURS_PER_MONTH * offer.months,
        flips_at_usd_per_hour=worth,
        used=free.count,
        without=without.fleet,
        with_it=free.fleet,
        notes=tuple(notes),
    )


def _unproven(*fleets: PricedFleet) -> list[str]:
    bad = [fleet for fleet in fleets if fleet.status != "optimal"]
    return ["a plan was not proven best before its time limit"] if bad else []
