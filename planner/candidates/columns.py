"""What is known of every template: measured, or at most some load.

A template that was not measured stands in the program as one that meets every deadline up to
a load which it cannot, or was seen not to, carry: an optimist's column. A program that holds all
of these is no worse than any fleet of any of the templates, measured or not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from planner.candidates.frontier import Frontier, OperatingPoint
from planner.simulation.interval import Estimate

if TYPE_CHECKING:
    from planner.candidates.meanfield import CoarseCapacity
    from planner.candidates.template import Template

HOPE: Final = 1.04
"""How much more than a short search found a template is still given."""


def pool_size(template: Template, rate_rps: float) -> int:
    """Return the units that would serve all of a template's demand at a load of one."""
    return max(1, round(sum(template.mix_rps) / rate_rps))


@dataclass(frozen=True, slots=True)
class Column:
    """One template, and how much it can carry at most, so far as is known."""

    template: Template
    bound: CoarseCapacity
    """In mean-field steady state: no simulation yet."""
    most_rps: float
    """Load that one unit cannot carry, or barely, requests per second, all workloads together."""
    because: str
    """What says so."""
    searched: bool = False
    """Whether ``most_rps`` is from a short search for its capacity."""
    frontier: Frontier | None = None
    """Once it is measured."""
    dead: bool = False
    """It keeps the promise at no load."""

    @property
    def open(self) -> bool:
        """Whether it might be better than is known."""
        return self.frontier is None and not self.dead

    @property
    def usd_per_request(self) -> float:
        """Price of a unit over the most that it can carry."""
        return self.template.build.usd_per_hour / 3600 / self.most_rps

    @property
    def pool_size(self) -> int:
        """Units that would serve all of the template's demand at that load."""
        return pool_size(self.template, self.most_rps)

    def at(self, load_rps: float) -> tuple[float, ...]:
        """Return a total load by workload, in the template's mix."""
        total = sum(self.template.mix_rps)
        return tuple(rate * load_rps / total for rate in self.template.mix_rps)

    def at_most(self, load_rps: float, because: str, *, searched: bool = False) -> Column:
        """Return the column with a lower limit, if it is one."""
        if load_rps >= self.most_rps:
            return replace(self, searched=self.searched or searched)
        return replace(self, most_rps=load_rps, because=because, searched=self.searched or searched)

    def hopeful(self) -> Frontier:
        """Return what was measured, or one point: the most, and every request compliant."""
        if self.frontier is not None:
            return self.frontier
        load = self.at(self.most_rps)
        most = Estimate(self.most_rps, self.most_rps, self.most_rps)
        return Frontier(self.template, self.pool_size, most, (OperatingPoint(load, load),), 0)
