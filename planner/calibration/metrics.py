"""How far predictions are from measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.calibration.predict import Estimate


@dataclass(frozen=True, slots=True)
class Scored:
    """One value: measured, predicted, and the keys by which it is grouped."""

    measured: float
    predicted: Estimate
    mode: str
    accelerator: str
    engine: str
    model: str


@dataclass(frozen=True, slots=True)
class Metrics:
    """Relative errors of a set of predictions, as shares."""

    n: int
    mape: float
    """Mean of |predicted / measured − 1|."""
    median_ape: float
    bias: float
    """Median of predicted / measured − 1."""
    p90: float
    """90th percentile of |predicted / measured − 1|."""
    band_coverage: float | None
    """Share of measurements within the stated 90 % band; None where no band is stated."""


def metrics_of(scored: Sequence[Scored]) -> Metrics | None:
    """Return the metrics of a set; None where it is empty."""
    if not scored:
        return None
    error = np.array([s.predicted.value / s.measured - 1 for s in scored])
    banded = [s for s in scored if np.isfinite(s.predicted.low)]
    within = [s.predicted.low <= s.measured <= s.predicted.high for s in banded]
    size = np.abs(error)
    return Metrics(
        n=len(scored),
        mape=float(size.mean()),
        median_ape=float(np.median(size)),
        bias=float(np.median(error)),
        p90=float(np.quantile(size, 0.9)),
        band_coverage=float(np.mean(within)) if banded else None,
    )


BY = ("mode", "accelerator", "engine", "model")


def breakdown(scored: Sequence[Scored]) -> dict[str, dict[str, Metrics]]:
    """Return metrics overall, and by mode, accelerator, engine and model."""
    found: dict[str, dict[str, Metrics]] = {}
    whole = metrics_of(scored)
    if whole is None:
        return found
    found["overall"] = {"all": whole}
    for by in BY:
        levels = sorted({getattr(s, by) for s in scored})
        found[f"by_{by}"] = {
            level: m
            for level in levels
            if (m := metrics_of([s for s in scored if getattr(s, by) == level])) is not None
        }
    return found
