"""Drawing request lengths from their law."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import ndtri

from planner.problem.lengths import (
    CutLengths,
    IndependentLengths,
    JointLengths,
    LengthLaw,
    MixedLengths,
    SessionLengths,
)
from planner.simulation.marginals import quantile
from planner.simulation.sessions import Turns, grow, turn_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Tokens = NDArray[np.int32]
    Floats = NDArray[np.float64]

LONGEST: Final = 10_000_000
"""Draws are cut here, in tokens; far beyond any model's context."""

RARE: Final = 0.99999
"""Stands for the longest of a marginal that has none."""


def draw_lengths(law: LengthLaw, n: int, rng: np.random.Generator) -> tuple[Tokens, Tokens]:
    """Draw ``n`` requests, stratified: the marginals come out as exactly as ``n`` allows.

    Each marginal (or, for a joint law, the order of its cells) is cut into ``n`` equal slices
    with one draw from the middle of each, in random order. Means then vary far less from seed
    to seed than those of independent draws; do not use it to report run-to-run spread.

    Returns:
        Prompt and output tokens, shape ``(n,)`` each, int32, at least 1.
    """
    match law:
        case IndependentLengths():
            return _draw_pairs(law, n, rng)
        case JointLengths():
            return _draw_cells(law, n, rng)
        case MixedLengths():
            return _draw_mixed(law, n, rng)
        case CutLengths():
            prompt, output = draw_lengths(law.law, n, rng)
            output = np.minimum(output, law.context_tokens - 1)
            return np.minimum(prompt, law.context_tokens - output), output
        case SessionLengths():
            turns = draw_turns(law, n, rng)
            some = rng.permutation(turns.prompt.size)[:n]
            return turns.prompt[some], turns.output[some]


def longest_request(law: LengthLaw) -> int:
    """Return the longest prompt and output together that a law brings, in tokens.

    For a marginal that has no longest, its 0.99999 quantile stands in.
    """
    match law:
        case IndependentLengths():
            u = np.array([RARE])
            return int(np.ceil(quantile(law.prompt, u) + quantile(law.output, u))[0])
        case JointLengths():
            present = law.weight > 0
            return int((law.prompt_high + law.output_high)[present].max())
        case MixedLengths():
            return max(longest_request(part) for part in law.parts)
        case CutLengths():
            return min(longest_request(law.law), law.context_tokens)
        case SessionLengths():
            turns = draw_turns(law, 50_000, np.random.default_rng(0))
            return int((turns.prompt.astype(np.int64) + turns.output).max())


def draw_turns(law: SessionLengths, n: int, rng: np.random.Generator) -> Turns:
    """Draw whole sessions of at least ``n`` turns together."""
    sessions = int(np.ceil(n / law.mean_turns)) + 1
    counts = turn_counts(law, sessions, rng)
    while (short := n - int(counts.sum())) > 0:
        more = turn_counts(law, int(np.ceil(short / law.mean_turns)) + 1, rng)
        counts = np.concatenate([counts, more])
    return grow(law, counts, draw_lengths(law.law, int(counts.sum()), rng))


def _draw_pairs(law: IndependentLengths, n: int, rng: np.random.Generator) -> tuple[Tokens, Tokens]:
    """Both marginals are stratified; under a correlation, ranks come from correlated normals."""
    u = (np.arange(n) + 0.5) / n
    prompt_at, output_at = rng.permutation(n), rng.permutation(n)
    if law.correlation != 0:
        # Spearman's correlation of a normal pair with correlation r is 6/pi asin(r/2).
        r = 2 * np.sin(np.pi * law.correlation / 6)
        score = ndtri(u)
        both = r * score[prompt_at] + np.sqrt(1 - r * r) * score[output_at]
        output_at = np.empty(n, np.int64)
        output_at[np.argsort(both, kind="stable")] = np.arange(n)
    prompt = quantile(law.prompt, u)[prompt_at]
    output = quantile(law.output, u)[output_at]
    return _tokens(prompt), _tokens(output)


def _draw_cells(law: JointLengths, n: int, rng: np.random.Generator) -> tuple[Tokens, Tokens]:
    u = (np.arange(n) + 0.5) / n
    edges = np.cumsum(law.weight)
    cell = np.searchsorted(edges, u * edges[-1], side="right")[rng.permutation(n)]
    cell = np.minimum(cell, edges.size - 1)
    return (
        _tokens(_within(law.prompt_low[cell], law.prompt_high[cell], rng)),
        _tokens(_within(law.output_low[cell], law.output_high[cell], rng)),
    )


def _draw_mixed(law: MixedLengths, n: int, rng: np.random.Generator) -> tuple[Tokens, Tokens]:
    """Every part gets its share of the requests, as exactly as ``n`` allows."""
    edges = np.cumsum(law.weights)
    u = (np.arange(n) + 0.5) / n
    part = np.minimum(np.searchsorted(edges, u * edges[-1], side="right"), edges.size - 1)
    part = part[rng.permutation(n)]
    prompt, output = np.ones(n, np.int32), np.ones(n, np.int32)
    for i, one in enumerate(law.parts):
        mine = np.flatnonzero(part == i)
        if mine.size:
            prompt[mine], output[mine] = draw_lengths(one, mine.size, rng)
    return prompt, output


def _within(low: Ints, high: Ints, rng: np.random.Generator) -> Floats | Ints:
    spread = high - low
    if not spread.any():
        return low.astype(np.float64)
    within: Floats = np.floor(rng.random(low.size) * (spread + 1))
    return low + within


def _tokens(lengths: Floats | Ints) -> Tokens:
    return np.clip(np.rint(lengths), 1, LONGEST).astype(np.int32)
