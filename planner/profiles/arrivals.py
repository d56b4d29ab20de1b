"""Arrivals of a trace: rate over time, burstiness by time scale, memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.profiles.document import ArrivalProfile, Dispersion, RateOverTime

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SCALES_S: Final = (0.1, 1.0, 10.0, 60.0, 600.0, 3600.0)
"""Windows for which dispersion is told, as far as the trace has enough of them."""
FEWEST_WINDOWS: Final = 10
SPARSE: Final = 0.02
"""Requests in a window, in the mean, below which its dispersion says nothing."""
BLOCKS: Final = 10
"""Parts of a trace whose spread gives the interval of a dispersion."""
DRAWN: Final = 240
"""Windows of the rate over time, about."""
HOUR_S: Final = 3600.0
LAGS: Final = 20
_ROUND_S: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 86_400)


def profile_arrivals(
    time_s: Floats, span_s: float, stamped_s: Floats, tick_s: float
) -> ArrivalProfile:
    """Measure arrivals.

    Args:
        time_s: Ascending from 0, those of one tick spread over it; at least two.
        span_s: Time that the trace covers.
        stamped_s: As the file stamps them.
        tick_s: Step of the clock that stamped them; 0 where it is fine enough.
    """
    window_s = next((float(w) for w in _ROUND_S if span_s / w <= DRAWN), 86_400.0)
    scales = [
        w for w in SCALES_S if span_s / w >= FEWEST_WINDOWS and time_s.size * w / span_s >= SPARSE
    ]
    lag_s = next((w for w in (10.0, 60.0, 1.0) if span_s / w >= 5 * LAGS), span_s / (5 * LAGS))
    return ArrivalProfile(
        span_s=span_s,
        rate_rps=time_s.size / span_s,
        cv=_cv(np.diff(time_s)),
        cv_as_stamped=_cv(np.diff(stamped_s)),
        tick_s=tick_s,
        rate=RateOverTime(
            window_s=window_s,
            rps=tuple((counts_by(time_s, span_s, window_s, whole=False) / window_s).tolist()),
        ),
        dispersion=tuple(dispersion(time_s, span_s, w) for w in scales),
        autocorrelation_window_s=lag_s,
        autocorrelation=tuple(autocorrelation(counts_by(time_s, span_s, lag_s), LAGS)),
    )


def counts_by(
    time_s: Floats, span_s: float, window_s: float, *, whole: bool = True
) -> NDArray[np.int64]:
    """Count arrivals by window; a part of a window at the end is left out if ``whole``."""
    windows = math.floor(span_s / window_s) if whole else math.ceil(span_s / window_s)
    at = (time_s / window_s).astype(np.int64)
    counts = np.bincount(at, minlength=windows)[: max(windows, 1)]
    return np.asarray(counts, np.int64)


def dispersion(time_s: Floats, span_s: float, window_s: float) -> Dispersion:
    """Return the index of dispersion of counts at one time scale.

    The mean is that of each hour, so that the course of a day is no burst; in windows of more
    than ten minutes, it is that of the whole.
    """
    counts = counts_by(time_s, span_s, window_s).astype(np.float64)
    per_hour = round(HOUR_S / window_s)
    mean = np.full(counts.size, counts.mean())
    if per_hour >= 6 and counts.size >= 2 * per_hour:
        for first in range(0, counts.size, per_hour):
            part = counts[max(min(first, counts.size - per_hour), 0) : first + per_hour]
            mean[first : first + per_hour] = part.mean()
    square = (counts - mean) ** 2
    index = float(square.sum() / counts.sum()) if counts.sum() else 1.0
    blocks = [
        (float(s.sum() / c.sum()))
        for s, c in zip(np.array_split(square, BLOCKS), np.array_split(counts, BLOCKS), strict=True)
        if c.sum() > 0
    ]
    half = 1.96 * float(np.std(blocks, ddof=1)) / math.sqrt(len(blocks)) if len(blocks) > 1 else 0.0
    return Dispersion(
        window_s=window_s,
        windows=counts.size,
        index=index,
        low=max(index - half, 0.0),
        high=index + half,
        peak=float(counts.max()) / window_s * span_s / time_s.size,
    )


def autocorrelation(counts: NDArray[np.int64], lags: int) -> list[float]:
    """Return the correlation of counts with those 1, 2, ... windows later; 0 if all are equal."""
    centred = counts - counts.mean()
    power = float((centred * centred).sum())
    most = min(lags, counts.size - 2)
    if power <= 0:
        return [0.0] * most
    return [float((centred[:-lag] * centred[lag:]).sum()) / power for lag in range(1, most + 1)]


def _cv(gap: Floats) -> float:
    mean = float(gap.mean())
    return float(gap.std()) / mean if mean > 0 else 0.0
