"""Drawing request lengths from their law."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import ndtri

from planner.problem.lengths import IndependentLengths, LengthLaw, LengthMarginal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

LONGEST: Final = 10_000_000
"""Draws are cut here, in tokens; far beyond any model's context."""


def draw_lengths(
    law: LengthLaw, n: int, rng: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Draw ``n`` requests, stratified: the marginals come out as exactly as ``n`` allows.

    Each marginal (or, for a joint law, the order of its cells) is cut into ``n`` equal slices
    with one draw from the middle of each, in random order. Means then vary far less from seed
    to seed than those of independent draws; do not use it to report run-to-run spread.

    Returns:
        Prompt and output tokens, shape ``(n,)`` each, int32, at least 1.
    """
    u = (np.arange(n) + 0.5) / n
    if isinstance(law, IndependentLengths):
        prompt = _lognormal(law.prompt, u)[rng.permutation(n)]
        output = _lognormal(law.output, u)[rng.permutation(n)]
        return _tokens(prompt), _tokens(output)
    edges = np.cumsum(law.weight)
    cell = np.searchsorted(edges, u * edges[-1], side="right")[rng.permutation(n)]
    cell = np.minimum(cell, edges.size - 1)
    return (
        _tokens(_within(law.prompt_low[cell], law.prompt_high[cell], rng)),
        _tokens(_within(law.output_low[cell], law.output_high[cell], rng)),
    )


def longest_request(law: LengthLaw) -> int:
    """Return the longest prompt and output together that a law brings, in tokens.

    For a lognormal marginal, which has no longest, its 0.99999 quantile stands in.
    """
    if isinstance(law, IndependentLengths):
        u = np.array([0.99999])
        total = _lognormal(law.prompt, u) + _lognormal(law.output, u)
        return int(np.ceil(total[0]))
    present = law.weight > 0
    return int((law.prompt_high + law.output_high)[present].max())


def _lognormal(marginal: LengthMarginal, u: Floats) -> Floats:
    """Return lengths at probabilities ``u``; the mean is the marginal's, whatever its spread."""
    if marginal.cv == 0:
        return np.full_like(u, marginal.mean)
    sigma2 = math.log1p(marginal.cv * marginal.cv)
    mu = math.log(marginal.mean) - sigma2 / 2
    lengths: Floats = np.exp(mu + math.sqrt(sigma2) * ndtri(u))
    return lengths


def _within(low: Ints, high: Ints, rng: np.random.Generator) -> Floats | Ints:
    spread = high - low
    if not spread.any():
        return low.astype(np.float64)
    within: Floats = np.floor(rng.random(low.size) * (spread + 1))
    return low + within


def _tokens(lengths: Floats | Ints) -> NDArray[np.int32]:
    return np.clip(np.rint(lengths), 1, LONGEST).astype(np.int32)
