"""A pool under requests without end: counts, sums and histograms, nothing per request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.kernels import compiled
from planner.kernels.plain_stream import PlainStream
from planner.kernels.pool import ROUTERS, check_limits, check_magnitude, check_traffic
from planner.kernels.tally import NEVER_PS, Deadlines, StreamSummary, Tallies

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.kernels.pool import Router
    from planner.kernels.records import Law, Limits


class Stream:
    """Requests pushed chunk by chunk through one pool, as through ``simulate_pool`` at once.

    How a list is cut into chunks changes no count and no sum. Memory does not grow with the
    number of finished requests, only with those in the system.

    Args:
        law: Time of a step.
        limits: Limits of each replica.
        deadlines: Of each class.
        replicas: Number of replicas, >= 1.
        router: How requests are shared out.
        native: Run compiled; by default where there is a compiled simulator.

    Raises:
        ValueError: Numbers out of range.
        ImportError: ``native`` is asked for and not there.
    """

    def __init__(
        self,
        law: Law,
        limits: Limits,
        deadlines: Deadlines,
        *,
        replicas: int = 1,
        router: Router = "round_robin",
        native: bool = compiled.COMPILED,
    ) -> None:
        check_limits(law, limits, replicas, router)
        deadlines = _checked(deadlines)
        law = law._replace(tokens_ps=np.ascontiguousarray(law.tokens_ps))
        self._law, self._limits = law, limits
        self._longest = 1, 1
        self._classes = len(deadlines.ttft_ps)
        self._drained = False
        make = _NativeStream if native else PlainStream
        self._stream: _NativeStream | PlainStream = make(
            law, limits, deadlines, replicas, ROUTERS[router]
        )

    def push(
        self,
        arrival_ps: NDArray[np.int64],
        prompt_tokens: NDArray[np.int32],
        output_tokens: NDArray[np.int32],
        classes: NDArray[np.int32],
    ) -> None:
        """Add the next requests.

        Args:
            arrival_ps: Times since the last arrival of the chunk before (of the first chunk:
                since 0), ascending, >= 0 and below 2**62. Shape ``(n,)``, int64 ps.
            prompt_tokens: Shape ``(n,)``, int32, >= 1.
            output_tokens: Shape ``(n,)``, int32, >= 1.
            classes: Index of each request's class; shape ``(n,)``, int32.

        Raises:
            ValueError: Arrays of wrong type, shape or order, numbers out of range, or the stream
                is drained.
            OverflowError: A request has been in the system for more than 53 days.
        """
        if self._drained:
            raise ValueError("the stream is drained")
        check_traffic(arrival_ps, prompt_tokens, output_tokens)
        n = len(arrival_ps)
        if classes.shape != (n,) or classes.dtype != np.int32:
            raise ValueError("classes: expected one row of int32, as long as the others")
        if n == 0:
            return
        if classes.min() < 0 or classes.max() >= self._classes:
            raise ValueError("classes: out of range")
        prompt, output = self._longest
        self._longest = max(prompt, int(prompt_tokens.max())), max(output, int(output_tokens.max()))
        check_magnitude(self._law, self._limits, *self._longest)
        self._stream.push(
            np.ascontiguousarray(arrival_ps),
            np.ascontiguousarray(prompt_tokens),
            np.ascontiguousarray(output_tokens),
            np.ascontiguousarray(classes),
        )

    def drain(self) -> None:
        """Run on without arrivals until all is finished. Nothing can be pushed afterwards.

        Raises:
            OverflowError: A request would be in the system for more than 53 days.
        """
        if not self._drained:
            self._drained = True
            self._stream.drain()

    def summary(self) -> StreamSummary:
        """Return what has been counted so far. What has not finished is in no sum."""
        return self._stream.tallies().summary()


def _checked(deadlines: Deadlines) -> Deadlines:
    """Return the deadlines with a row, or a bucket list, for each of those left out."""
    ttft = np.ascontiguousarray(deadlines.ttft_ps, np.int64)
    never = np.full(ttft.shape, NEVER_PS)
    e2e, itl = (never if row is None else row for row in (deadlines.e2e_ps, deadlines.max_itl_ps))
    given = (deadlines.tpot_ps, deadlines.context_tokens, e2e, itl)
    tpot, context, e2e, itl = (np.ascontiguousarray(row, np.int64) for row in given)
    rows = (ttft, tpot, context, e2e, itl)
    if len({row.shape for row in rows}) != 1 or ttft.ndim != 1 or not len(ttft):
        raise ValueError("deadlines: expected rows of equal length, one entry per class")
    if min(int(row.min()) for row in rows) < 0:
        raise ValueError("deadlines: must not be negative")
    none = np.empty(0, np.int64)
    buckets = deadlines.by_prompt or ((none, none),) * len(ttft)
    if len(buckets) != len(ttft):
        raise ValueError("deadlines: expected buckets for each class")
    for edges, limits in buckets:
        if len(limits) < len(edges) or (np.diff(edges) <= 0).any() or (limits < 0).any():
            raise ValueError("deadlines: buckets must ascend, each with a deadline")
    trimmed = tuple(
        (np.asarray(edges, np.int64), np.asarray(limits[: len(edges)], np.int64))
        for edges, limits in buckets
    )
    return Deadlines(ttft, tpot, context, e2e, itl, trimmed)


class _NativeStream:
    """The compiled stream of ``native/stream.hpp``."""

    def __init__(
        self,
        law: Law,
        limits: Limits,
        deadlines: Deadlines,
        replicas: int,
        router: int,
    ) -> None:
        self._native = compiled.native()
        self._classes = len(deadlines.ttft_ps)
        buckets = deadlines.by_prompt or ()
        starts = np.cumsum([0, *(len(edges) for edges, _ in buckets)], dtype=np.int64)
        flat = [np.concatenate(column) for column in zip(*buckets, strict=True)]
        self._handle = self._native.stream_open(
            law, limits, replicas, router, *deadlines[:5], starts, *flat
        )

    def push(
        self,
        arrival_ps: NDArray[np.int64],
        prompt_tokens: NDArray[np.int32],
        output_tokens: NDArray[np.int32],
        classes: NDArray[np.int32],
    ) -> None:
        self._native.stream_push(self._handle, arrival_ps, prompt_tokens, output_tokens, classes)

    def drain(self) -> None:
        self._native.stream_drain(self._handle)

    def tallies(self) -> Tallies:
        room = Tallies.room(self._classes)
        flat = [array.reshape(-1) for array in room]
        samples = self._native.stream_read(self._handle, *flat)
        return room._replace(backlog=room.backlog[:samples])
