"""One pool under a long stream of requests, drawn chunk by chunk: memory does not grow with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from planner.kernels import Deadlines as KernelDeadlines
from planner.kernels import Stream
from planner.simulation.draw import HORIZON_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.kernels import StreamSummary
    from planner.problem.deadlines import Deadlines
    from planner.simulation.draw import Draw, Draws
    from planner.simulation.pool import PoolSetup

STREAMING: Final = 16
"""Stream of random draws for this purpose, beside those of ``planner.simulation.capacity``."""
CHUNK: Final = 65_536
"""Requests drawn at once, about 4 MiB while they are being drawn."""
LONGEST_GAP: Final = 40.0
"""No chunk is so long that gaps of less than this many mean gaps would be cut."""


def stream_pool(
    setup: PoolSetup,
    draws: Draws,
    rates_rps: tuple[float, ...],
    deadlines: Deadlines,
    *,
    requests: int,
    replication: int = 0,
    chunk: int = CHUNK,
) -> StreamSummary:
    """Simulate a pool under any number of requests, to the last token of the last of them.

    Every request counts, the first ones that found the pool empty too: for runs so long that
    this is nothing.

    Args:
        setup: The pool; of a large one, ``setup.simulated`` replicas at the same load each.
        draws: Laws of lengths, and the seed.
        rates_rps: Load of each workload, requests per second.
        deadlines: Of each workload, all of them.
        requests: How many, >= 1.
        replication: 0, 1, ...: independent of each other.
        chunk: Requests drawn at once. The marginals of gaps, workloads and lengths are
            stratified within each chunk and chunks are independent, so other chunks are other
            requests. Bursts, traces and sessions begin anew in each, so a chunk must be long
            against them.

    Raises:
        ValueError: The pool schedules by priority, or has ranks or stages, which no stream does.
    """
    if setup.priority is not None or setup.step_wise:
        raise ValueError("streams are served first come, first served, by one rank and one stage")
    rate = sum(rates_rps) * setup.simulated / setup.replicas
    stream = Stream(
        setup.law,
        setup.limits,
        KernelDeadlines(
            deadlines.ttft_ps,
            deadlines.tpot_ps,
            deadlines.context_tokens,
            deadlines.e2e_ps,
            deadlines.max_itl_ps,
            deadlines.by_prompt,
        ),
        replicas=setup.simulated,
        router=setup.router,
    )
    for draw in chunks(draws, rates_rps, requests, replication, size_at(rate, chunk)):
        traffic = draw.at(rate)
        stream.push(traffic.arrival_ps, traffic.prompt, traffic.output, traffic.workload)
    stream.drain()
    return stream.summary()


def size_at(rate_rps: float, most: int = CHUNK) -> int:
    """Return the size of chunks at a rate: their span stays far below what 64 bits hold."""
    return int(np.clip(HORIZON_S * rate_rps / LONGEST_GAP, 1, most))


def chunks(
    draws: Draws, rates_rps: tuple[float, ...], requests: int, replication: int, size: int
) -> Iterator[Draw]:
    """Draw requests chunk by chunk; the last chunk may be shorter."""
    for index, first in enumerate(range(0, requests, size)):
        n = min(size, requests - first)
        yield draws.fresh(rates_rps, n, replication, STREAMING, chunk=index)
