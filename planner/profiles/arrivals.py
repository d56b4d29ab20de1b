"""Arrivals of a trace: rate over time, burstiness by time scale, memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
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
    longest = _ROUND_S[-1] * math.ceil(span_s / DRAWN / _ROUND_S[-1])
    window_s = next((float(w) for w in _ROUND_S if span_s / w <= DRAWN), float(longest))
    rate = counts_by(time_s, span_s, window_s, whole=False).dense() / window_s
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
            rps=tuple(rate.tolist()),
        ),
        dispersion=tuple(dispersion(time_s, span_s, w) for w in scales),
        autocorrelation_window_s=lag_s,
        autocorrelation=tuple(autocorrelation(counts_by(time_s, span_s, lag_s), LAGS)),
    )


@dataclass(frozen=True, slots=True)
class Counts:
    """Arrivals by window of time, the empty windows left out: as large as there are arrivals.

    Attributes:
        windows: Windows in all.
        at: The windows that hold an arrival, ascending; shape ``(k,)``.
        count: Arrivals in each of them; shape ``(k,)``.
    """

    windows: int
    at: NDArray[np.int64]
    count: Floats

    @property
    def total(self) -> float:
        """Arrivals in all windows."""
        return float(self.count.sum())

    def dense(self) -> Floats:
        """Return the counts of all windows; shape ``(windows,)``."""
        every = np.zeros(self.windows)
        every[self.at] = self.count
        return every

    def before(self, window: int) -> float:
        """Return the arrivals in all windows before one."""
        return float(self.count[: np.searchsorted(self.at, window)].sum())


def counts_by(time_s: Floats, span_s: float, window_s: float, *, whole: bool = True) -> Counts:
    """Count arrivals by window; a part of a window at the end is left out if ``whole``."""
    windows = math.floor(span_s / window_s) if whole else math.ceil(span_s / window_s)
    windows = max(windows, 1)
    at = np.floor(time_s[time_s < windows * window_s] / window_s).astype(np.int64)
    first = np.flatnonzero(np.diff(at, prepend=-1))
    count = np.diff(first, append=at.size).astype(np.float64)
    inside = at[first] < windows
    return Counts(windows, at[first][inside], count[inside])


def dispersion(time_s: Floats, span_s: float, window_s: float) -> Dispersion:
    """Return the index of dispersion of counts at one time scale.

    The mean is that of each hour, so that the course of a day is no burst; in windows of more
    than ten minutes, it is that of the whole.
    """
    counts = counts_by(time_s, span_s, window_s)
    size, larger = divmod(counts.windows, BLOCKS)
    blocks = np.array([size * i + min(i, larger) for i in range(BLOCKS + 1)])
    square = _squares(counts, round(HOUR_S / window_s), blocks)
    asked = np.diff([counts.before(int(edge)) for edge in blocks])
    index = float(square.sum()) / counts.total if counts.total else 1.0
    each = square[asked > 0] / asked[asked > 0]
    half = 1.96 * float(np.std(each, ddof=1)) / math.sqrt(each.size) if each.size > 1 else 0.0
    return Dispersion(
        window_s=window_s,
        windows=counts.windows,
        index=index,
        low=max(index - half, 0.0),
        high=index + half,
        peak=float(counts.count.max(initial=0.0)) / window_s * span_s / time_s.size,
    )


def _squares(counts: Counts, per_hour: int, edges: NDArray[np.int64]) -> Floats:
    """Sum the squared distances from the mean of the hour, by block of windows.

    An empty window adds the mean's square. So each block has the mean's square for all of its
    windows, by hours, and for those with arrivals what theirs differs from it. A last hour that
    is cut takes its mean from a whole hour of windows up to the end.

    Args:
        counts: By window.
        per_hour: Windows of an hour; the whole is one stretch if they are few.
        edges: Of the blocks, from 0 to the number of windows; shape ``(blocks + 1,)``.
    """
    n = counts.windows
    stretch = per_hour if per_hour >= 6 and n >= 2 * per_hour else n
    hour = counts.at // stretch
    some = np.flatnonzero(np.diff(hour, prepend=-1))
    mean = np.add.reduceat(counts.count, some) / stretch if some.size else np.zeros(0)
    hours = hour[some]
    if n % stretch:  # the last hour is cut; it may be without arrivals of its own
        last = n // stretch
        at_end = (counts.total - counts.before(n - stretch)) / stretch
        keep = hours < last
        hours, mean = np.append(hours[keep], last), np.append(mean[keep], at_end)
    begin, end = hours * stretch, np.minimum((hours + 1) * stretch, n)
    grown = np.concatenate([[0.0], np.cumsum(mean**2 * (end - begin))])
    of_means = np.interp(edges, np.stack([begin, end], 1).ravel(), np.repeat(grown, 2)[1:-1])
    mine = mean[np.searchsorted(hours, hour)]
    more = np.concatenate([[0.0], np.cumsum(counts.count * (counts.count - 2 * mine))])
    squares: Floats = np.diff(of_means) + np.diff(more[np.searchsorted(counts.at, edges)])
    return squares


def autocorrelation(counts: Counts, lags: int) -> list[float]:
    """Return the correlation of counts with those 1, 2, ... windows later; 0 if all are equal."""
    n, at, count = counts.windows, counts.at, counts.count
    mean = counts.total / n
    power = float((count**2).sum()) - n * mean**2
    most = min(lags, n - 2)
    if power <= 1e-9 * n * mean**2:
        return [0.0] * most
    found = []
    for lag in range(1, most + 1):
        to = np.searchsorted(at, at + lag)
        meets = at[np.minimum(to, at.size - 1)] == at + lag
        product = float((count[meets] * count[to[meets]]).sum())
        ends = counts.before(n - lag) + counts.total - counts.before(lag)
        found.append((product - mean * ends + (n - lag) * mean**2) / power)
    return found


def _cv(gap: Floats) -> float:
    mean = float(gap.mean())
    return float(gap.std()) / mean if mean > 0 else 0.0
