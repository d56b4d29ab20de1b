"""Counts what was simulated, for the evidence of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock


@dataclass(slots=True)
class Meter:
    """A running count of simulated requests."""

    requests: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)

    def count(self, requests: int) -> None:
        """Add simulated requests."""
        with self._lock:
            self.requests += requests
