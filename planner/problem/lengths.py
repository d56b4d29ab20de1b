"""Length laws as numbers: what a draw of requests is made from.

A joint law is a list of cells, each a rectangle of (prompt, output) lengths with a weight; a
trace is the case in which every cell is one point. A pair law has two marginals and the rank
correlation between them. Laws can be mixed, and cut at the context of a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class JointLengths:
    """Cells of (prompt, output) lengths in tokens; bounds are inclusive. Arrays of shape (m,).

    Raises:
        ValueError: There is no cell with a weight.
    """

    prompt_low: NDArray[np.int64]
    prompt_high: NDArray[np.int64]
    output_low: NDArray[np.int64]
    output_high: NDArray[np.int64]
    weight: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.weight.size == 0 or not self.weight.sum() > 0:
            raise ValueError("there are no requests in it")


@dataclass(frozen=True, slots=True)
class LengthMarginal:
    """One length: lognormal with this mean (tokens) and coefficient of variation; 0 is fixed."""

    mean: float
    cv: float


@dataclass(frozen=True, slots=True)
class GammaLength:
    """One length: gamma with this mean (tokens) and coefficient of variation, above 0."""

    mean: float
    cv: float


@dataclass(frozen=True, slots=True)
class ParetoLength:
    """One length whose share above x falls as x to the power of ``-tail``, from ``low`` on.

    Cut at ``high`` tokens (the law is that of lengths which are not above it); inf: no cut.
    """

    low: float
    tail: float
    high: float


@dataclass(frozen=True, slots=True)
class ZipfLength:
    """One length: k tokens with a weight of k to the power of ``-exponent``, low <= k <= high."""

    low: int
    high: int
    exponent: float


@dataclass(frozen=True, slots=True)
class UniformLength:
    """One length: every whole number of tokens from ``low`` to ``high`` alike."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class MixedLength:
    """One length that follows one of several laws, each for its share of the requests."""

    parts: tuple[MarginalLaw, ...]
    weights: tuple[float, ...]


MarginalLaw = LengthMarginal | GammaLength | ParetoLength | ZipfLength | UniformLength | MixedLength


@dataclass(frozen=True, slots=True)
class IndependentLengths:
    """Prompt and output lengths by their marginals.

    They know nothing of each other unless there is a ``correlation``: Spearman's, of ranks, made
    by a Gaussian copula.
    """

    prompt: MarginalLaw
    output: MarginalLaw
    correlation: float = 0.0


@dataclass(frozen=True, slots=True)
class MixedLengths:
    """Requests of several kinds, each with its law and its share."""

    parts: tuple[LengthLaw, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class CutLengths:
    """A law whose requests are shortened to a model's context: the prompt, then the output."""

    law: LengthLaw
    context_tokens: int


@dataclass(frozen=True, slots=True)
class SessionLengths:
    """Lengths of turns whose prompts hold the system prompt and all that was said before."""

    law: LengthLaw
    """New text and answer of one turn."""
    mean_turns: float
    """Turns of a session are geometric from 1, with this mean before the cut at the most."""
    most_turns: int
    system_tokens: int
    context_tokens: int
    """What no longer fits is cut from the history."""


def mean_output(law: LengthLaw, context_tokens: int) -> float:
    """Return about how many tokens an answer has in the mean, none longer than a context."""
    match law:
        case JointLengths():
            middle = np.minimum((law.output_low + law.output_high) / 2, context_tokens)
            return float((middle * law.weight).sum() / law.weight.sum())
        case IndependentLengths():
            return _mean(law.output, context_tokens)
        case MixedLengths():
            means = [mean_output(part, context_tokens) for part in law.parts]
            return float(np.average(means, weights=law.weights))
        case CutLengths() | SessionLengths():
            return mean_output(law.law, context_tokens)


def _mean(law: MarginalLaw, most: int) -> float:
    match law:
        case LengthMarginal() | GammaLength():
            return min(law.mean, most)
        case UniformLength():
            return (law.low + min(law.high, most)) / 2
        case ZipfLength():
            k = np.arange(law.low, min(law.high, most) + 1, dtype=np.float64)
            return float(np.average(k, weights=k**-law.exponent))
        case ParetoLength():
            x = np.geomspace(law.low, max(min(law.high, most), law.low), 10_000)
            tail = (x / law.low) ** -law.tail
            return float(law.low + np.trapezoid((tail - tail[-1]) / max(1 - tail[-1], 1e-9), x))
        case MixedLength():
            means = [_mean(part, most) for part in law.parts]
            return float(np.average(means, weights=law.weights))


LengthLaw = JointLengths | IndependentLengths | MixedLengths | CutLengths | SessionLengths
