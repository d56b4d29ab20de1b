"""What may change against the fleet that runs now, and at what price."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from planner.errors import Where
    from planner.fleet import FleetPlan
    from planner.problem.sites import Sites
    from planner.scenario.load import LoadedScenario

    Mistakes = list[tuple["Where | str", str]]

MOST_COUNTED: Final = 100_000
"""Units of today from which moves are counted: with more, one start or stop is lost among a
solver's tolerances."""


@dataclass(frozen=True, slots=True)
class Moving:
    """Units of today, and what starting and stopping them may come to."""

    current: tuple[tuple[str, str, int], ...]
    """Template, site (empty where supply is not whole nodes) and units."""
    most: int | None
    """Units that may be started and stopped, together."""
    usd_each: float = 0.0
    """Of one start or stop."""
    over_hours: float = 1.0
    """Hours over which that is spread."""

    @property
    def usd_per_hour(self) -> float:
        """Cost of one start or stop, USD/h."""
        return self.usd_each / self.over_hours


def moving_of(
    loaded: LoadedScenario, running: FleetPlan | None, sites: Sites, mistakes: Mistakes
) -> Moving | None:
    """Read what counts of moves; None where none do. A plan without a fleet is a mistake."""
    limits, cost = loaded.scenario.limits, loaded.scenario.move_cost
    if (limits.moves is None and cost is None) or running is None:
        return None
    found: Counter[tuple[str, str]] = Counter()
    for pool in running.pools:
        if pool.role == "decode":
            continue
        name, units = pool.group or pool.id, pool.groups or pool.replicas
        if not sites.all:
            found[name, ""] += units
            continue
        if sum(place.replicas for place in pool.places) != units:
            what = (
                f"current_plan: its pool {pool.id} does not say in which nodes its replicas"
                " stand, from which moves are counted; begin with a plan in nodes"
            )
            mistakes.append((loaded.at("current_plan"), what))
            return None
        for place in pool.places:
            found[name, place.domain] += place.replicas
    if not found:
        what = "current_plan: it has no fleet from which moves could be counted; name one that has"
        mistakes.append((loaded.at("current_plan"), what))
        return None
    if sum(found.values()) > MOST_COUNTED:
        what = (
            f"current_plan: it has more than {MOST_COUNTED:,} replicas, beyond which moves are not"
            " counted; leave limits.moves and move_cost out"
        )
        mistakes.append((loaded.at("current_plan"), what))
        return None
    return Moving(
        tuple((j, d, n) for (j, d), n in found.items()),
        limits.moves,
        *((cost.price, cost.over / 3600) if cost is not None else ()),
    )
