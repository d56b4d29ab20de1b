"""Low-rank adapters (LoRA) that requests of a workload name."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from planner.spec import Spec
from planner.units import Fraction


class Adapters(Spec):
    """Adapters of one workload; all are kept in device memory by every replica that serves it."""

    count: Annotated[int, Field(ge=1, le=100_000)]
    """How many: slots of the engine."""

    rank: Annotated[int, Field(ge=1, le=4096)]
    """Rank of each: the engine keeps room for the largest."""

    targets: Literal["attention", "all"]
    """Which matrices they change: query, key, value and output, or gate, up and down as well."""

    overhead: Fraction
    """By how much a step takes longer with them, as you measured it; depends on engine, rank and
    how many adapters meet in a step, so there is no default."""
