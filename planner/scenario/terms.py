"""On which terms accelerators can be held beside their price by the hour."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from planner.spec import Spec
from planner.units import SecondsOrNone, Share, UnitPrice

Count = Annotated[int, Field(gt=0, le=10_000_000)]


class Reserved(Spec):
    """Accelerators that are paid around the clock, used or not."""

    price: UnitPrice
    """Price of one, such as ``1.89 USD/h``."""
    stock: Count | None = None
    """How many can be reserved; no limit where left out."""


class Owned(Spec):
    """Accelerators that are there already."""

    count: Count
    """How many."""
    price: UnitPrice
    """What it costs to keep one, used or not."""


class Spot(Spec):
    """Accelerators by the hour that may be taken away."""

    price: UnitPrice
    """Price of one."""
    share: Annotated[Share, Field(gt=0, le=1, allow_inf_nan=False)]
    """Most of what is held of the accelerator at any time that may be spot."""
    stock: Count | None = None
    """How many can be had; no limit where left out."""


class SupplyTerms(Spec):
    """Terms beside the accelerator's ``price``, which is that of an hour on demand.

    They count where ``traffic.adapt`` is ``hourly``.
    """

    owned: Owned | None = None
    reserved: Reserved | None = None
    spot: Spot | None = None
    start_time: SecondsOrNone = 0.0
    """From hiring an accelerator, or clearing one, to a replica that serves; hired ones are paid
    meanwhile."""
    least_time: SecondsOrNone = 0.0
    """For how long an accelerator on demand is paid at least once it is started."""
    ramp: Count | None = None
    """Most accelerators by which those in use rise or fall from one window of time to the next; no
    limit where left out."""
