"""Break-even prices and answers to offers, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.reporting.format import NONE, count, usd
from planner.reporting.layout import grid, heading, lines, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from planner.studies.asking import PricedFleet
    from planner.studies.break_even import BreakEven
    from planner.studies.offer import OfferAnswer


def break_even_tables(found: BreakEven) -> Iterator[RenderableType]:
    """Lay out where an accelerator enters or leaves the fleet."""
    low, high, name = found.bought_at, found.not_bought_at, found.accelerator
    if low is not None and high is not None:
        told = (
            f"{name}: bought up to {usd(low.usd_per_hour)} an hour, not at {usd(high.usd_per_hour)}"
        )
    elif low is None:
        told = f"{name}: not bought at any price that was tried"
    else:
        told = f"{name}: bought at every price that was tried"
    yield plain(f"{told}; it is {usd(found.now_usd_per_hour)} now\n", style="bold")
    there = {fleet.usd_per_hour: fleet for fleet in (found.now, low, high) if fleet is not None}
    yield grid(
        (">USD/h of one", f">{name}", ">fleet, USD/h", ">per thousand", "fleet"),
        [_row(there[price]) for price in sorted(there)],
    )
    yield plain(f"\n{count(found.plans, 'plan')}, each anew at its price")


def _row(fleet: PricedFleet) -> tuple[str, ...]:
    return (
        usd(fleet.usd_per_hour),
        str(fleet.count),
        usd(fleet.cost_usd_per_hour),
        usd(fleet.usd_per_thousand_compliant),
        ", ".join(fleet.fleet) or fleet.status,
    )


def offer_tables(found: OfferAnswer) -> Iterator[RenderableType]:
    """Lay out whether to take an offer."""
    offer = found.offer
    much = usd(abs(found.saves_usd_per_hour))
    why = f"saves {much} an hour" if found.saves_usd_per_hour > 0 else f"costs {much} an hour more"
    yield plain(
        f"{offer.count} {offer.accelerator} at {usd(offer.usd_per_hour)}: {found.verdict}, it"
        f" {why}; flips at {usd(found.flips_at_usd_per_hour)}\n",
        style="bold",
    )
    rows = (
        ("without the offer", usd(found.without_usd_per_hour), ", ".join(found.without)),
        ("with it", usd(found.with_usd_per_hour), ", ".join(found.with_it)),
        (
            "  the offer, used or not",
            usd(offer.count * offer.usd_per_hour),
            f"{found.used} of {offer.count} used",
        ),
        ("  beside it", usd(found.beside_usd_per_hour), ""),
        (f"saved over {count(offer.months, 'month')}", usd(found.saves_usd), ""),
    )
    yield grid(("", ">USD/h", "fleet"), [(a, b or NONE, c) for a, b, c in rows])
    if found.notes:
        yield heading("Notes")
        yield lines(found.notes)
