"""The price of an accelerator: the scenario's own, or one of the catalogue's price points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.errors import InputError

if TYPE_CHECKING:
    from planner.catalogue import Catalogue, PricePoint
    from planner.scenario.supply import AcceleratorOffer


class PriceError(InputError):
    """The catalogue has no such price, or several that differ."""


def price_of(
    offer: AcceleratorOffer, accelerator: str, catalogue: Catalogue
) -> tuple[float, str, str]:
    """Return price (USD/h of one accelerator), its source, and the term.

    Of several price points for the same provider, region and term, the newest counts.

    Raises:
        PriceError: Nothing fits; the message lists what there is.
    """
    if offer.price is not None:
        return offer.price, "scenario", "stated"
    choice = offer.price_from
    assert choice is not None  # the document has exactly one of the two
    everything = catalogue.prices(accelerator)
    try:
        rows = catalogue.prices(accelerator, choice.provider, choice.region, choice.term)
    except InputError as error:
        raise PriceError(str(error)) from error
    if not rows:
        there = sorted({f"{r.provider} {r.region} {r.term}".replace("  ", " ") for r in everything})
        shown = "; ".join(there[:8]) + (f" and {len(there) - 8} more" if len(there) > 8 else "")
        wanted = " ".join(filter(None, (choice.provider, choice.region, choice.term)))
        raise PriceError(f"no price of {accelerator} for {wanted}; there are: {shown or 'none'}")
    regions = sorted({r.region for r in rows})
    if len(regions) > 1:
        shown = ", ".join(regions[:10])
        raise PriceError(f"{choice.provider}'s prices differ by region; add one of {shown}")
    newest = max(rows, key=lambda r: (r.date, -r.usd_per_accelerator_hour))
    return newest.usd_per_accelerator_hour, _source(newest), newest.term


def _source(point: PricePoint) -> str:
    where = f" {point.region}" if point.region else ""
    return (
        f"{point.provider}{where} {point.term}, {point.instance or 'per accelerator'},"
        f" {point.date}, confidence {point.confidence}"
    )
