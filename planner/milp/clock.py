"""How much of a time limit is left."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.milp.highs import Settings


@dataclass(frozen=True, slots=True)
class Deadline:
    """An instant of the monotonic clock by which all work must end."""

    at_s: float

    @classmethod
    def after(cls, time_limit_s: float) -> Deadline:
        """Set the deadline ``time_limit_s`` from now."""
        return cls(time.perf_counter() + time_limit_s)

    def left_s(self) -> float:
        """Return the seconds that are left, at least 0."""
        return max(self.at_s - time.perf_counter(), 0.0)

    def limit(self, settings: Settings, share: float = 1.0) -> Settings:
        """Give one solve a share of the time that is left."""
        return replace(settings, time_limit_s=self.left_s() * share)
