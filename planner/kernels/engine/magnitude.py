"""Whether a simulation stays within the numbers of the compiled simulator."""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from planner.kernels.stepwise.options import Colocated

if TYPE_CHECKING:
    from planner.kernels.engine.records import Traffic
    from planner.kernels.stepwise.law import StepLaw
    from planner.kernels.stepwise.options import Disaggregated, EngineOptions

_MOST: Final = 2**30
"""Counts of any kind."""
_LAST: Final = 2**62
"""Sums of ticks."""


def fits_64_bits(traffic: Traffic, setup: Colocated | Disaggregated) -> bool:
    """Tell whether every sum of the compiled simulator but the clock stays in 64 bits."""
    n = len(traffic.arrival)
    if n == 0:
        return True
    limit = traffic.output if traffic.limit is None else traffic.limit
    longest = int(traffic.prompt.max()) + int(limit.max())
    last = int(traffic.arrival[-1])
    far = [0]
    if isinstance(setup, Colocated):  # its only sums of times are those that watch the clock
        sides = [(setup.engine, setup.law)]
    else:
        sides = [(setup.prefill, setup.prefill_law), (setup.decode, setup.decode_law)]
        link = setup.link
        far += [last, setup.hop, link.latency, link.ticks_per_token * longest]
    return (
        longest < 2**31
        and last < _LAST
        and max(far) < _LAST // 4
        and all(
            _options_fit(options) and _law_fits(law, options, n, longest) for options, law in sides
        )
    )


def _options_fit(options: EngineOptions) -> bool:
    counts = [
        options.max_num_seqs,
        options.max_num_batched_tokens,
        options.block_size,
        options.usable_blocks or 0,
        options.long_prefill_token_threshold,
        options.watermark_blocks,
    ]
    return max(counts) <= _MOST and options.pp_degree <= 2**10


def _law_fits(law: StepLaw, options: EngineOptions, n: int, longest: int) -> bool:
    """Bound each term of the law by the most that one step can hold."""
    seats = min(options.max_num_seqs, n)
    tokens = options.max_num_batched_tokens + seats
    context = seats * longest
    last = law.knots[-1][0]
    if last > 2**31 or law.shift > 60:
        return False
    steepest, tallest, width = _extremes(law)
    highest = tallest + steepest * max(tokens, last)
    step = (
        highest
        + abs(law.c_x) * min(tokens, context) * 2 * longest
        + abs(law.c_k) * context
        + abs(law.c_n) * seats
        + abs(law.c_c) * context
    )
    return step < _LAST // 4 and width * max(tokens, last) < _LAST


@lru_cache(maxsize=64)
def _extremes(law: StepLaw) -> tuple[int, int, int]:
    """Return the steepest piece between knots (ticks per token), the tallest knot, the widest gap.

    Kept, as a law of thousands of knots serves many runs.
    """
    knots = law.knots
    steepest = max(
        (abs(t1 - t0) // (n1 - n0) + 1 for (n0, t0), (n1, t1) in itertools.pairwise(knots)),
        default=0,
    )
    width = max((n1 - n0 for (n0, _), (n1, _) in itertools.pairwise(knots)), default=1)
    return steepest, max(abs(t) for _, t in knots), width
