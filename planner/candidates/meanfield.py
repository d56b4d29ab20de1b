"""A coarse closed form for the load that a replica can carry.

In steady state a step that lasts T computes ``y = load * T * m`` tokens, where a request
brings m tokens of prefill and decode. With ``a`` the seconds per request that do not depend on
how tokens are grouped (attention, per-request overhead),

    T(y) = L(y) + (y / m) * a,        load(y) = y / (m * T(y)).

Everything else is a bound on y: the step's token budget, the running requests that y implies,
the KV tokens they hold, and T itself, about which every decoding request sees its TPOT. Steps
differ: y is only their mean, and steps that alternate cost the mean of L, which is less than L
of the mean where L bends down. So L is replaced by its largest convex minorant. There is no
randomness in it, so it is optimistic: it brackets and prunes, and never decides.

All templates are computed at once, each at ``GRID`` values of y.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from planner.candidates.template import Build
    from planner.curves.step_law import StepLaw

    Ints = NDArray[np.int32]
    Floats = NDArray[np.float64]

GRID: Final = 160
"""Values of the tokens per step at which each template is evaluated."""


@dataclass(frozen=True, slots=True)
class Moments:
    """Means per request of what a step law sees; tokens, tokens^2."""

    prefill: float
    decode: float
    square: float
    context: float
    scheduled: float
    chunk_context: float


def moments(prompt: Ints, output: Ints, max_num_batched_tokens: int) -> Moments:
    """Average what requests bring over a draw of lengths (tokens, shape (n,) each)."""
    p, d = prompt.astype(float), output.astype(float) - 1
    chunks = np.ceil(p / max_num_batched_tokens)
    return Moments(
        prefill=float(p.mean()),
        decode=float(d.mean()),
        square=float((p * p).mean() / 2),
        context=float((d * p + d * (d + 1) / 2).mean()),
        scheduled=float((d + chunks).mean()),
        chunk_context=float((p * (chunks + 1) / 2).mean()),
    )


@dataclass(frozen=True, slots=True)
class CoarseCapacity:
    """An optimistic largest load, and what stops it there."""

    load_rps: float
    limited_by: str


@dataclass(frozen=True, slots=True)
class MeanField:
    """Replicas in steady state at ``GRID`` tokens per step each; arrays of shape (builds, GRID)."""

    tokens: Floats
    step_s: Floats
    """Least mean length of a step."""
    load_rps: Floats
    """Of all ranks; as many steps are under way at once as there are pipeline stages."""
    running: Floats
    """Requests that decode, on one rank."""
    held_tokens: Floats
    """KV tokens in use, on one rank."""


def mean_field(builds: Sequence[Build], means: Sequence[Moments]) -> MeanField:
    """Evaluate the step laws of many replicas at many loads at once.

    Args:
        builds: The replicas.
        means: What the requests of each bring; one entry per replica.
    """
    budget = np.array([float(build.max_num_batched_tokens) for build in builds])
    tokens = budget[:, None] ** np.linspace(0.0, 1.0, GRID)
    step_s = np.empty_like(tokens)
    for row, build in enumerate(builds):
        step_s[row] = np.interp(tokens[row], *convex_minorant(build.curve.step_law, budget[row]))

    def column(values: list[float]) -> Floats:
        return np.array(values)[:, None]

    decode = column([m.decode for m in means])
    per_request = decode + column([m.prefill for m in means])
    laws = [build.curve.step_law for build in builds]
    loose = [
        law.c_x_s_per_token2 * m.square
        + law.c_k_s_per_token * m.context
        + law.c_n_s_per_request * m.scheduled
        + law.c_c_s_per_token * m.chunk_context
        for law, m in zip(laws, means, strict=True)
    ]
    requests = tokens / per_request
    step_s += requests * column(loose)
    flying = column([float(build.curve.layout.pp_degree) for build in builds])
    ranks = column([float(build.curve.layout.dp_degree) for build in builds])
    load = requests / step_s * flying * ranks
    held = requests * column([m.context + m.chunk_context for m in means])
    return MeanField(tokens, step_s, load, requests * decode * flying, held * flying)


def convex_minorant(law: StepLaw, budget: float) -> tuple[Floats, Floats]:
    """Return tokens and seconds of the largest convex function below L from 1 to the budget."""
    n = np.array([float(k) for k in law.knots if k < budget] + [budget])
    points = list(zip(n.tolist(), law.tokens_s(n).tolist(), strict=True))
    hull: list[tuple[float, float]] = []
    for x, t in points:
        while len(hull) > 1:
            (x0, t0), (x1, t1) = hull[-2], hull[-1]
            if (t1 - t0) * (x - x0) < (t - t0) * (x1 - x0):
                break
            hull.pop()
        hull.append((x, t))
    xs, ts = zip(*hull, strict=True)
    return np.array(xs), np.array(ts)


def coarse_bounds(
    builds: Sequence[Build], means: Sequence[Moments], tpot_s: Sequence[float]
) -> list[CoarseCapacity]:
    """Return the largest mean-field load of each replica, in requests per second.

    Args:
        builds: The replicas.
        means: What the requests of each bring; one entry per replica.
        tpot_s: The tightest TPOT deadline among the workloads of each.

    Returns:
        In order; a load of 0 if even a lone request's step is longer than the deadline.
    """
    field = mean_field(builds, means)
    limits = (
        ("the TPOT deadline", field.step_s, np.array(tpot_s)),
        ("max_num_seqs", field.running, np.array([float(b.max_num_seqs) for b in builds])),
        ("KV cache", field.held_tokens, np.array([float(b.kv_tokens) for b in builds])),
    )
    within = np.stack([values <= limit[:, None] for _, values, limit in limits])
    allowed: NDArray[np.bool_] = np.logical_and.reduce(within)
    best = np.argmax(np.where(allowed, field.load_rps, -1.0), axis=1)
    found = []
    for row, at in enumerate(best.tolist()):
        if not allowed[row, at]:
            names = (limits[k][0] for k in range(len(limits)) if not within[k, row, 0])
            found.append(CoarseCapacity(0.0, next(names, "the limits together")))
            continue
        here = float(field.load_rps[row, at])
        if at + 1 >= GRID:
            found.append(CoarseCapacity(here, "max_num_batched_tokens"))
            continue
        there = float(field.load_rps[row, at + 1])
        part, name = 1.0, "compute"
        for k, (what, values, limit) in enumerate(limits):
            if not within[k, row, at + 1]:
                rise = values[row, at + 1] - values[row, at]
                share = float((limit[row] - values[row, at]) / rise)
                part, name = min((part, name), (share, what))
        found.append(CoarseCapacity(max(here, here + part * (there - here)), name))
    return found
