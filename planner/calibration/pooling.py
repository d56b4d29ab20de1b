"""Partial pooling of what physics leaves over: who resembles whom, and by how much.

The logarithm of measured over predicted is a sum of effects, one per term: all points that
share the term's keys (say model, engine and accelerator) share its effect, which is a constant
or a smooth function of the load. Effects are Gaussian with a standard deviation per term, so an
effect seen in many points is believed, one seen in few is drawn towards zero, one never seen is
zero. Only siblings pool: effects of unlike systems say little about each other, and their
standard deviations are small on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from scipy.linalg import cho_factor, cho_solve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from planner.calibration.points import Point

    Floats = NDArray[np.float64]

Shape = Literal["flat", "load", "users"]

LOAD_WIDTH: Final = 1.5
"""Over how many steps of the load axes an effect keeps its value (see ``load_axes``)."""

USERS_STEP: Final = 1.5
"""One step of the users' axis, in ln: 4.5 times the users; of the length axes, e times."""


@dataclass(frozen=True, slots=True)
class Term:
    """One kind of effect."""

    keys: tuple[str, ...]
    """Names of :func:`keys_of`: points equal in all of them share the effect."""
    shape: Shape
    """``flat``: a constant; ``load``: a smooth function of users and lengths; ``users``: of
    users only."""
    sd: float
    """Standard deviation of the effect, in ln."""

    @property
    def name(self) -> str:
        """The term as tables write it."""
        return "+".join(self.keys) + ("" if self.shape == "flat" else f"*{self.shape}")


@dataclass(frozen=True, slots=True)
class Pooling:
    """The effects of one metric."""

    terms: tuple[Term, ...]
    noise_sd: float
    """What is left of a single run, in ln."""
    apart_noise_sd: float
    """The same of a disaggregated run."""
    clip: float = 1.2
    """Residuals beyond count as this much: they are mislabelled or broken runs."""


def keys_of(point: Point, *, matched: bool) -> dict[str, str]:
    """Return the keys by which a point is kin to others; empty: it has no part in the effect.

    Args:
        point: The point.
        matched: Whether a library law of this very configuration exists.
    """
    s = point.system
    d = s.main.degrees
    layout = "dp" if d.dp_degree > 1 else "ep" if d.ep_degree > 1 else "tp"
    apart = s.mode == "disaggregated"
    several = not apart and s.main.replicas > 1
    return {
        "model": s.llm.id,
        "engine": f"{s.engine}, disaggregated" if apart else s.engine,
        "accelerator": s.accelerator.id,
        "generation": _GENERATION.get(s.accelerator.id, s.accelerator.id),
        "precision": s.precision,
        "version": s.engine_version,
        "layout": layout,
        "devices": str(d.accelerators),
        "client": "several replicas" if several else point.load.lengths,
        "apart": s.engine if apart else "",
        "law": "library" if matched else "transfer",
        "family": "mla" if s.llm.mla else "moe" if s.llm.experts else "dense",
        "several": s.engine_version if several else "",
        "group": s.group,
        "curve": point.curve,
    }


_GENERATION: Final = {
    "h100-sxm": "hopper", "h200-sxm": "hopper", "b200-sxm": "blackwell", "b300-sxm": "blackwell",
    "gb200-nvl72": "blackwell", "gb300-nvl72": "blackwell",
}  # fmt: skip


def load_axes(points: Sequence[Point]) -> Floats:
    """Return where points lie in the space of loads; shape ``(n, 3)``."""
    rows = [
        (
            np.log(p.load.users / p.system.main.replicas / p.system.main.degrees.dp_degree)
            / USERS_STEP,
            np.log(p.load.prompt_tokens),
            np.log(p.load.output_tokens),
        )
        for p in points
    ]
    return np.array(rows, dtype=np.float64).reshape(len(points), 3)


@dataclass(frozen=True, slots=True)
class Kin:
    """Points as pooling sees them."""

    keys: tuple[dict[str, str], ...]
    axes: Floats

    def __len__(self) -> int:
        return len(self.keys)

    def with_others(self, others: Kin) -> Kin:
        """Return these points followed by others."""
        return Kin((*self.keys, *others.keys), np.concatenate([self.axes, others.axes]))

    def part(self, index: NDArray[np.intp]) -> Kin:
        """Return some of the points."""
        return Kin(tuple(self.keys[i] for i in index), self.axes[index])


def kin_of(points: Sequence[Point], matched: Sequence[bool]) -> Kin:
    """Return points as pooling sees them."""
    keys = tuple(keys_of(p, matched=m) for p, m in zip(points, matched, strict=True))
    return Kin(keys, load_axes(points))


def covariance(terms: Sequence[Term], one: Kin, other: Kin) -> Floats:
    """Return how much the residuals of two sets of points have in common; (one, other)."""
    total = np.zeros((len(one), len(other)))
    apart = ((one.axes[:, None, :] - other.axes[None, :, :]) ** 2).sum(-1)
    users = (one.axes[:, None, 0] - other.axes[None, :, 0]) ** 2
    nearness = {
        "load": np.exp(-0.5 * apart / LOAD_WIDTH**2),
        "users": np.exp(-0.5 * users / LOAD_WIDTH**2),
        "flat": np.ones_like(users),
    }
    for term in terms:
        a, b = _codes(term, one, other)
        same = (a[:, None] == b[None, :]) & (a[:, None] >= 0)
        total += term.sd**2 * same * nearness[term.shape]
    return total


def _codes(term: Term, one: Kin, other: Kin) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    known: dict[tuple[str, ...], int] = {}

    def codes(kin: Kin) -> NDArray[np.intp]:
        return np.array(
            [
                known.setdefault(level, len(known)) if all(level) else -1
                for level in (tuple(k[x] for x in term.keys) for k in kin.keys)
            ],
            dtype=np.intp,
        )

    return codes(one), codes(other)


def noise_variance(pooling: Pooling, kin: Kin) -> Floats:
    """Return the variance of a single run of each point; shape ``(n,)``."""
    apart = np.array([bool(k["apart"]) for k in kin.keys], dtype=bool)
    return np.where(apart, pooling.apart_noise_sd**2, pooling.noise_sd**2)


def prior_variance(pooling: Pooling, kin: Kin) -> Floats:
    """Return the variance of each point's residual before any is known; shape ``(n,)``."""
    total = noise_variance(pooling, kin)
    for term in pooling.terms:
        taking_part = np.array([all(k[x] for x in term.keys) for k in kin.keys])
        total += term.sd**2 * taking_part
    return total


@dataclass(frozen=True, slots=True)
class Residual:
    """What pooling says of points: shape ``(n,)`` each, in ln."""

    mean: Floats
    sd: Floats
    """Of one further run: effects and noise."""


class Pool:
    """Effects given the residuals of some points."""

    def __init__(
        self, pooling: Pooling, kin: Kin, residual: Floats, runs: Floats | None = None
    ) -> None:
        """Learn the effects.

        Args:
            pooling: Terms and noise.
            kin: Points that were measured.
            residual: ln(measured / predicted) of each; shape ``(n,)``.
            runs: How many runs each stands for; default 1.
        """
        self.pooling = pooling
        self._kin = kin
        self._residual = np.clip(residual, -pooling.clip, pooling.clip)
        total = covariance(pooling.terms, kin, kin)
        total[np.diag_indices(len(kin))] += noise_variance(pooling, kin) / (
            1.0 if runs is None else runs
        )
        self._factor = cho_factor(total, lower=True)
        self._weights: Floats = cho_solve(self._factor, self._residual)

    def __len__(self) -> int:
        return len(self._kin)

    def knows_group(self, kin: Kin) -> NDArray[np.bool_]:
        """Return whether points of each one's group are among those given; shape ``(n,)``."""
        known = {k["group"] for k in self._kin.keys}
        return np.array([k["group"] in known for k in kin.keys], dtype=bool)

    def at(self, kin: Kin) -> Residual:
        """Return mean and spread of the residuals of points not given."""
        between = covariance(self.pooling.terms, kin, self._kin)
        explained = np.einsum("ij,ji->i", between, cho_solve(self._factor, between.T))
        own = prior_variance(self.pooling, kin)
        return Residual(
            np.asarray(between @ self._weights), np.sqrt(np.maximum(own - explained, 1e-6))
        )

    @cached_property
    def _inverse(self) -> Floats:
        return np.asarray(cho_solve(self._factor, np.eye(len(self._kin))))

    def within(
        self, unit: NDArray[np.intp], seen: NDArray[np.intp], wanted: NDArray[np.intp]
    ) -> Residual:
        """Return what all other units, and a few points of the unit itself, say of others in it.

        Args:
            unit: Indices of all points of the unit.
            seen: Those whose residuals may be used.
            wanted: Those that are asked for.
        """
        block = np.linalg.inv(self._inverse[np.ix_(unit, unit)])
        mean = self._residual[unit] - block @ self._weights[unit]
        place = {int(i): k for k, i in enumerate(unit)}
        s, w = [place[int(i)] for i in seen], [place[int(i)] for i in wanted]
        gain = block[np.ix_(w, s)] @ np.linalg.inv(block[np.ix_(s, s)])
        left = block[np.ix_(w, w)] - gain @ block[np.ix_(s, w)]
        told = mean[w] + gain @ (self._residual[seen] - mean[s])
        return Residual(told, np.sqrt(np.maximum(np.diag(left), 1e-6)))

    def without(self, units: Sequence[str]) -> Residual:
        """Return for each given point what the points of all *other* units say of it.

        Exact, from one inverse: with Q the inverse covariance and i the points of a unit, the
        mean is r_i − Q_ii⁻¹ (Q r)_i and the covariance Q_ii⁻¹.

        Args:
            units: The unit of each given point, such as its group.
        """
        inverse = self._inverse
        codes = np.unique(np.array(units), return_inverse=True)[1]
        mean, sd = np.zeros(len(self._kin)), np.zeros(len(self._kin))
        for code in range(int(codes.max(initial=-1)) + 1):
            i = np.flatnonzero(codes == code)
            block = np.linalg.inv(inverse[np.ix_(i, i)])
            mean[i] = self._residual[i] - block @ self._weights[i]
            sd[i] = np.sqrt(np.diag(block))
        return Residual(mean, sd)
