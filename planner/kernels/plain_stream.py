"""The stream of ``native/stream.hpp`` in plain Python."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.kernels.plain import stages_of
from planner.kernels.plain_gaps import GapColumns
from planner.kernels.plain_pool import PlainPool
from planner.kernels.plain_replica import Columns, Traffic
from planner.kernels.records import LAST_PS
from planner.kernels.tally import (
    BINS,
    MOST_SAMPLES,
    NEVER_PS,
    OUTCOMES,
    STAGES,
    Tallies,
    bin_of,
    pair,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from planner.kernels.records import Law, Limits
    from planner.kernels.tally import Deadlines

_FOREVER: Final = 1 << 199
"""Whole numbers have no last bit here, so time runs on without a shift of its zero."""


class PlainStream:
    """Requests pushed chunk by chunk; arguments as :class:`planner.kernels.Stream`, checked.

    Finished requests give their place in the lists to later ones, so lists grow with the
    requests in the system only.
    """

    def __init__(
        self, law: Law, limits: Limits, deadlines: Deadlines, replicas: int, router: int
    ) -> None:
        self._law = law
        self._deadlines = [row.tolist() for row in deadlines[:5] if row is not None]
        buckets = deadlines.by_prompt or ()
        self._buckets = [(edges.tolist(), limits.tolist()) for edges, limits in buckets]
        classes = len(self._deadlines[0])
        self._traffic = Traffic([], [], [], [], [])
        self._columns = Columns([], [], [], [], [], [], [], [], [], [])
        judged = min(self._deadlines[4]) < NEVER_PS
        self._gaps = GapColumns([], [], [], [], []) if judged else None
        self._kind: list[int] = []
        self._free: list[int] = []
        self._pool = PlainPool(
            law, limits, self._traffic, self._columns, replicas, router, _FOREVER, self._gaps
        )
        self._offered = self._last_arrival = self._last_finish = 0
        self._stride = 1
        self._backlog: list[int] = []
        self._counts = [[0] * (4 + len(OUTCOMES)) for _ in range(classes)]
        self._sums = [[[0] * len(STAGES) for _ in OUTCOMES] for _ in range(classes)]
        self._histograms = [([0] * BINS, [0] * BINS) for _ in range(classes)]

    def push(
        self,
        arrival_ps: NDArray[np.int64],
        prompt_tokens: NDArray[np.int32],
        output_tokens: NDArray[np.int32],
        classes: NDArray[np.int32],
    ) -> None:
        """Add the next requests; times count from the last arrival before.

        Raises:
            OverflowError: A request that finished stayed for ``LAST_PS`` or longer.
        """
        columns = (arrival_ps, prompt_tokens, output_tokens, classes)
        zero = self._last_arrival
        for since, *request in zip(*(column.tolist() for column in columns), strict=True):
            self._last_arrival = zero + since
            self._sample()
            self._push_one(*request)
            self._collect()
        self._pool.advance(self._last_arrival)
        self._collect()

    def drain(self) -> None:
        """Run to the end.

        Raises:
            OverflowError: As :meth:`push`.
        """
        self._pool.drain()
        self._collect()

    def tallies(self) -> Tallies:
        """Return all counts so far."""
        totals = self._pool.totals()
        return Tallies(
            np.array(self._counts, np.int64),
            np.array([[[pair(x) for x in row] for row in rows] for rows in self._sums], np.int64),
            np.array(self._histograms, np.int64),
            np.array(
                [
                    sum(t.steps for t in totals),
                    sum(t.events for t in totals),
                    max(t.peak_kv_blocks for t in totals),
                    self._stride,
                    *pair(sum(t.busy_ps for t in totals)),
                    *pair(self._last_arrival),
                    *pair(self._last_finish),
                ],
                np.int64,
            ),
            np.array(self._backlog, np.int64),
        )

    def _sample(self) -> None:
        if self._offered % self._stride == 0:
            if len(self._backlog) == MOST_SAMPLES:
                del self._backlog[1::2]
                self._stride *= 2
            self._pool.advance(self._last_arrival)
            self._backlog.append(self._pool.queued)
        self._offered += 1

    def _push_one(self, prompt: int, output: int, kind: int) -> None:
        self._counts[kind][0] += 1
        slot = self._place()
        self._kind[slot] = kind
        row = (self._last_arrival, prompt, output, prompt + output - 1, 0)
        for numbers, number in zip(self._traffic, row, strict=True):
            numbers[slot] = number
        for numbers in (*self._columns, *(self._gaps or ())):
            numbers[slot] = 0
        if self._pool.push(slot) < 0:
            self._counts[kind][1] += 1
            self._free.append(slot)

    def _place(self) -> int:
        if self._free:
            return self._free.pop()
        rows = (*self._traffic, *self._columns, *(self._gaps or ()), self._kind)
        everything: Iterable[list[int]] = rows
        for numbers in everything:
            numbers.append(0)
        return len(self._kind) - 1

    def _collect(self) -> None:
        for slot in self._pool.done:
            self._count(slot)
        self._free += self._pool.done
        self._pool.done.clear()

    def _due_ttft(self, kind: int, prompt: int, longer: int) -> int:
        if not self._buckets:
            return longer
        edges, limits = self._buckets[kind]
        at = bisect_left(edges, prompt)
        return int(limits[at]) if at < len(edges) else longer

    def _longest_gap(self, slot: int) -> int:
        gaps = self._gaps
        return 0 if gaps is None else max(gaps.decode[slot], gaps.preempted[slot])

    def _count(self, slot: int) -> None:
        kind, output = self._kind[slot], self._traffic.output[slot]
        due_ttft, due_tpot, context, due_e2e, due_itl = (row[kind] for row in self._deadlines)
        due_ttft = self._due_ttft(kind, self._traffic.prompt[slot], due_ttft)
        first, finish = self._columns.first_token[slot], self._columns.finish[slot]
        if finish - self._traffic.arrival[slot] >= LAST_PS:
            raise OverflowError("a request stayed for more than 2**62 ps (53 days)")
        ttft, decode, steps = first - self._traffic.arrival[slot], finish - first, output - 1
        ttfts, tpots = self._histograms[kind]
        ttfts[bin_of(ttft)] += 1
        outcome = int(ttft > due_ttft)
        if steps:
            tpots[bin_of(decode // steps)] += 1
            outcome += 2 * (decode > due_tpot * steps)
        if outcome == 0 and (ttft + decode > due_e2e or self._longest_gap(slot) > due_itl):
            outcome = 4
        if self._traffic.prompt[slot] + output > context:
            outcome = 5
        counts, sums = self._counts[kind], self._sums[kind][outcome]
        counts[2 + outcome] += 1
        counts[-2] += output
        counts[-1] += self._columns.preemptions[slot]
        arrival, prompt = self._traffic.arrival[slot], self._traffic.prompt[slot]
        columns = [column[slot] for column in self._columns]
        for index, ps in enumerate(stages_of(self._law, arrival, prompt, output, columns)):
            sums[index] += ps
        self._last_finish = max(self._last_finish, finish)
