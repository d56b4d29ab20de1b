"""A coarse closed form for the load that a replica can carry.

In steady state a step that lasts T computes ``y = load * T * m`` tokens, where a request
brings m tokens of prefill and decode. With ``a`` the seconds per request that do not depend on
how tokens are grouped (attention, per-request overhead),

    T(y) = L(y) + (y / m) * a,        load(y) = y / (m * T(y)).

Everything else is a bound on y: the step's token budget, the running requests that y implies,
the KV tokens they hold, and T itself, about which every decoding request sees its TPOT. There is
no randomness in it, so it is optimistic: it brackets and prunes, and never decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.candidates.template import Build

    Ints = NDArray[np.int32]


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


def coarse_bound(build: Build, mean: Moments, tpot_s: float) -> CoarseCapacity:
    """Return the largest mean-field load of one replica, in requests per second.

    Args:
        build: The replica.
        mean: What its requests bring.
        tpot_s: The tightest TPOT deadline among its workloads.

    Returns:
        A load of 0 if even a lone request's step is longer than the deadline.
    """
    law = build.curve.step_law
    per_request = mean.prefill + mean.decode
    loose = (
        law.c_x_s_per_token2 * mean.square
        + law.c_k_s_per_token * mean.context
        + law.c_n_s_per_request * mean.scheduled
        + law.c_c_s_per_token * mean.chunk_context
    )
    tokens = np.unique(np.geomspace(1, build.max_num_batched_tokens, 160).round())
    step_s = law.tokens_s(tokens) + tokens / per_request * loose
    load = tokens / (per_request * step_s)
    running = tokens * mean.decode / per_request
    held = load * step_s * (mean.context + mean.chunk_context)
    within = {
        "the TPOT deadline": step_s <= tpot_s,
        "max_num_seqs": running <= build.max_num_seqs,
        "KV cache": held <= build.kv_tokens,
    }
    allowed = np.logical_and.reduce(list(within.values()))
    if not allowed.any():
        tight = next(name for name, ok in within.items() if not ok.any() or not ok[0])
        return CoarseCapacity(0.0, tight)
    best = int(np.argmax(np.where(allowed, load, -1.0)))
    following = best + 1
    if following >= tokens.size:
        return CoarseCapacity(float(load[best]), "max_num_batched_tokens")
    tight = next((name for name, ok in within.items() if not ok[following]), "compute")
    return CoarseCapacity(float(load[best]), tight)
