"""What a benchmark tool with a fixed concurrency would print for a pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.kernels import simulate_closed_loop

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.kernels import ClientRecords
    from planner.simulation.pool import PoolSetup


@dataclass(frozen=True, slots=True)
class ToolMetrics:
    """Results in the sense of the common serving benchmarks; means are over requests."""

    completed: int
    duration_s: float
    """From the first sending that counts to the last token of all."""
    request_throughput_rps: float
    """Completed / duration."""
    output_throughput_tps: float
    """Output tokens of completed requests / duration, per second."""
    total_throughput_tps: float
    """The same with prompts."""
    mean_ttft_s: float
    """From sending to the first token."""
    median_ttft_s: float
    p99_ttft_s: float
    mean_tpot_s: float
    """(Last token - first token) / (output tokens - 1), over outputs of two tokens and more."""
    median_tpot_s: float
    p99_tpot_s: float
    mean_latency_s: float
    """From sending to the last token."""


def run_closed_loop(
    setup: PoolSetup,
    prompt_tokens: NDArray[np.int32],
    output_tokens: NDArray[np.int32],
    *,
    clients: int,
    think_s: float = 0.0,
    ramp_s: float = 0.0,
    skip: int = 0,
) -> ToolMetrics:
    """Run a list of requests through a pool at a fixed concurrency, and measure as tools do.

    Args:
        setup: The pool.
        prompt_tokens: In the order of sending; shape ``(n,)``, int32.
        output_tokens: Shape ``(n,)``, int32.
        clients: Requests in flight at most.
        think_s: From an answer to the client's next request: network and client, usually
            milliseconds.
        ramp_s: Clients start evenly over this time; 0: all at once.
        skip: Requests, first in order, that warm the pool up and are not counted. A tool
            that sends its warm-up requests and waits for them before it starts needs no
            skipping: the pool is empty again, as here.

    Raises:
        ValueError: Nothing is left to count, or a number is out of range.
        OverflowError: Simulated time passed 53 days.
    """
    run = simulate_closed_loop(
        setup.law,
        setup.limits,
        prompt_tokens,
        output_tokens,
        clients=clients,
        think_ps=round(think_s * 1e12),
        ramp_ps=round(ramp_s * 1e12),
        replicas=setup.replicas,
        router=setup.router,
    )
    return measure(run, prompt_tokens, output_tokens, skip=skip)


def measure(
    run: ClientRecords,
    prompt_tokens: NDArray[np.int32],
    output_tokens: NDArray[np.int32],
    *,
    skip: int = 0,
) -> ToolMetrics:
    """Return what a tool prints about a run; the first ``skip`` requests are not counted.

    Raises:
        ValueError: No counted request was completed.
    """
    finish, first = run.records.finish_ps, run.records.first_token_ps
    counted = np.flatnonzero(finish >= 0)
    counted = counted[counted >= skip]
    if counted.size == 0:
        raise ValueError("skip: no completed request is left to count")
    sent, first, finish = run.sent_ps[counted], first[counted], finish[counted]
    prompt = prompt_tokens[counted].astype(np.int64)
    output = output_tokens[counted].astype(np.int64)
    duration = float(finish.max() - run.sent_ps[skip:].min()) * 1e-12
    ttft = (first - sent).astype(np.float64) * 1e-12
    longer = output > 1
    tpot = (finish - first)[longer].astype(np.float64) * 1e-12 / (output[longer] - 1)
    ttft_50, ttft_99 = np.percentile(ttft, (50, 99))
    tpot_50, tpot_99 = np.percentile(tpot, (50, 99)) if longer.any() else (0.0, 0.0)
    return ToolMetrics(
        completed=counted.size,
        duration_s=duration,
        request_throughput_rps=counted.size / duration,
        output_throughput_tps=float(output.sum()) / duration,
        total_throughput_tps=float((prompt + output).sum()) / duration,
        mean_ttft_s=float(ttft.mean()),
        median_ttft_s=float(ttft_50),
        p99_ttft_s=float(ttft_99),
        mean_tpot_s=float(tpot.mean()) if longer.any() else 0.0,
        median_tpot_s=float(tpot_50),
        p99_tpot_s=float(tpot_99),
        mean_latency_s=float((finish - sent).mean()) * 1e-12,
    )
