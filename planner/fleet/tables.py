"""Fleets by measured capacities, which nothing was simulated for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from planner.fleet.figures import Whole
from planner.spec import Spec


class TableUnits(Spec):
    """Units of one template of a capacity table."""

    template: str
    accelerator: str
    devices: Whole
    """Accelerators in one unit."""
    units: Annotated[int, Field(ge=1)]
    busy_units: float
    """How many of them the load takes: the sum of rate / capacity over buckets."""
    usd_per_hour: float
    """Of all of them, busy or idle."""


class TableShare(Spec):
    """How much of a bucket a template serves."""

    template: str
    accelerator: str
    share: float
    """Of the bucket's requests."""
    rate_rps: float
    capacity_rps: float
    """Of one unit that serves nothing else, as the table has it."""
    busy_units: float
    """rate / capacity."""


class TableBucket(Spec):
    """What becomes of the requests of one size."""

    id: str
    input_tokens: float | None
    output_tokens: float | None
    offered_rps: float
    served_rps: float
    routing: tuple[TableShare, ...]


class TableFleet(Spec):
    """A fleet by measured capacities: loads add, whole units are paid, nothing is simulated."""

    provenance: Literal["measured capacity table; not simulated"]
    source: str
    """The file or scenario that holds the table."""
    units: tuple[TableUnits, ...]
    buckets: tuple[TableBucket, ...]
