"""One pool of identical replicas behind a router: the checked front of both simulators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from planner.kernels import compiled, plain
from planner.kernels.records import LAST_PS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.kernels.records import Law, Limits, Records

Router = Literal["round_robin", "least_outstanding"]

ROUTERS: Final = {"round_robin": 0, "least_outstanding": 1}


def simulate_pool(
    law: Law,
    limits: Limits,
    arrival_ps: NDArray[np.int64],
    prompt_tokens: NDArray[np.int32],
    output_tokens: NDArray[np.int32],
    *,
    replicas: int = 1,
    router: Router = "round_robin",
    stages: bool = False,
    gaps: bool = False,
) -> Records:
    """Serve every request on one pool of identical replicas, exactly, step by step.

    The scheduler is that of vLLM V1: running requests first, in order of admission, each one
    token or what the budget leaves of its prefill; when KV blocks run out the last running
    request is preempted, to be recomputed; then, unless something was preempted in this step,
    admission strictly from the head of the queue; tokens appear and blocks free at the end of
    the step.

    Order of simultaneous events: steps that end at t are completed, and what finishes leaves;
    arrivals at t are routed and queued, in order of index; then the next steps are scheduled
    and see all that has arrived by t. So a router that counts at t no longer counts what
    finishes at t; among equals it takes the lowest index. Round robin deals
    request i to replica i mod ``replicas``, rejected ones included.

    Args:
        law: Time of a step; its table has ``max_num_batched_tokens + 1`` entries.
        limits: Limits of each replica.
        arrival_ps: Arrival times at the router, ascending, >= 0. Shape ``(n,)``, int64 ps.
        prompt_tokens: Shape ``(n,)``, int32, >= 1.
        output_tokens: Shape ``(n,)``, int32, >= 1.
        replicas: Number of replicas, >= 1.
        router: How requests are shared out.
        stages: Record all stages of each request; 48 bytes more per request.
        gaps: Record the longest times between tokens; 40 bytes more per request.

    Returns:
        One record per request and the pool's totals; the same to the bit, compiled or not.

    Raises:
        ValueError: Arrays of wrong type, shape or order, or numbers out of range.
        OverflowError: Simulated time passed 53 days.
    """
    check_limits(law, limits, replicas, router)
    check_traffic(arrival_ps, prompt_tokens, output_tokens)
    if len(prompt_tokens):
        check_magnitude(law, limits, int(prompt_tokens.max()), int(output_tokens.max()))
    run = compiled.run if compiled.COMPILED else plain.run
    return run(
        law._replace(tokens_ps=np.ascontiguousarray(law.tokens_ps)),
        limits,
        np.ascontiguousarray(arrival_ps),
        np.ascontiguousarray(prompt_tokens),
        np.ascontiguousarray(output_tokens),
        replicas,
        ROUTERS[router],
        stages=stages,
        gaps=gaps,
    )


def _check(holds: bool | np.bool_, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _check_array(name: str, array: NDArray[Any], dtype: type[np.generic]) -> None:
    _check(
        array.ndim == 1 and array.dtype == dtype, f"{name}: expected one row of {dtype.__name__}"
    )


def check_limits(law: Law, limits: Limits, replicas: int, router: str) -> None:
    """Refuse pools that no simulator could run.

    Raises:
        ValueError: A number is out of range, or the law's table of wrong type or shape.
    """
    most = 2**30
    _check_array("tokens_ps", law.tokens_ps, np.int64)
    _check(router in ROUTERS, f"router: expected one of {', '.join(ROUTERS)}; got {router!r}")
    _check(replicas >= 1, "replicas: must be at least 1")
    _check(
        1 <= limits.max_num_seqs <= limits.max_num_batched_tokens <= most,
        "max_num_seqs: must be from 1 to max_num_batched_tokens, as every running request "
        "takes a token of each step",
    )
    _check(
        len(law.tokens_ps) == limits.max_num_batched_tokens + 1,
        "tokens_ps: expected max_num_batched_tokens + 1 entries",
    )
    _check(law.tokens_ps[1:].min() >= 1, "tokens_ps: a step takes at least 1 ps")
    _check(min(law[1:]) >= 0, "law: its coefficients must not be negative")
    _check(limits.block_size >= 1, "block_size: must be at least 1")
    _check(
        0 <= limits.kv_blocks <= most and limits.kv_blocks * limits.block_size <= 2**40,
        "kv_blocks: must be from 0 to 2**30, and at most 2**40 tokens",
    )
    _check(0 <= limits.watermark_blocks <= most, "watermark_blocks: must be from 0 to 2**30")


def check_traffic(
    arrival_ps: NDArray[np.int64],
    prompt_tokens: NDArray[np.int32],
    output_tokens: NDArray[np.int32],
) -> None:
    """Refuse requests that are no list in order of arrival.

    Args:
        arrival_ps: Shape ``(n,)``.
        prompt_tokens: Shape ``(n,)``.
        output_tokens: Shape ``(n,)``.

    Raises:
        ValueError: An array has a wrong type, shape or order, or a number is out of range.
    """
    _check_array("arrival_ps", arrival_ps, np.int64)
    _check_array("prompt_tokens", prompt_tokens, np.int32)
    _check_array("output_tokens", output_tokens, np.int32)
    n = len(arrival_ps)
    _check(n <= 2**30, "arrival_ps: at most 2**30 requests")
    _check(len(prompt_tokens) == n == len(output_tokens), "arrays of unequal length")
    if n == 0:
        return
    _check((arrival_ps[1:] >= arrival_ps[:-1]).all(), "arrival_ps: must ascend")
    _check(arrival_ps[0] >= 0, "arrival_ps: must not be negative")
    _check(arrival_ps[-1] < LAST_PS, "arrival_ps: must be below 2**62 ps (53 days)")
    _check(prompt_tokens.min() >= 1, "prompt_tokens: must be at least 1")
    _check(output_tokens.min() >= 1, "output_tokens: must be at least 1")


def check_magnitude(law: Law, limits: Limits, prompt_tokens: int, output_tokens: int) -> None:
    """Refuse laws for which the time of one span of steps may leave 64 bits.

    Args:
        law: Time of a step.
        limits: Limits of a replica.
        prompt_tokens: Longest prompt.
        output_tokens: Longest output.

    Raises:
        ValueError: A time may not fit.
    """
    cache = limits.kv_blocks * limits.block_size
    tokens = limits.max_num_batched_tokens
    longest = min(cache, prompt_tokens + output_tokens)
    context = min(cache, limits.max_num_seqs * longest)
    squares = law.square_ps_2p15 * tokens * 2 * (longest + tokens)
    step_ps = (
        int(law.tokens_ps.max())
        + (squares >> 16)
        + law.context_ps * context
        + law.sequence_ps * limits.max_num_seqs
        + law.chunk_context_ps * (longest + tokens)
    )
    steps = max(1, min(cache, output_tokens))
    _check(
        squares < LAST_PS and step_ps * steps < LAST_PS,
        "law: one step could take so long that picoseconds leave 64 bits",
    )
