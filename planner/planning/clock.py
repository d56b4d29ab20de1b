"""The time that is left."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from threading import Event

from planner.errors import LimitReachedError


@dataclass(frozen=True, slots=True)
class Clock:
    """Counts down from a limit in seconds; measures work, and never enters a result."""

    limit_s: float
    started_s: float = field(default_factory=time.perf_counter)
    _stopped: Event = field(default_factory=Event, repr=False)

    def stop_on(self, error: BaseException) -> None:
        """End the time now if the error is an interrupt: it ends all of the work, not a part."""
        if isinstance(error, KeyboardInterrupt):
            self._stopped.set()

    @property
    def interrupted(self) -> bool:
        """Whether somebody ended the work."""
        return self._stopped.is_set()

    @property
    def left_s(self) -> float:
        """Seconds left; at least a little, so that a solver may be given it."""
        return 0.05 if self.over else self.limit_s - (time.perf_counter() - self.started_s)

    @property
    def spent(self) -> float:
        """Share of the limit that has passed."""
        return math.inf if self.over else (time.perf_counter() - self.started_s) / self.limit_s

    @property
    def over(self) -> bool:
        """Whether no time is left."""
        late = time.perf_counter() - self.started_s > self.limit_s
        return late or self._stopped.is_set()

    def check(self) -> None:
        """Stop if the time is over.

        Raises:
            LimitReachedError: It is.
        """
        if self._stopped.is_set():
            raise LimitReachedError("the work was interrupted")
        if self.over:
            raise LimitReachedError(f"the time limit of {self.limit_s:g} s is over")
