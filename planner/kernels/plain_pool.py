"""Identical plain replicas behind a router, told event by event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.kernels.plain_replica import COMPLETE, READ, Columns, Totals, Traffic, drain, replica

if TYPE_CHECKING:
    from planner.kernels.plain_gaps import GapColumns
    from planner.kernels.records import Law, Limits


class PlainPool:
    """The pool of ``native/pool.hpp``: requests pushed one by one, in order of arrival.

    Args:
        law: Time of a step.
        limits: Limits of each replica.
        traffic: Requests by index; may grow between calls.
        columns: Where their records are written; may grow between calls.
        replicas: Number of replicas.
        router: 0 round robin, 1 least outstanding.
        last_ps: Time may not reach this.
        gaps: Where the longest times between tokens are written, if they are wanted.
    """

    def __init__(
        self,
        law: Law,
        limits: Limits,
        traffic: Traffic,
        columns: Columns,
        replicas: int,
        router: int,
        last_ps: int,
        gaps: GapColumns | None = None,
    ) -> None:
        level = law.tokens_ps.tolist()
        self.done: list[int] = []
        """Requests as they finish; whoever reads may clear it."""
        self._late: set[int] = set()
        self._traffic = traffic
        self._cache = limits.kv_blocks * limits.block_size
        self._router = router
        self._turn = 0
        self._inboxes: list[list[int]] = [[] for _ in range(replicas)]
        self._members = [
            replica(
                law,
                level,
                limits,
                traffic,
                columns,
                inbox,
                self.done,
                self._late,
                last_ps,
                gaps,
            )
            for inbox in self._inboxes
        ]
        self._ended: list[Totals] | None = None
        self._boundary = [0] * replicas
        self._outstanding = [0] * replicas
        self._queued = [0] * replicas
        for index, member in enumerate(self._members):
            self._note(index, next(member))

    @property
    def next_boundary(self) -> int:
        """The next end of a step anywhere; ``NEVER`` if all are idle."""
        return min(self._boundary)

    @property
    def queued(self) -> int:
        """Requests that wait or are preempted, as of each replica's last call."""
        return sum(self._queued)

    def push(self, request: int, *, late: bool = False) -> int:
        """Route one request; returns its replica, or -1 if it is rejected.

        A router that counts does so once the steps that end at its arrival are complete, and
        before any other is scheduled. Ties go to the lowest index. If ``late``, all boundaries
        at its arrival are passed.
        """
        if late:
            self._late.add(request)
        now = self._traffic.arrival[request]
        if self._router == 0:
            chosen = self._turn
            self._turn = (chosen + 1) % len(self._members)
        else:
            self._settle(now)
            chosen = self._outstanding.index(min(self._outstanding))
        if self._traffic.final[request] > self._cache:
            return -1
        if self._boundary[chosen] < now:
            self._send(chosen, now)
        self._inboxes[chosen].append(request)
        self._send(chosen, now)
        return chosen

    def advance(self, until: int) -> None:
        """Pass every boundary before ``until``."""
        for index, at in enumerate(self._boundary):
            if at < until:
                self._send(index, until)

    def _settle(self, now: int) -> None:
        """Pass every boundary before ``now``, and complete the steps that end then."""
        for index, at in enumerate(self._boundary):
            if at <= now:
                self._send(index, now)
                if self._boundary[index] == now:
                    self._send(index, COMPLETE)

    def drain(self) -> list[Totals]:
        """Run every replica to the end, for good, and return what each did."""
        self._ended = [drain(member) for member in self._members]
        return self._ended

    def totals(self) -> list[Totals]:
        """Return what each replica did so far."""
        return self._ended or [Totals(*member.send(READ)) for member in self._members]

    def _send(self, index: int, now: int) -> None:
        self._note(index, self._members[index].send(now))

    def _note(self, index: int, state: tuple[int, int, int, int]) -> None:
        self._boundary[index], self._outstanding[index], self._queued[index], _ = state
