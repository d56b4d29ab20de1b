"""Fleets in whole nodes: which units stand where, and which nodes that takes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.milp.nodes import Nodes, Spare
from planner.milp.packing import fewest_nodes
from planner.planning.fleet import Fleet, Held, PoolChoice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.candidates.template import Template
    from planner.problem.resolve import Problem
    from planner.problem.sites import Site

    Placed = Mapping[tuple[str, str], int]


def nodes_for(problem: Problem, templates: Mapping[str, Template]) -> Nodes | None:
    """Write down the nodes in which templates may stand; None where supply is not whole nodes."""
    sites = problem.sites
    if not sites.all:
        return None
    barred = {
        (j, site.id)
        for j, template in templates.items()
        for site in sites.all
        if any(
            regions is not None and site.region not in regions
            for regions in (problem.demands[w].regions for w in template.serves)
        )
    }
    return Nodes(
        accelerator_of={site.id: site.accelerator.id for site in sites.all},
        node_devices={site.id: site.devices for site in sites.all},
        usd_per_hour={site.id: site.usd_per_hour for site in sites.all},
        stock={site.id: site.stock for site in sites.all if site.stock is not None},
        free={site.id: site.free for site in sites.all if site.free},
        node_watts={site.id: site.watts for site in sites.all if site.watts is not None},
        power={name: (members, limit) for name, members, limit in sites.power},
        barred=frozenset(barred),
        spare=_spare(problem),
    )


def homes_for(problem: Problem) -> dict[str, tuple[str, ...]]:
    """List the sites at which each accelerator stands, where supply is whole nodes."""
    sites = problem.sites.all
    return {
        supply.accelerator.id: tuple(
            site.id for site in sites if site.accelerator.id == supply.accelerator.id
        )
        for supply in problem.supplies
        if sites
    }


def _spare(problem: Problem) -> Spare | None:
    spare = problem.sites.spare
    if spare is None:
        return None
    return Spare(
        count=spare.count,
        floor={d.id: floor_of(problem, w) for w, d in enumerate(problem.demands)},
        shed={d.id: spare.shed for d in problem.demands} if spare.shed else {},
        groups=dict(problem.sites.groups) if problem.sites.groups else None,
    )


def floor_of(problem: Problem, w: int) -> float:
    """Return the share of a workload's requests that must comply after a failure."""
    spare = problem.sites.spare
    if spare is None:
        return 0.0
    promise = problem.demands[w].slo.attainment
    return promise if spare.attainment is None else min(spare.attainment, promise)


def housed(problem: Problem, fleet: Fleet, placed: Placed) -> Fleet:
    """Return the fleet with its units in their places, in the fewest nodes that hold them.

    Args:
        problem: Has the nodes.
        fleet: Pools whose units are all placed.
        placed: Units of template j at site d, by (j, d).
    """
    if not problem.sites.all:
        return fleet
    pools = tuple(
        replace(p, places=tuple((d, n) for (j, d), n in placed.items() if j == p.template.id and n))
        for p in fleet.pools
    )
    held = []
    for site in problem.sites.all:
        nodes, used = _nodes_at(site, pools)
        if used:
            held.append(Held(site.id, site.accelerator.id, nodes, site.usd_per_hour, used))
    return Fleet(pools, tuple(held))


def _nodes_at(site: Site, pools: Sequence[PoolChoice]) -> tuple[int, int]:
    """Return the nodes that the units at a site take, and the devices in use."""
    groups: dict[int, int] = {}
    for pool in pools:
        size = pool.template.build.accelerators
        groups[size] = groups.get(size, 0) + dict(pool.places).get(site.id, 0)
    groups = {size: n for size, n in groups.items() if n}
    nodes = fewest_nodes(site.free, site.devices, groups)
    return nodes, sum(size * n for size, n in groups.items())


def without_one(problem: Problem, fleet: Fleet, less: Fleet, j: str) -> Fleet:
    """Return a fleet with one unit of a template less in its places: whose going saves most.

    Args:
        problem: Has the nodes.
        fleet: The fleet before.
        less: The fleet without the unit, not in places yet.
        j: The template of which a unit goes.
    """
    if not problem.sites.all:
        return less
    placed = {(p.template.id, d): n for p in fleet.pools for d, n in p.places}
    ways = [
        housed(problem, less, {**placed, (j, d): n - 1}) for (i, d), n in placed.items() if i == j
    ]
    return min(ways, key=lambda one: one.usd_per_hour)


def placed_of(fleet: Fleet) -> dict[tuple[str, str], int]:
    """Return units by template and site."""
    return {(p.template.id, d): n for p in fleet.pools for d, n in p.places}
