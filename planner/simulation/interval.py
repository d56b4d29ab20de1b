"""Means over independent replications, with honest intervals.

Attainment near its target is strongly autocorrelated within a run, so an interval from
counted requests would be many times too narrow. Replications are independent by seed: their
spread is the truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy.special import stdtrit

if TYPE_CHECKING:
    from collections.abc import Sequence


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
    n = len(samples)
    mean = math.fsum(samples) / n
    variance = math.fsum((x - mean) ** 2 for x in samples) / (n - 1)
    half = float(stdtrit(n - 1, 0.975)) * math.sqrt(variance / n)
    return Estimate(mean, mean - half, mean + half)


def attainment_interval(samples: Sequence[float], requests: int) -> Estimate:
    """Return the interval of a share, never outside [0, 1] and never of zero width.

    Where every replication shows the same share (all compliant, say), the spread is silent;
    the rule of three for ``requests`` observations then bounds what could have been missed.
    """
    found = t_interval(samples)
    least = 3.0 / max(requests, 3)
    low = min(found.low, found.value - least if found.value > 0 else 0.0)
    high = max(found.high, found.value + least if found.value < 1 else 1.0)
    if found.half_width > 0:
        low, high = found.low, found.high
    return Estimate(found.value, max(low, 0.0), min(high, 1.0))
