"""What the fleet may be built of, and what it costs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator, model_validator

from planner.scenario.terms import SupplyTerms
from planner.spec import Spec, mistake
from planner.units import LEAST_USD_PER_HOUR, UnitPrice, UsdPerHour


class PriceChoice(Spec):
    """Which of the catalogue's price points holds; see ``planner catalogue prices``."""

    provider: str
    """Who sells, as the catalogue spells it."""
    region: str | None = None
    """Where; needed if the provider's prices differ by region."""
    term: str = "on-demand"
    """``on-demand``, ``reserved-1y``, ``reserved-3y``, ``spot``, ..."""


class AcceleratorOffer(Spec):
    """One type of accelerator that may be used."""

    id: str
    """An id or alias of ``planner catalogue list accelerators``, such as ``h100-sxm``."""

    stock: Annotated[int, Field(gt=0, le=10_000_000)] | None = None
    """How many accelerators can be had; no limit where left out."""

    price: UnitPrice | None = None
    """Price of one accelerator, such as ``2.49 USD/h``."""

    price_from: PriceChoice | None = None
    """Take the price from the catalogue instead."""

    terms: SupplyTerms | None = None
    """Other terms on which it can be held, where ``traffic.adapt`` is ``hourly``."""

    @field_validator("stock", mode="before")
    @classmethod
    def _some_stock(cls, value: object) -> object:
        if value == 0 and not isinstance(value, bool):
            raise ValueError("a stock of 0 offers nothing; leave this accelerator out")
        return value

    @model_validator(mode="after")
    def _one_price(self) -> AcceleratorOffer:
        if (self.price is None) == (self.price_from is None):
            what = "both are given" if self.price is not None else "neither is given"
            at = ("price",) if self.price is not None else ()
            raise mistake(f"give either price or price_from; {what}", *at)
        return self


class Limits(Spec):
    """What the fleet must not exceed."""

    budget: UsdPerHour | None = Field(default=None)
    """Most that the fleet may cost."""

    @field_validator("budget")
    @classmethod
    def _pays_for_something(cls, value: float | None) -> float | None:
        if value is not None and 0 < value < LEAST_USD_PER_HOUR:
            raise ValueError(f"must be at least {LEAST_USD_PER_HOUR:g} USD/h, the least price")
        return value
