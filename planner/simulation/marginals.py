"""Quantile functions of one length: what a probability between 0 and 1 means in tokens."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import gammaincinv, ndtri

from planner.problem.lengths import (
    GammaLength,
    LengthMarginal,
    MarginalLaw,
    MixedLength,
    ParetoLength,
    UniformLength,
    ZipfLength,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LEVELS: Final = 4096
"""Probabilities at which the parts of a mixture are laid out before they are added up."""


def quantile(law: MarginalLaw, u: Floats) -> Floats:
    """Return lengths in tokens, not yet rounded, at probabilities ``u`` in (0, 1)."""
    match law:
        case LengthMarginal():
            return _lognormal(law, u)
        case GammaLength():
            shape = 1 / (law.cv * law.cv)
            return np.asarray(gammaincinv(shape, u) * (law.mean / shape))
        case ParetoLength():
            below_high = 1 - (law.low / law.high) ** law.tail
            return np.asarray(law.low * (1 - u * below_high) ** (-1 / law.tail))
        case ZipfLength():
            return _zipf(law, u)
        case UniformLength():
            whole = law.low + np.floor(u * (law.high - law.low + 1))
            return np.asarray(np.minimum(whole, law.high))
        case MixedLength():
            return _mixed(law, u)


def _lognormal(marginal: LengthMarginal, u: Floats) -> Floats:
    """The mean is the marginal's, whatever its spread."""
    if marginal.cv == 0:
        return np.full_like(u, marginal.mean)
    sigma2 = math.log1p(marginal.cv * marginal.cv)
    mu = math.log(marginal.mean) - sigma2 / 2
    return np.asarray(np.exp(mu + math.sqrt(sigma2) * ndtri(u)))


def _zipf(law: ZipfLength, u: Floats) -> Floats:
    tokens = np.arange(law.low, law.high + 1, dtype=np.float64)
    edges = np.cumsum(tokens**-law.exponent)
    at = np.searchsorted(edges, u * edges[-1], side="right")
    return np.asarray(tokens[np.minimum(at, tokens.size - 1)])


def _mixed(law: MixedLength, u: Floats) -> Floats:
    """Invert the sum of the parts' distribution functions, each laid out at many levels.

    Every part is its quantiles at ``LEVELS`` equally likely middles and, so that tails are not
    cut, at the outermost of the probabilities asked for.
    """
    total = sum(law.weights)
    ends = min(float(u.min(initial=0.5)), 0.5 / LEVELS), max(float(u.max(initial=0.5)), 0.5)
    middle = (np.arange(LEVELS) + 0.5) / LEVELS
    outer = np.geomspace(min(ends[0], 1 - ends[1]), 0.5 / LEVELS, 64, endpoint=False)
    levels = np.concatenate([outer, middle, 1 - outer[::-1]])
    mass = np.diff(np.concatenate([[0.0], (levels[1:] + levels[:-1]) / 2, [1.0]]))
    values = np.concatenate([quantile(part, levels) for part in law.parts])
    masses = np.concatenate([mass * (weight / total) for weight in law.weights])
    order = np.argsort(values, kind="stable")
    edges = np.cumsum(masses[order])
    at = np.searchsorted(edges, u * edges[-1], side="right")
    return np.asarray(values[order][np.minimum(at, order.size - 1)])
