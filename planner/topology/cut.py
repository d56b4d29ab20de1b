"""Cuts: rows on counts of replicas that every fleet keeps which has a place on the nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Part = tuple[str, int, int]
"""Accelerator, devices of a replica, and such replicas in a unit."""


@dataclass(frozen=True, slots=True)
class Bound:
    """At most ``most`` of what is counted: replicas by their size, or units of one group.

    A larger replica can stand nowhere where a smaller one could not, so a replica of a size that
    is not listed weighs as much as the largest that is listed and no larger.
    """

    most: int
    reach: int
    """What no fleet that has a place is above, whatever else holds."""
    accelerator: str = ""
    weights: tuple[tuple[int, int], ...] = ()
    """By devices of a replica of the accelerator, ascending, and by weight too; smaller ones
    weigh nothing."""
    alone: bool = False
    """Whether replicas in groups are left out."""
    group: str | None = None
    """Units of this group are counted instead, each as one."""
    regions: frozenset[str] | None = None
    """Only what may stand nowhere but in these is counted; all where None."""
    just: bool = False
    """Whether only what may stand in just ``regions`` is counted, no more and no fewer."""

    def weight_of(
        self,
        parts: Iterable[Part],
        group: str | None = None,
        regions: frozenset[str] | None = None,
    ) -> int:
        """Return what a unit weighs.

        Args:
            parts: Its replicas.
            group: The name of its group, where it is one.
            regions: In which it may stand; None: any.
        """
        if self.group is not None:
            return int(self.group == group)
        if self.just and regions != self.regions:
            return 0
        if self.regions is not None and (regions is None or not regions <= self.regions):
            return 0
        if self.alone and group is not None:
            return 0
        return sum(n * self._weight(size) for g, size, n in parts if g == self.accelerator)

    def _weight(self, devices: int) -> int:
        return max((weight for least, weight in self.weights if least <= devices), default=0)


@dataclass(frozen=True, slots=True)
class Cut:
    """Of these bounds every fleet that has a place keeps at least one."""

    any_of: tuple[Bound, ...]
    reason: str
    """Of the fleet for which it was found: what it lacked, in words."""
