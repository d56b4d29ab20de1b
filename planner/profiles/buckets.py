"""One length that is known by buckets and its mean, and two of them under every coupling.

Within its bucket a length is taken to be even over a part of it: from the lower edge up, or from
the upper edge down, the same part in every bucket, so that the mean is the one that was counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from planner.measurements.scrapes import TokenBuckets

    Floats = NDArray[np.float64]

_SERIES: Final = (1, 2, 5, 10)
"""The engine's edges: 1, 2 and 5 times each power of ten, up to the model's context."""


@dataclass(frozen=True, slots=True)
class BucketLaw:
    """Whole lengths, even from ``low`` to ``high`` within each bucket; arrays of shape ``(k,)``.

    Attributes:
        low: Shortest in each bucket that holds any, ascending.
        high: Longest, below the next bucket's shortest.
        share: Of the requests; they add up to 1.
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    share: Floats

    @property
    def mean(self) -> float:
        """Mean length in tokens."""
        return float((self.share * (self.low + self.high)).sum()) / 2

    @property
    def mean_square(self) -> float:
        """Mean of the squared length, smoothed to half a token either way, in tokens²."""
        middle, n = (self.low + self.high) / 2, self.high - self.low + 1.0
        return float((self.share * (middle**2 + n**2 / 12)).sum())

    @property
    def deviation(self) -> float:
        """Standard deviation in tokens."""
        return math.sqrt(max(self.mean_square - self.mean**2, 0.0))


def law_of(name: str, buckets: TokenBuckets) -> tuple[BucketLaw, tuple[str, ...]]:
    """Return a law with the counts and the mean of some buckets, and what was assumed.

    Args:
        name: What the length is called, for messages.
        buckets: Counts by bucket, and the tokens of all.

    Raises:
        InputError: The mean lies outside of what the buckets allow.
    """
    below = np.array([0.0, *buckets.edge[:-1]])
    count = np.array(buckets.count)
    some = count > 0
    first = np.maximum(np.floor(below[some]).astype(np.int64) + 1, 1)
    upper = np.array(buckets.edge)[some]
    share = count[some] / count.sum()
    mean = max(buckets.total / buckets.requests, 1.0)
    notes: tuple[str, ...] = ()
    if math.isinf(upper[-1]):
        upper[-1] = _end(float(first[-1]) - 1, share, first, upper, mean)
        notes = (
            f"{name}: {share[-1]:.2%} are longer than {first[-1] - 1:,} tokens, the last edge; they"
            f" are taken to end at {upper[-1]:,.0f}",
        )
    last = np.maximum(np.floor(upper).astype(np.int64), first)
    least, most = float((share * first).sum()), float((share * last).sum())
    slack = 1e-6 * most + (float(share[0]) if first[0] == 1 else 0.0)  # a length of 0 counts as 1
    if not least - slack <= mean <= most + slack:
        raise InputError(
            f"{name}: a mean of {mean:,.1f} tokens does not agree with the buckets, which allow"
            f" {least:,.1f} to {most:,.1f}; take _sum and _bucket of one scrape"
        )
    part = min(max((mean - least) / (most - least), 0.0), 1.0) if most > least else 0.5
    room = last - first
    if part <= 0.5:
        return BucketLaw(first, first + np.rint(2 * part * room).astype(np.int64), share), notes
    return BucketLaw(last - np.rint(2 * (1 - part) * room).astype(np.int64), last, share), notes


def _end(edge: float, share: Floats, first: NDArray[np.int64], upper: Floats, mean: float) -> float:
    """Return an end for the last bucket: below the engine's next edge, or where the mean asks."""
    power = 10.0 ** math.floor(math.log10(max(edge, 1.0)))
    after = next((k * power for k in _SERIES if k * power > edge), 10 * power) - 1
    needed = (mean - float((share[:-1] * upper[:-1]).sum())) / float(share[-1])
    return max(after, math.ceil(needed), float(first[-1]))


def mean_product(one: BucketLaw, two: BucketLaw, *, against: bool) -> float:
    """Return the mean of prompt × output when both rise together, or one falls as the other rises.

    By Hoeffding, no joint distribution with these marginals has a greater, or a smaller, one.

    Args:
        one: A length.
        two: The other.
        against: Whether one falls as the other rises.
    """
    edges = [np.concatenate([[0.0], np.cumsum(law.share)]) for law in (one, two)]
    if against:
        edges[1] = 1 - edges[1][::-1]
    cuts = np.union1d(*(np.clip(edge, 0, 1) for edge in edges))
    cuts = cuts[np.concatenate([[True], np.diff(cuts) > 1e-15])]
    middle, half = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts) / 2
    first, second = quantiles(one), quantiles(two)
    pieces = np.zeros(middle.size)
    for at, weight in ((-1.0, 1 / 6), (0.0, 4 / 6), (1.0, 1 / 6)):  # exact for squares
        u = middle + at * half * (1 - 1e-9)
        pieces += weight * first(u) * second(1 - u if against else u)
    return float((pieces * 2 * half).sum())


def quantiles(law: BucketLaw) -> Callable[[Floats], Floats]:
    """Return the quantile function, the whole lengths smoothed to half a token either way."""
    edge = np.concatenate([[0.0], np.cumsum(law.share)])

    def at(u: Floats) -> Floats:
        i = np.clip(np.searchsorted(edge, u, side="right") - 1, 0, law.share.size - 1)
        within = np.clip((u - edge[i]) / law.share[i], 0, 1)
        return np.asarray(law.low[i] - 0.5 + within * (law.high[i] - law.low[i] + 1))

    return at
