"""Which stated distribution one length is like, and how like it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.problem.lengths import GammaLength, LengthMarginal, MixedLength
from planner.scenario.lengths import Gamma, Lognormal, Marginal, MarginalPart
from planner.simulation.marginals import quantile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.problem.lengths import MarginalLaw

LEVELS: Final = 2_000
ROUNDS: Final = 60
"""Of the search for the two parts of a mixture."""
MOST: Final = 50_000
"""Lengths that a mixture is fitted to; a sample of more."""


@dataclass(frozen=True, slots=True)
class MarginalFit:
    """A distribution, and its distance from the sample."""

    name: str
    document: Marginal
    distance: float
    """Largest distance of the distribution functions (Kolmogorov-Smirnov)."""
    alternatives: tuple[tuple[str, float], ...]
    """The others that were tried, with their distances."""


def fit_marginal(tokens: NDArray[np.int32]) -> MarginalFit:
    """Fit one length by lognormal, gamma and a mixture of two lognormals; take the nearest."""
    mean = float(tokens.mean())
    cv = float(tokens.std()) / mean
    if cv == 0:
        return MarginalFit("fixed", Marginal(fixed=mean), 0.0, ())
    logs = np.log(tokens.astype(np.float64))
    of_logs = _lognormal(float(logs.mean()), max(float(logs.std()), 1e-3))
    named: list[tuple[str, MarginalLaw]] = [
        ("lognormal", of_logs),
        ("lognormal by mean and CV", LengthMarginal(mean, min(cv, 20.0))),
        ("gamma", GammaLength(mean, min(max(cv, 0.01), 20.0))),
        ("mixture of two lognormals", _two_lognormals(logs)),
    ]
    judged = sorted(
        ((_distance(tokens, law), name, law) for name, law in named), key=lambda x: x[0]
    )
    nearest, name, law = judged[0]
    rest = tuple((other, far) for far, other, _ in judged[1:])
    return MarginalFit(name, _document(law), nearest, rest)


def _distance(tokens: NDArray[np.int32], law: MarginalLaw) -> float:
    """Compare the distribution function with that of rounded draws of the law."""
    drawn = np.maximum(np.rint(quantile(law, (np.arange(LEVELS) + 0.5) / LEVELS)), 1)
    at = np.union1d(tokens, drawn)
    ours = np.searchsorted(np.sort(tokens), at, side="right") / tokens.size
    theirs = np.searchsorted(np.sort(drawn), at, side="right") / drawn.size
    return float(np.abs(ours - theirs).max())


def _lognormal(mu: float, sigma: float) -> LengthMarginal:
    cv = min(float(np.sqrt(np.expm1(sigma * sigma))), 20.0)
    return LengthMarginal(float(np.exp(mu + np.log1p(cv * cv) / 2)), cv)


def _two_lognormals(logs: NDArray[np.float64]) -> MixedLength:
    """Fit a mixture of two normals to logs by expectation and maximisation."""
    if logs.size > MOST:
        logs = np.random.default_rng(0).choice(logs, MOST, replace=False)
    low, high = np.quantile(logs, (0.25, 0.75))
    mu = np.array([low, max(high, low + 1e-2)])
    sigma, weight = np.full(2, max(float(logs.std()), 1e-2)), np.full(2, 0.5)
    for _ in range(ROUNDS):
        score = -0.5 * ((logs[:, None] - mu) / sigma) ** 2 - np.log(sigma) + np.log(weight)
        mine = np.exp(score - score.max(axis=1, keepdims=True))
        mine /= mine.sum(axis=1, keepdims=True)
        count = np.maximum(mine.sum(axis=0), 1e-9)
        mu = (mine * logs[:, None]).sum(axis=0) / count
        sigma = np.sqrt((mine * (logs[:, None] - mu) ** 2).sum(axis=0) / count)
        sigma, weight = np.maximum(sigma, 0.02), np.maximum(count / count.sum(), 1e-6)
    parts = tuple(_lognormal(float(m), float(s)) for m, s in zip(mu, sigma, strict=True))
    return MixedLength(parts, tuple(weight.tolist()))


def _document(law: MarginalLaw) -> Marginal:
    if isinstance(law, MixedLength):
        parts = tuple(
            MarginalPart(
                weight=round(weight, 4) or 1e-4,
                lognormal=Lognormal(mean=round(part.mean, 2), cv=round(part.cv, 4)),
            )
            for part, weight in zip(law.parts, law.weights, strict=True)
            if isinstance(part, LengthMarginal)
        )
        return Marginal(mixture=parts)
    if isinstance(law, GammaLength):
        return Marginal(gamma=Gamma(mean=round(law.mean, 2), cv=max(round(law.cv, 4), 0.01)))
    if isinstance(law, LengthMarginal):
        return Marginal(lognormal=Lognormal(mean=round(law.mean, 2), cv=round(law.cv, 4)))
    raise TypeError(f"{law} was not fitted here")
