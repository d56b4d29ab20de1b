"""What is bought, and what it costs."""

from __future__ import annotations

from planner.fleet.figures import Count
from planner.spec import Spec


class SupplyLine(Spec):
    """Accelerators to rent or use, by themselves or in whole nodes."""

    accelerator: str
    domain: str | None
    term: str
    count: Count
    usd_per_hour: float
    """Of all of them."""
    price_source: str
    nodes: Count | None = None
    """Whole nodes, where they are sold so."""


class BillLine(Spec):
    """One cost; the lines sum to the total."""

    item: str
    usd_per_hour: float
