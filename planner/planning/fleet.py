"""A fleet as the planner handles it: pools of templates, each with its load."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.candidates.frontier import setup_of
from planner.planning.ways import clusters_of, link_flows, with_units
from planner.simulation.fleet import FleetPool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.candidates.frontier import Frontier
    from planner.candidates.template import Template
    from planner.planning.ways import TakenWay
    from planner.scenario.policies import Routing
    from planner.simulation.pool import PoolSetup


@dataclass(frozen=True, slots=True)
class PoolChoice:
    """Units of one template under their load, in requests per second by workload."""

    template: Template
    units: int
    load_rps: tuple[float, ...]
    places: tuple[tuple[str, int], ...] = ()
    """Units by the site of nodes in which they stand; none where supply is not whole nodes."""
    ways: tuple[TakenWay, ...] = ()
    """Between which nodes of a topology the groups of a pool stand, where their sides lie apart."""

    @property
    def load_per_unit(self) -> float:
        """All workloads together."""
        return sum(self.load_rps) / self.units


@dataclass(frozen=True, slots=True)
class Held:
    """Nodes that a fleet takes of a site."""

    site: str
    accelerator: str
    nodes: int
    """New ones; none where partly used nodes are enough."""
    usd_per_node_hour: float
    used: int
    """Devices that units have, in all nodes of the site."""

    @property
    def usd_per_hour(self) -> float:
        """Price of the nodes."""
        return self.nodes * self.usd_per_node_hour


@dataclass(frozen=True, slots=True)
class Fleet:
    """Pools that together take the whole offered load."""

    pools: tuple[PoolChoice, ...]
    held: tuple[Held, ...] = ()
    """Whole nodes, where supply is such."""
    moves: int = 0
    """Units started and stopped against those of today, where moves count."""
    moves_usd_per_hour: float = 0.0
    """What that costs, spread over the time that it is charged to."""

    @property
    def usd_per_hour(self) -> float:
        """Price of all units, or of the nodes in which they stand, and of moves."""
        units = sum(p.units * p.template.build.usd_per_hour for p in self.pools if not p.places)
        return units + sum(held.usd_per_hour for held in self.held) + self.moves_usd_per_hour

    @property
    def key(self) -> tuple[tuple[object, ...], ...]:
        """Equal for fleets that are simulated alike."""
        return tuple(
            (
                *(p.template.id, p.units, tuple(round(x, 9) for x in p.load_rps)),
                *((one.way.id, one.units, round(one.share, 9)) for one in p.ways),
            )
            for p in self.pools
        )

    def for_simulation(self, router: Routing) -> list[FleetPool]:
        """Return the pools as the simulation wants them."""
        flows = link_flows(self)
        return [FleetPool(_setup(p, router, flows), p.load_rps) for p in self.pools]


def _setup(
    pool: PoolChoice, router: Routing, flows: Mapping[str, tuple[float, float]]
) -> PoolSetup:
    setup = setup_of(pool.template.build, pool.units, router)
    if setup.group is None or not pool.ways:
        return setup
    return replace(setup, group=replace(setup.group, clusters=clusters_of(pool, flows)))


def fleet_of(
    units: Mapping[str, int],
    loads: Mapping[str, tuple[float, ...]],
    templates: Mapping[str, Template],
    rates_rps: Sequence[float],
    ways: Mapping[str, tuple[TakenWay, ...]] | None = None,
) -> Fleet:
    """Make a fleet of a solution's units and loads per template.

    Loads are scaled by workload so that they sum to the offered load exactly. A template
    without load is left out. ``ways``: on which the groups of a template stand, where they do.
    """
    used = [j for j, n in units.items() if n > 0 and sum(loads[j]) > 0]
    total = [sum(loads[j][w] for j in used) for w in range(len(rates_rps))]
    return Fleet(
        tuple(
            PoolChoice(
                templates[j],
                units[j],
                tuple(
                    loads[j][w] * rates_rps[w] / total[w] if total[w] > 0 else 0.0
                    for w in range(len(rates_rps))
                ),
                ways=(ways or {}).get(j, ()),
            )
            for j in sorted(used)
        )
    )


def with_one_less(
    fleet: Fleet, position: int, frontiers: Mapping[str, Frontier], rates_rps: Sequence[float]
) -> Fleet | None:
    """Return the fleet with one unit less of a pool, the load shared out anew.

    Each workload's load is divided over the pools that serve it in proportion to what they can
    carry; None if some workload is then served by nobody.
    """
    units = {
        p.template.id: p.units - (i == position)
        for i, p in enumerate(fleet.pools)
        if p.units - (i == position) > 0
    }
    templates = {p.template.id: p.template for p in fleet.pools}
    room = {j: n * frontiers[j].capacity_rps.value for j, n in units.items()}
    before = {p.template.id: p.load_rps for p in fleet.pools}
    loads: dict[str, list[float]] = {j: [0.0] * len(rates_rps) for j in units}
    for w, rate in enumerate(rates_rps):
        serving = {j: room[j] * before[j][w] / sum(before[j]) for j in units if before[j][w] > 0}
        if not serving:
            return None
        for j, part in serving.items():
            loads[j][w] = rate * part / sum(serving.values())
    ways = {
        p.template.id: with_units(p.ways, units[p.template.id])
        for p in fleet.pools
        if p.template.id in units
    }
    shared = {j: tuple(load) for j, load in loads.items()}
    return fleet_of(units, shared, templates, rates_rps, ways)
