"""What is believed of every template while a fleet is refined."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from planner.candidates.frontier import Frontier

SAME_SIZE: Final = 0.07
"""Pools whose sizes differ by less than this share count as equally sized."""


@dataclass(slots=True)
class Beliefs:
    """What is believed of every template: its frontier, and how it was measured."""

    frontiers: dict[str, Frontier] = field(default_factory=dict)
    fine: set[tuple[str, int]] = field(default_factory=set)
    """(template, pool size) pairs that were measured with full effort."""
    correction: dict[str, float] = field(default_factory=dict)
    """Factor by which fleet simulations corrected a template's frontier."""
    held: dict[str, float] = field(default_factory=dict)
    """Largest load of one unit, requests per second, at which a simulated fleet kept all."""
    refuted: dict[str, float] = field(default_factory=dict)
    """Smallest load of one unit at which a simulated fleet did not."""

    def believed(self) -> dict[str, Frontier]:
        """Return the frontiers with their corrections."""
        return {j: f.scaled(self.correction.get(j, 1.0)) for j, f in self.frontiers.items()}

    def capacity(self, j: str) -> float:
        """Return the believed capacity of one unit, requests per second."""
        return self.frontiers[j].capacity_rps.value * self.correction.get(j, 1.0)

    def believe(self, j: str, capacity_rps: float) -> None:
        """Correct a template so that its capacity is believed to be this."""
        self.correction[j] = capacity_rps / self.frontiers[j].capacity_rps.value

    def believe_below(self, j: str, load_rps: float, share: float) -> None:
        """Lower a capacity below a load that was refuted: halfway to one that held, if any."""
        load = min(load_rps, self.capacity(j))
        self.refuted[j] = min(load, self.refuted.get(j, load))
        held = self.held.get(j, 0.0)
        between = math.sqrt(held * load) if held < load else 0.0
        self.believe(j, between or load * (1 - share))

    def believe_above(self, j: str, load_rps: float, share: float) -> None:
        """Raise a capacity above a load that held: halfway to one that was refuted, if any."""
        self.held[j] = max(load_rps, self.held.get(j, load_rps))
        refuted = self.refuted.get(j, 0.0)
        between = math.sqrt(load_rps * refuted) if refuted > load_rps else 0.0
        self.believe(j, max(between or load_rps * (1 + share), self.capacity(j)))

    def is_fine(self, j: str, size: int) -> bool:
        """Tell whether a template was measured with full effort at about this size."""
        return any(j == k and abs(n - size) <= SAME_SIZE * size for k, n in self.fine)
