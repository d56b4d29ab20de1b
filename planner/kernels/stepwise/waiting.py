"""The waiting queue of one engine: first come first served, or ordered by rank."""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.kernels.stepwise.options import Policy
    from planner.kernels.stepwise.request import Request

NEVER = 1 << 62
"""A deadline that does not exist."""


def importance(request: Request, policy: Policy) -> tuple[int, int]:
    """Return what the policy orders by; the smallest is served first, the largest preempted."""
    if policy == "deadline":
        deadline = request.job.deadline
        return (NEVER if deadline is None else deadline, request.arrival)
    return (request.job.priority if policy == "priority" else 0, request.arrival)


class WaitingQueue:
    """Requests that wait for admission, the next one first."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._items: list[Request] = []

    def __len__(self) -> int:
        return len(self._items)

    def head(self) -> Request:
        """Return the next request without taking it."""
        return self._items[0]

    def pop(self) -> Request:
        """Take the next request."""
        return self._items.pop(0)

    def remove(self, request: Request) -> None:
        """Take out a request wherever it stands."""
        self._items.remove(request)

    def add(self, request: Request) -> None:
        """Queue a new request."""
        if self._policy == "fcfs":
            self._items.append(request)
        else:
            insort(self._items, request, key=self._key)

    def put_back(self, request: Request) -> None:
        """Queue a preempted request: at the head, or where its rank puts it."""
        if self._policy == "fcfs":
            self._items.insert(0, request)
        else:
            insort(self._items, request, key=self._key)

    def _key(self, request: Request) -> tuple[int, int, int]:
        return (*importance(request, self._policy), request.rank)
