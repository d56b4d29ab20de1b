"""Numbers with what they may be off by."""

from __future__ import annotations

from typing import Literal

from planner.spec import Spec

Status = Literal["optimal", "feasible", "infeasible", "unknown"]
Verdict = Literal["kept", "broken", "undecided"]


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
