"""Numbers with what they may be off by."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from planner.spec import Spec

Status = Literal["optimal", "feasible", "infeasible", "unknown"]
Verdict = Literal["kept", "broken", "undecided"]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Count = Annotated[int, Field(ge=0)]
Whole = Annotated[int, Field(ge=1)]
"""Of what there is at least one."""
ShareOfAll = Annotated[float, Field(ge=0, le=1)]


class Interval(Spec):
    """An estimate with its 95 % confidence interval."""

    value: float
    low: float
    high: float


class Quantiles(Spec):
    """Quantiles over requests, in seconds."""

    p50: float
    p90: float
    p95: float
    p99: float
