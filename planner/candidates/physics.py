"""What a request gets in an empty replica: the best that any number of replicas can give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.candidates.template import Build
    from planner.simulation.fleet import Study

    Ints = NDArray[np.int32]
    Floats = NDArray[np.float64]


def empty_replica(build: Build, prompt: Ints, output: Ints) -> tuple[Floats, Floats]:
    """Return TTFT and TPOT, in seconds, of requests that meet nobody; shape (n,) each.

    The prompt runs in chunks of ``max_num_batched_tokens``; each output token after the first
    is a step of its own. TPOT is 0 for one-token outputs. Chunks follow one another through the
    stages of a pipeline: all take their share of each, the longest that of every other stage too.
    """
    law, budget = build.curve.step_law, build.max_num_batched_tokens
    p, d = prompt.astype(float), output.astype(float) - 1
    whole = np.floor(p / budget)
    rest = p - whole * budget
    partly = rest > 0
    steps = whole + partly
    full_chunk_s = float(law.tokens_s(np.array([float(budget)]))[0])
    ttft = whole * full_chunk_s + np.where(partly, law.tokens_s(np.maximum(rest, 1.0)), 0.0)
    ttft += law.c_x_s_per_token2 * p * p / 2 + law.c_n_s_per_request * steps
    ttft += law.c_c_s_per_token * (budget * whole * (whole + 1) / 2 + np.where(partly, p, 0.0))
    one = float(law.tokens_s(np.array([1.0]))[0])
    stages = build.curve.layout.pp_degree
    if stages > 1:
        ttft = (ttft + (stages - 1) * _longest_chunk_s(build, p, whole, rest)) / stages
    ttft += build.curve.path_s
    tpot = one + law.c_n_s_per_request + law.c_k_s_per_token * (p + (d + 1) / 2)
    return ttft, np.where(d > 0, tpot, 0.0)


def _longest_chunk_s(build: Build, prompt: Floats, whole: Floats, rest: Floats) -> Floats:
    """Return the longest step of a prefill alone: the last full chunk, or what is left."""
    law, budget = build.curve.step_law, float(build.max_num_batched_tokens)
    before = np.maximum(whole - 1, 0.0) * budget
    full = law.tokens_s(np.full_like(before, budget)) + law.c_n_s_per_request
    full = full + law.c_x_s_per_token2 * budget * (before + budget / 2)
    full = full + law.c_c_s_per_token * (before + budget)
    last = law.tokens_s(np.maximum(rest, 1.0)) + law.c_n_s_per_request
    last = last + law.c_x_s_per_token2 * rest * (whole * budget + rest / 2)
    last = last + law.c_c_s_per_token * prompt
    return np.maximum(np.where(whole > 0, full, 0.0), np.where(rest > 0, last, 0.0))


def lengths_of(study: Study, build: Build, rates_rps: tuple[float, ...]) -> tuple[Ints, Ints, Ints]:
    """Draw prompts and outputs, and what of each prompt must be computed whatever is kept.

    What a cache that forgets nothing could find is left out of the third: bounds made from it
    are optimistic, so that nobody is dropped whom a cache would save. Where users wait for their
    answers, pools are simulated without a cache.

    Args:
        study: Draws of the problem.
        build: The replica.
        rates_rps: The mix; only proportions matter.
    """
    draw = study.draws.get(rates_rps, 4_000, 0, 0)
    if build.cache is None or draw.closed:
        return draw.prompt, draw.output, draw.prompt
    traffic = draw.at(sum(rates_rps), block_tokens=build.cache.block_tokens)
    computed = traffic.prompt - traffic.most_found()
    return traffic.prompt, traffic.output, computed.astype(np.int32)


def computed_lengths(study: Study, build: Build, rates_rps: tuple[float, ...]) -> tuple[Ints, Ints]:
    """Draw outputs and what of their prompts must be computed whatever is kept."""
    _, output, computed = lengths_of(study, build, rates_rps)
    return computed, output


@dataclass(frozen=True, slots=True)
class Reachable:
    """The best share of requests that an empty replica brings within all deadlines."""

    attainment: float
    ttft_at_promise_s: float
    """The TTFT deadline that the promised share would meet, TPOT aside."""
    tpot_at_promise_s: float
    max_itl_at_promise_s: float
    """The same for the longest time between two tokens: the last decode step."""
    median_prompt: float


def reachable(
    build: Build,
    prompt: Ints,
    output: Ints,
    deadlines_s: tuple[Floats | float, float, float, float],
    promise: float,
) -> Reachable:
    """Say what an empty replica reaches for a draw of requests.

    Args:
        build: The replica.
        prompt: Prompt tokens, shape ``(n,)``.
        output: Output tokens, shape ``(n,)``.
        deadlines_s: TTFT (of all, or of each request), TPOT, end to end, and between two
            tokens, in seconds.
        promise: Attainment at which TTFT, TPOT and the longest gap are told.
    """
    ttft, tpot = empty_replica(build, prompt, output)
    good = (ttft <= deadlines_s[0]) & (tpot <= deadlines_s[1])
    good &= ttft + tpot * (output - 1) <= deadlines_s[2]
    decodes = np.maximum(output.astype(float) - 1, 0.0)
    # Steps grow by c_K a token, so the last is longer than the mean by half of the growth.
    gap = np.where(decodes > 0, tpot + build.curve.step_law.c_k_s_per_token * (decodes - 1) / 2, 0)
    good &= gap <= deadlines_s[3]
    return Reachable(
        attainment=float(good.mean()),
        ttft_at_promise_s=float(np.quantile(ttft, promise)),
        tpot_at_promise_s=float(np.quantile(tpot, promise)),
        max_itl_at_promise_s=float(np.quantile(gap, promise)),
        median_prompt=float(np.median(prompt)),
    )
