"""Clients of ``native/closed_loop.hpp`` in plain Python."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from planner.kernels.plain import lists, records
from planner.kernels.plain_pool import PlainPool
from planner.kernels.plain_replica import NEVER
from planner.kernels.records import LAST_PS, ClientRecords

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.kernels.records import Law, Limits


def run_clients(
    law: Law,
    limits: Limits,
    arrival_ps: NDArray[np.int64],
    prompt_tokens: NDArray[np.int32],
    output_tokens: NDArray[np.int32],
    think_ps: NDArray[np.int64],
    permit_ps: NDArray[np.int64],
    replicas: int,
    router: int,
    *,
    stages: bool = False,
) -> ClientRecords:
    """Send each request once it is there and a permit is free; arguments already checked.

    Args:
        law: Time of a step.
        limits: Limits of each replica.
        arrival_ps: When each request is ready to be sent, ascending; shape ``(n,)``.
        prompt_tokens: Shape ``(n,)``.
        output_tokens: Shape ``(n,)``.
        think_ps: From a request's finish to the return of its permit; shape ``(n,)``.
        permit_ps: When each permit is first free; shape ``(clients,)``.
        replicas: Number of replicas.
        router: 0 round robin, 1 least outstanding.
        stages: Record all stages of each request.

    Raises:
        OverflowError: Simulated time passed ``LAST_PS``.
    """
    traffic, columns = lists(arrival_ps, prompt_tokens, output_tokens)
    ready, think = arrival_ps.tolist(), think_ps.tolist()
    pool = PlainPool(law, limits, traffic, columns, replicas, router, LAST_PS)
    permits = permit_ps.tolist()
    heapify(permits)
    served: list[int] = []
    passed = -1
    while True:
        request = len(served)
        send = max(ready[request], permits[0]) if permits and request < len(ready) else NEVER
        boundary = pool.next_boundary
        if send <= boundary:
            if send == NEVER:
                break
            if send >= LAST_PS:
                raise OverflowError("simulated time passed 2**62 ps (53 days)")
            heappop(permits)
            traffic.arrival[request] = send
            served.append(pool.push(request, late=send == passed))
            if served[-1] < 0:
                heappush(permits, send + think[request])
        else:
            passed = boundary
            pool.advance(boundary + 1)
            for finished in pool.done:
                heappush(permits, boundary + think[finished])
            pool.done.clear()
    whole = records(law, traffic, columns, np.array(served, np.int32), pool.drain(), stages=stages)
    return ClientRecords(np.array(traffic.arrival, np.int64), whole)
