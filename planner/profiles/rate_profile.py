"""Rates by window of time, and no requests: what they tell of a load over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from planner.data import version
from planner.spec import Spec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class RateProfile(Spec):
    """A load over time."""

    format_version: Literal["1.0"] = "1.0"
    planner_version: str
    knows: Literal["rates"] = "rates"
    """How many requests came when; nothing of their lengths."""
    file: str
    series: str | None
    """Which of the file's, where it holds several."""
    windows: int
    window_s: float
    span_s: float
    mean_rps: float
    """Over all time, each window for as long as it lasts."""
    least_rps: float
    p50_rps: float
    """Of time, as are the next two: half of the time the rate is at most this."""
    p95_rps: float
    p99_rps: float
    peak_rps: float
    hours_rps: tuple[float | None, ...]
    """Mean rate by hour of the day, from midnight; None where no window begins."""


def profile_rates(start_s: Floats, rate_rps: Floats, file: str, series: str | None) -> RateProfile:
    """Measure a series; the last window is taken to last as long as most do.

    Args:
        start_s: Starts of the windows, ascending, from midnight.
        rate_rps: The rate in each.
        file: Its name, for the document.
        series: Which of the file's.
    """
    usual = float(np.median(np.diff(start_s))) if start_s.size > 1 else 600.0
    long_s = np.diff(start_s, append=start_s[-1] + usual)
    order = np.argsort(rate_rps, kind="stable")
    until = np.cumsum(long_s[order]) / long_s.sum()
    at = np.searchsorted(until, (0.5, 0.95, 0.99))
    p50, p95, p99 = rate_rps[order][np.minimum(at, order.size - 1)].tolist()
    hour = (start_s // 3600 % 24).astype(np.int64)
    time = np.bincount(hour, long_s, 24)
    asked = np.bincount(hour, long_s * rate_rps, 24)
    return RateProfile(
        planner_version=version(),
        file=file,
        series=series,
        windows=start_s.size,
        window_s=usual,
        span_s=float(long_s.sum()),
        mean_rps=float((rate_rps * long_s).sum() / long_s.sum()),
        least_rps=float(rate_rps.min()),
        p50_rps=p50,
        p95_rps=p95,
        p99_rps=p99,
        peak_rps=float(rate_rps.max()),
        hours_rps=tuple(float(n / t) if t > 0 else None for n, t in zip(asked, time, strict=True)),
    )
