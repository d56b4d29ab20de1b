"""Whole nodes as they are sold, and where they stand."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from planner.ids import Slug
from planner.scenario.supply import PriceChoice
from planner.spec import Spec, mistake
from planner.units import UnitPrice, Watts


class NodeOffer(Spec):
    """Equal nodes in one place: bought whole, or owned and partly used."""

    id: Slug
    """Unique; names the domain in the plan."""

    accelerator: str
    """What is in it: an id or alias of ``planner catalogue list accelerators``."""

    devices: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Accelerators in one node that reach each other over the scale-up link; a replica stays
    within them. What is usual for the accelerator, where left out."""

    stock: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """How many nodes can be had; no limit where left out."""

    price: UnitPrice | None = None
    """Price of one whole node, such as ``23.92 USD/h``."""

    price_from: PriceChoice | None = None
    """Take the price from the catalogue instead: its price of an accelerator, times devices."""

    free: tuple[Annotated[int, Field(ge=1, le=1024)], ...] = Field(default=(), max_length=10_000)
    """Devices that are free in each node that is partly used and paid for anyway: used before
    a node is bought."""

    power: Watts | None = None
    """Power that one node draws, with its share of network and cooling; the accelerator's
    all-in power times devices, where left out."""

    rack: Slug | None = None
    """The rack in which its nodes stand."""
    zone: Slug | None = None
    """The zone: what is lost together."""
    region: Slug | None = None
    """The region; workloads may be pinned to regions."""

    @model_validator(mode="after")
    def _one_price(self) -> NodeOffer:
        if (self.price is None) == (self.price_from is None):
            what = "both are given" if self.price is not None else "neither is given"
            at = ("price",) if self.price is not None else ()
            raise mistake(f"give either price or price_from; {what}", *at)
        if self.stock == 0 and not self.free:
            raise mistake("a stock of 0 offers nothing; leave these nodes out", "stock")
        return self
