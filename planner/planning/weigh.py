"""Prefill and decode together or apart, weighed for one scenario, and nothing else asked of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from planner.planning.answer import Found, searched
from planner.planning.apart import either_way, lines_between
from planner.planning.refine import LIMIT_ENDED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.candidates.frontier import Frontier
    from planner.catalogue import Catalogue
    from planner.planning.clock import Clock
    from planner.planning.fleet import Fleet
    from planner.planning.teller import Teller
    from planner.scenario.load import LoadedScenario
    from planner.simulation.effort import Effort


@dataclass(frozen=True, slots=True)
class Weighed:
    """What either way costs, USD/h; None where it keeps not every promise."""

    together: float | None = None
    apart: float | None = None
    fluid_together: float | None = None
    """If units could be cut."""
    fluid_apart: float | None = None
    plan: float | None = None
    """The best fleet of all, both ways mixed if that is cheaper."""
    pools: tuple[str, ...] = ()
    """Of that fleet, such as ``2 x TEMPLATE``."""
    verified: bool = False
    """Its promises were kept in a simulation of the whole fleet."""
    why: str = ""
    """Why there is no fleet, or why it is not settled."""
    lines: Mapping[str, float] = field(default_factory=dict)
    """The difference line by line, where both ways are there and it was asked for."""


def weigh(
    loaded: LoadedScenario,
    catalogue: Catalogue,
    effort: Effort | None,
    clock: Clock,
    tell: Teller,
    *,
    lines: bool,
) -> Weighed:
    """Find the cheapest fleets of either way for a scenario whose objective is the least cost.

    Args:
        loaded: The scenario; it states a link.
        catalogue: Facts.
        effort: How much to simulate; what suits the kernel if left out.
        clock: The time that is left.
        tell: Told what is being done.
        lines: Split the difference too.

    Raises:
        InputError: The scenario cannot be answered.
        LimitReachedError: The time was over before there was a fleet.
        KeyboardInterrupt: Somebody stopped the work.
    """
    found = searched(loaded, catalogue, effort, clock, tell)
    if not isinstance(found, Found):
        reasons = "; ".join(
            f"{x.limit}: {x.fastest_reachable or x.needs}" for x in found.infeasibility
        )
        return Weighed(why=reasons or "no fleet keeps every promise")
    refined = found.refined
    if refined.unsettled == LIMIT_ENDED and not clock.over:
        raise KeyboardInterrupt
    shown = refined.best or refined.last
    if shown is None:
        return Weighed(why=refined.unsettled or "no fleet keeps every promise")
    joint, apart = either_way(found.answer, refined, shown)
    split: dict[str, float] = {}
    if lines and joint is not None and apart is not None:
        split, _ = lines_between(found.answer, refined.frontiers, joint, apart)
    return Weighed(
        together=None if joint is None else joint.usd_per_hour,
        apart=None if apart is None else apart.usd_per_hour,
        fluid_together=_fluid(joint, refined.frontiers),
        fluid_apart=_fluid(apart, refined.frontiers),
        plan=shown.fleet.usd_per_hour,
        pools=tuple(f"{p.units} x {p.template.id}" for p in shown.fleet.pools),
        verified=shown is refined.best,
        why=refined.unsettled,
        lines=split,
    )


def _fluid(fleet: Fleet | None, frontiers: Mapping[str, Frontier]) -> float | None:
    """Return what a fleet would cost if units could be cut, USD/h."""
    if fleet is None:
        return None
    return sum(
        sum(p.load_rps)
        * p.template.build.usd_per_hour
        / frontiers[p.template.id].capacity_rps.value
        for p in fleet.pools
    )
