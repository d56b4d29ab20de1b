"""Means over independent replications, with honest intervals.

Attainment near its target is strongly autocorrelated within a run, so an interval from
counted requests would be many times too narrow. Replications are independent by seed: their
spread is the truth.

Misses come in bouts, so the share of misses is skewed from one replication to the next: most
show few, one shows many. A symmetric interval then lies too high. The interval of a share is
therefore symmetric in its log-odds, and where replications are too short to have seen several
bouts each, it is widened.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scipy.special import expit, logit, stdtrit

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDEST_SPREAD: Final = 0.5
"""Relative spread of the misses between replications up to which their interval is trusted.
Above it each replication has seen few bouts of misses, and the spread itself is not known."""

BOUT: Final = 100
"""Requests that one bout of misses may spoil, as long as the replications do not show more. Near
a target the variance of attainment is 50 to 500 times that of independent requests."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its two-sided 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2


def t_interval(samples: Sequence[float]) -> Estimate:
    """Return mean and 95 % Student interval of independent samples; at least two of them."""
    mean, error = _mean_and_error(samples)
    half = _quantile(samples) * error
    return Estimate(mean, mean - half, mean + half)


def attainment_interval(samples: Sequence[float], requests: int) -> Estimate:
    """Return the interval of a share, inside [0, 1] and never of zero width.

    A Student interval of the log-odds. Where the spread of the misses between replications is
    large, or there are none at all, the run was too short to know the spread: the low end is
    then at least as low as three more bouts of misses would leave it (the rule of three, for
    bouts instead of single requests).

    Args:
        samples: Attainment of each replication; at least two.
        requests: Requests that all replications counted together.
    """
    mean, error = _mean_and_error(samples)
    n = len(samples)
    misses, hits = 1 - mean, mean
    bout = max(float(BOUT), _bout(misses, error * math.sqrt(n), requests / n))
    least = min(3.0 * bout / max(requests, 1), 1.0)
    if misses <= 0 or hits <= 0:
        return Estimate(mean, max(hits - least, 0.0), min(hits + least, 1.0))
    half = _quantile(samples) * error / (misses * hits)
    low, high = (float(expit(logit(hits) + x)) for x in (-half, half))
    if error * math.sqrt(n) / misses > WIDEST_SPREAD:
        low = min(low, hits - least)
    single = 1.0 / max(requests, 1)
    return Estimate(mean, max(min(low, hits - single), 0.0), min(max(high, hits + single), 1.0))


def _bout(misses: float, deviation: float, requests: float) -> float:
    """Return how many requests a bout of misses spoils: variance over mean of their counts."""
    return requests * deviation**2 / misses if misses > 0 else 0.0


def _mean_and_error(samples: Sequence[float]) -> tuple[float, float]:
    """Return the mean and its standard error."""
    n = len(samples)
    mean = math.fsum(samples) / n
    variance = math.fsum((x - mean) ** 2 for x in samples) / (n - 1)
    return mean, math.sqrt(variance / n)


def _quantile(samples: Sequence[float]) -> float:
    return float(stdtrit(len(samples) - 1, 0.975))
