"""Clients that hold a number of requests in flight, as benchmark tools do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.kernels import compiled, plain_clients
from planner.kernels.pool import ROUTERS, check_limits, check_magnitude, check_traffic
from planner.kernels.records import LAST_PS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.kernels.pool import Router
    from planner.kernels.records import ClientRecords, Law, Limits, Sources


def simulate_closed_loop(
    law: Law,
    limits: Limits,
    prompt_tokens: NDArray[np.int32],
    output_tokens: NDArray[np.int32],
    *,
    clients: int,
    think_ps: NDArray[np.int64] | int = 0,
    ramp_ps: int = 0,
    replicas: int = 1,
    router: Router = "round_robin",
    stages: bool = False,
) -> ClientRecords:
    """Serve a list of requests to clients that each send the next when their last is finished.

    That is what a benchmark tool with a concurrency of ``clients`` and no rate does: one list, a
    semaphore, everything ready at 0. A request that the finish of another releases at t
    comes behind all step boundaries at t: the engine has scheduled its next step before the
    client has the answer, so the step after that is the first to see the newcomer, unless the
    replica is idle. A rejected request comes back to its client at once.

    Args:
        law: Time of a step.
        limits: Limits of each replica.
        prompt_tokens: In the order of sending; shape ``(n,)``, int32, >= 1.
        output_tokens: Shape ``(n,)``, int32, >= 1.
        clients: Requests in flight at most, >= 1.
        think_ps: From the finish of request i to the client's next sending, >= 0; a number, or
            int64 of shape ``(n,)``. Also the way to give the network and the client their time.
        ramp_ps: Client c of C starts at ``ramp_ps * c // C``; 0: all at once.
        replicas: Number of replicas, >= 1.
        router: How requests are shared out, in order of sending.
        stages: Record all stages of each request.

    Returns:
        One record per request, and when it was sent.

    Raises:
        ValueError: Arrays of wrong type or shape, or numbers out of range.
        OverflowError: Simulated time passed 53 days.
    """
    if not 0 <= ramp_ps < LAST_PS:
        raise ValueError("ramp_ps: must be from 0 to 2**62")
    if not 1 <= clients <= 2**30:
        raise ValueError("clients: must be from 1 to 2**30")
    ready = np.zeros(len(prompt_tokens), np.int64)
    starts = [ramp_ps * c // clients for c in range(min(clients, len(prompt_tokens)))]
    traffic = (ready, prompt_tokens, output_tokens)
    permits = np.array(starts, np.int64)
    return _run(law, limits, traffic, permits, think_ps, replicas, router, stages)


def simulate_capped(
    law: Law,
    limits: Limits,
    arrival_ps: NDArray[np.int64],
    prompt_tokens: NDArray[np.int32],
    output_tokens: NDArray[np.int32],
    *,
    clients: int,
    replicas: int = 1,
    router: Router = "round_robin",
    stages: bool = False,
) -> ClientRecords:
    """Serve requests that come at given times, of which a cap lets only so many be in flight.

    A request is sent when it has come and one of ``clients`` permits is free, first come first
    served. Its latencies count from the sending, as tools with both a rate and a concurrency
    count them: the wait for a permit, ``sent_ps - arrival_ps``, is in none of them.

    Args:
        law: Time of a step.
        limits: Limits of each replica.
        arrival_ps: When each request comes to the client, ascending, >= 0. Shape ``(n,)``, ps.
        prompt_tokens: Shape ``(n,)``, int32, >= 1.
        output_tokens: Shape ``(n,)``, int32, >= 1.
        clients: Requests in flight at most, >= 1.
        replicas: Number of replicas, >= 1.
        router: How requests are shared out, in order of sending.
        stages: Record all stages of each request.

    Returns:
        One record per request, and when it was sent.

    Raises:
        ValueError: Arrays of wrong type, shape or order, or numbers out of range.
        OverflowError: Simulated time passed 53 days.
    """
    if not 1 <= clients <= 2**30:
        raise ValueError("clients: must be from 1 to 2**30")
    permits = np.zeros(min(clients, len(prompt_tokens)), np.int64)
    traffic = (arrival_ps, prompt_tokens, output_tokens)
    return _run(law, limits, traffic, permits, 0, replicas, router, stages)


def simulate_users(
    law: Law,
    limits: Limits,
    arrival_ps: NDArray[np.int64],
    prompt_tokens: NDArray[np.int32],
    output_tokens: NDArray[np.int32],
    sources: Sources,
    start_ps: NDArray[np.int64],
    think_ps: NDArray[np.int64],
    *,
    replicas: int = 1,
    router: Router = "round_robin",
    stages: bool = False,
    gaps: bool = False,
) -> ClientRecords:
    """Serve several sources of requests at once: users who wait for their answers, and others.

    A source with permits has as many users; each sends the source's next request once their
    last is finished and they have thought. A source without permits is open. Sending ends with
    the first source that has sent all its requests, so that none is missing beside the others.

    Args:
        law: Time of a step.
        limits: Limits of each replica.
        arrival_ps: When each request comes, ascending within an open source, and no earlier than
            which a user sends it; shape ``(n,)``, ps.
        prompt_tokens: In the order of sending within a source; shape ``(n,)``, int32, >= 1.
        output_tokens: Shape ``(n,)``, int32, >= 1.
        sources: Who sends which request.
        start_ps: When each user is first ready, source by source; ps, >= 0.
        think_ps: From the finish of request i to its user's next sending; int64, shape ``(n,)``.
        replicas: Number of replicas, >= 1.
        router: How requests are shared out, in order of sending.
        stages: Record all stages of each request.
        gaps: Record the longest times between tokens of each request.

    Returns:
        One record per request, and when it was sent; -1 where it was not.

    Raises:
        ValueError: Arrays of wrong type, shape or order, or numbers out of range.
        OverflowError: Simulated time passed 53 days.
    """
    n, kinds = len(arrival_ps), len(sources.permits)
    order = np.argsort(sources.source, kind="stable")
    again = np.diff(sources.source[order]) == 0
    if sources.source.shape != (n,) or sources.source.dtype != np.int32:
        raise ValueError("sources: expected the source of each request, one row of int32")
    if n and not 0 <= sources.source.min() <= sources.source.max() < kinds:
        raise ValueError("sources: a request has a source that does not exist")
    if n and np.bincount(sources.source, minlength=kinds).min() == 0:
        raise ValueError("sources: each needs a request; leave out one that sends none")
    if (np.diff(arrival_ps[order])[again] < 0).any():
        raise ValueError("arrival_ps: must ascend within each source")
    if start_ps.size != sources.permits.sum() or (sources.permits < 0).any():
        raise ValueError("start_ps: expected one start for each permit")
    if start_ps.size and not 0 <= start_ps.min() <= start_ps.max() < LAST_PS:
        raise ValueError("start_ps: must be from 0 to 2**62")
    traffic = (arrival_ps, prompt_tokens, output_tokens)
    return _run(
        law, limits, traffic, start_ps, think_ps, replicas, router, stages, sources, gaps=gaps
    )


def _run(
    law: Law,
    limits: Limits,
    traffic: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]],
    permits: NDArray[np.int64],
    think_ps: NDArray[np.int64] | int,
    replicas: int,
    router: Router,
    stages: bool,
    sources: Sources | None = None,
    *,
    gaps: bool = False,
) -> ClientRecords:
    check_limits(law, limits, replicas, router)
    check_traffic(traffic[0] if sources is None else np.sort(traffic[0]), *traffic[1:])
    arrival = np.ascontiguousarray(traffic[0])
    prompt, output = np.ascontiguousarray(traffic[1]), np.ascontiguousarray(traffic[2])
    n = len(arrival)
    if n:
        check_magnitude(law, limits, int(prompt.max()), int(output.max()))
    think = np.ascontiguousarray(np.broadcast_to(think_ps, (n,)))
    if think.dtype != np.int64:
        raise ValueError("think_ps: expected whole ps, one number or one row of int64")
    if n and (think.min() < 0 or think.max() >= LAST_PS):
        raise ValueError("think_ps: must be from 0 to 2**62")
    run = compiled.run_clients if compiled.COMPILED else plain_clients.run_clients
    law = law._replace(tokens_ps=np.ascontiguousarray(law.tokens_ps))
    code = ROUTERS[router]
    requests = (arrival, prompt, output, think)
    pool = (law, limits, *requests, permits, replicas, code)
    return run(*pool, stages=stages, gaps=gaps, sources=sources)
