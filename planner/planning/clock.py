"""The time that is left."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from planner.errors import LimitReachedError


@dataclass(frozen=True, slots=True)
class Clock:
    """Counts down from a limit in seconds; measures work, and never enters a result."""

    limit_s: float
    started_s: float = field(default_factory=time.perf_counter)

    @property
    def left_s(self) -> float:
        """Seconds left; at least a little, so that a solver may be given it."""
        return max(self.limit_s - (time.perf_counter() - self.started_s), 0.05)

    @property
    def spent(self) -> float:
        """Share of the limit that has passed."""
        return (time.perf_counter() - self.started_s) / self.limit_s

    @property
    def over(self) -> bool:
        """Whether no time is left."""
        return time.perf_counter() - self.started_s > self.limit_s

    def check(self) -> None:
        """Stop if the time is over.

        Raises:
            LimitReachedError: It is.
        """
        if self.over:
            raise LimitReachedError(f"the time limit of {self.limit_s:g} s is over")
