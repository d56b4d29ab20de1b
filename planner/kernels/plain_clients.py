"""Clients of ``native/closed_loop.hpp`` in plain Python."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from planner.kernels.plain import gap_columns, lists, records
from planner.kernels.plain_pool import PlainPool
from planner.kernels.plain_replica import NEVER
from planner.kernels.records import LAST_PS, ClientRecords, one_source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.kernels.records import Law, Limits, Sources


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
    gaps: bool = False,
    sources: Sources | None = None,
) -> ClientRecords:
    """Send each request once it is there and a permit is free; arguments already checked.

    Args:
        law: Time of a step.
        limits: Limits of each replica.
        arrival_ps: When each request is ready to be sent, ascending; shape ``(n,)``.
        prompt_tokens: Shape ``(n,)``.
        output_tokens: Shape ``(n,)``.
        think_ps: From a request's finish to the return of its permit; shape ``(n,)``.
        permit_ps: When each permit is first free, source by source; shape ``(clients,)``.
        replicas: Number of replicas.
        router: 0 round robin, 1 least outstanding.
        stages: Record all stages of each request.
        gaps: Record the longest times between tokens of each request.
        sources: Who sends which request; one source for all if left out. Sending ends with the
            first source that has sent all its requests.

    Raises:
        OverflowError: Simulated time passed ``LAST_PS``.
    """
    traffic, columns = lists(arrival_ps, prompt_tokens, output_tokens)
    ready, think = arrival_ps.tolist(), think_ps.tolist()
    n = len(ready)
    traffic.arrival[:] = [-1] * n
    rows = gap_columns(n) if gaps else None
    pool = PlainPool(law, limits, traffic, columns, replicas, router, LAST_PS, rows)
    sources = sources or one_source(n, len(permit_ps))
    who = sources.source.tolist()
    senders = _senders(sources, permit_ps)
    served = [-1] * n
    passed = -1
    sending = n > 0
    while True:
        first, send = None, NEVER
        for sender in senders if sending else ():
            at = sender.send(ready)
            if at < send:
                first, send = sender, at
        boundary = pool.next_boundary
        if send <= boundary:
            if first is None:
                break
            if send >= LAST_PS:
                raise OverflowError("simulated time passed 2**62 ps (53 days)")
            request = first.take()
            sending = first.next < len(first.requests)
            traffic.arrival[request] = send
            served[request] = pool.push(request, late=send == passed)
            if served[request] < 0:
                first.give_back(send + think[request])
        else:
            passed = boundary
            pool.advance(boundary + 1)
            for finished in pool.done:
                senders[who[finished]].give_back(boundary + think[finished])
            pool.done.clear()
    replica = np.array(served, np.int32)
    whole = records(law, traffic, columns, replica, pool.drain(), stages=stages, gaps=rows)
    return ClientRecords(np.array(traffic.arrival, np.int64), whole)


class _Sender:
    """A source with its free permits."""

    def __init__(self, permits: list[int], requests: list[int]) -> None:
        self.open = not permits
        self.permits = permits
        self.requests = requests
        self.next = 0
        heapify(self.permits)

    def send(self, ready: list[int]) -> int:
        """Return when its next request is sent; there is one."""
        at = ready[self.requests[self.next]]
        if self.open:
            return at
        return max(at, self.permits[0]) if self.permits else NEVER

    def take(self) -> int:
        """Take the next request, and a permit for it."""
        if not self.open:
            heappop(self.permits)
        self.next += 1
        return self.requests[self.next - 1]

    def give_back(self, at: int) -> None:
        """Return a permit that is free again at a time."""
        if not self.open:
            heappush(self.permits, at)


def _senders(sources: Sources, permit_ps: NDArray[np.int64]) -> list[_Sender]:
    edges = np.cumsum(sources.permits)[:-1]
    return [
        _Sender(part.tolist(), np.flatnonzero(sources.source == k).tolist())
        for k, part in enumerate(np.split(permit_ps, edges))
    ]
