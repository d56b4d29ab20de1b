"""The longest times between two tokens: ``native/token_gaps.hpp`` in plain Python."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple


class GapColumns(NamedTuple):
    """Lists by request, all from 0; see :class:`planner.kernels.Gaps`."""

    decode: list[int]
    unstalled: list[int]
    stall: list[int]
    solo: list[int]
    preempted: list[int]


class Peaks:
    """The largest of a row of numbers since some place in it: ``native/peaks.hpp``."""

    def __init__(self) -> None:
        self._counters: list[int] = []
        self._values: list[int] = []  # each larger than all that follow

    def add(self, counter: int, value: int) -> None:
        """Tell that what came up to ``counter`` was at most ``value``, and one was."""
        counters, values = self._counters, self._values
        while values and values[-1] <= value:
            values.pop()
            counters.pop()
        counters.append(counter)
        values.append(value)

    def since(self, counter: int) -> int:
        """Return the largest that came after a counter; there must be one."""
        return self._values[bisect_right(self._counters, counter)]

    def clear(self) -> None:
        """Forget all: nobody will ask for it."""
        self._counters.clear()
        self._values.clear()


class GapLog:
    """The steps of one replica, and what its requests see of them.

    Args:
        columns: Where the longest gaps of requests are written.
    """

    def __init__(self, columns: GapColumns) -> None:
        self._columns = columns
        self._joined: dict[int, int] = {}
        self._rows = Peaks(), Peaks(), Peaks()

    def step(self, counter: int, longest: int, stall: int) -> None:
        """Note that steps up to ``counter`` took at most ``longest``, chunks in it ``stall``."""
        for row, value in zip(self._rows, (longest, longest - stall, stall), strict=True):
            row.add(counter, value)

    def clear(self) -> None:
        """Forget the steps: nobody decodes."""
        for row in self._rows:
            row.clear()

    def join(self, request: int, counter: int) -> None:
        """Note that a request decodes from the next step on."""
        self._joined[request] = counter

    def leave(self, request: int, counter: int, solo: int) -> None:
        """Note that it does no more; ``solo``: its last step as if alone, the longest of them."""
        since = self._joined.pop(request)
        if since == counter:
            return
        seen = (*(row.since(since) for row in self._rows), solo)
        for column, value in zip(self._columns, seen, strict=False):
            if value > column[request]:
                column[request] = value

    def waited(self, request: int, time: int) -> None:
        """Note the time from losing its blocks to the next token."""
        column = self._columns.preempted
        if time > column[request]:
            column[request] = time
