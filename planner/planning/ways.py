"""Groups over shared links: the ways that the program gives them, and what each link then carries.

Where a scenario has a topology, each group whose sides do not lie in one scale-up domain stands on
a way from nodes to nodes. Links on ways are shared by all groups whose KV goes over them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from planner.milp.indices import ALONE
from planner.milp.links import Links
from planner.simulation.shared_links import LinkCluster

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.candidates.frontier import Frontier
    from planner.candidates.groups import Group
    from planner.milp import Choice
    from planner.planning.fleet import Fleet, PoolChoice
    from planner.problem.resolve import Problem
    from planner.simulation.pool import PoolRun
    from planner.topology import Way

NODES: Final = "node:"
"""Begins the names of links that stand for all nodes of a domain: each node has its own."""


@dataclass(frozen=True, slots=True)
class TakenWay:
    """Groups of a pool that stand on a way."""

    way: Way
    units: int
    share: float
    """Of the pool's load that comes to them; all shares sum to 1."""


def links_for(problem: Problem, frontiers: Mapping[str, Frontier]) -> Links | None:
    """Write down the links that groups share; None where none stands on a way."""
    ways: dict[str, tuple[str, ...]] = {}
    over, sent, held = {}, {}, {}
    carries: dict[str, float] = {}
    for j, frontier in frontiers.items():
        group = frontier.template.build.group
        if group is None or not group.ways:
            continue
        ways[j] = tuple(way.id for way in group.ways)
        for way in group.ways:
            over[j, way.id] = tuple(name for name, _ in way.shared)
            carries.update(way.shared)
            held[j, way.id] = held_on(group, way)
        for o, point in enumerate(frontier.points):
            sent[j, str(o)] = sum(point.load_rps) * group.kv_bytes_per_request
    if problem.topology is None or not ways:
        return None
    room = {(d.shape.accelerator, d.id): d.free_devices for d in problem.topology.domains}
    return Links(carries, ways, over, sent, held, room)


def held_on(group: Group, way: Way) -> dict[tuple[str, str], int]:
    """Return the accelerators that a group holds at the ends of a way, by type and domain."""
    found: dict[tuple[str, str], int] = {}
    for (build, n), domain in zip(group.sides, (way.source, way.target), strict=True):
        at = (build.accelerator, domain.id)
        found[at] = found.get(at, 0) + n * build.devices_per_replica
    return found


def ways_taken(
    problem: Problem, choice: Choice, frontiers: Mapping[str, Frontier]
) -> dict[str, tuple[TakenWay, ...]]:
    """Return the ways on which the groups of a solution stand, by template.

    Load is shared out evenly over groups, or as evenly as the links carry it.
    """
    links = links_for(problem, frontiers)
    if links is None:
        return {}
    most = {
        j: max(links.sent[j, str(o)] for o in range(len(frontiers[j].points))) for j in links.ways
    }
    units = {
        (j, p): choice.on.get((j, p, ALONE), 0) for j, ways in links.ways.items() for p in ways
    }
    flow = {
        (j, p): max(choice.flow.get((j, p, ALONE), 0.0), 0.0) * most[j] if n else 0.0
        for (j, p), n in units.items()
    }
    total = {j: sum(flow[j, p] for p in ways) for j, ways in links.ways.items()}
    many = {j: sum(units[j, p] for p in ways) for j, ways in links.ways.items()}
    even = {(j, p): total[j] * n / many[j] if n else 0.0 for (j, p), n in units.items()}
    t = _evenness(links, even, flow)
    found: dict[str, tuple[TakenWay, ...]] = {}
    for j, frontier in frontiers.items():
        group = frontier.template.build.group
        if group is None or not many.get(j):
            continue
        taken = []
        for way in group.ways:
            n, p = units[j, way.id], (j, way.id)
            share = (t * even[p] + (1 - t) * flow[p]) / total[j] if total[j] else n / many[j]
            if n:
                taken.append(TakenWay(way, n, share))
        found[j] = tuple(taken)
    return found


def _evenness(
    links: Links, even: Mapping[tuple[str, str], float], flow: Mapping[tuple[str, str], float]
) -> float:
    """Return how far flows may go towards even ones, from 0 to 1, before a link is full."""
    there: dict[str, tuple[float, float]] = {}
    for p, rate in even.items():
        for name in links.over[p]:
            now, then = there.get(name, (0.0, 0.0))
            there[name] = now + flow[p], then + rate
    return min(
        (
            max((links.carries[name] - now) / (then - now), 0.0)
            for name, (now, then) in there.items()
            if then > links.carries[name] > 0 and then > now
        ),
        default=1.0,
    )


def with_units(ways: Sequence[TakenWay], units: int) -> tuple[TakenWay, ...]:
    """Return ways for fewer groups: each goes from the way with most, and load is shared evenly."""
    left = list(ways)
    while left and sum(one.units for one in left) > units:
        most = max(range(len(left)), key=lambda i: left[i].units)
        left[most] = replace(left[most], units=left[most].units - 1)
    total = sum(one.units for one in left)
    return tuple(replace(one, share=one.units / total) for one in left if one.units)


def link_flows(fleet: Fleet) -> dict[str, tuple[float, float]]:
    """Return what goes over each link by the means of the prompts, and what it carries, bytes/s."""
    rates: dict[str, float] = {}
    flows: dict[str, float] = {}
    for pool in fleet.pools:
        for taken in pool.ways:
            for name, rate in taken.way.shared:
                rates[name] = rate
                flows[name] = flows.get(name, 0.0) + taken.share * sent_by(pool)
    return {name: (flow, rates[name]) for name, flow in flows.items()}


def sent_by(pool: PoolChoice) -> float:
    """Return what a pool of groups sends by the means of its prompts, bytes per second."""
    group = pool.template.build.group
    return 0.0 if group is None else sum(pool.load_rps) * group.kv_bytes_per_request


def clusters_of(
    pool: PoolChoice, flows: Mapping[str, tuple[float, float]]
) -> tuple[LinkCluster, ...]:
    """Return how the groups of a pool share links: each way by the link that is narrowest for it.

    Groups on one way share what a node sends with those on the same node, and a rack's or a zone's
    link with all that cross it. What groups of other pools send over that, in the mean, is taken
    off it; groups of this pool are simulated together.

    Args:
        pool: Groups on their ways.
        flows: Of the whole fleet (:func:`link_flows`).
    """
    group = pool.template.build.group
    if group is None or not pool.ways:
        return ()
    alone = group.link.bandwidth
    found: dict[str, LinkCluster] = {}
    for taken in pool.ways:
        on_a_node = min(group.on_a_node, taken.units)
        name, each, on_it, carries = f"{NODES}{taken.way.id}", alone / on_a_node, on_a_node, alone
        for link, rate in taken.way.shared:
            if link.startswith(NODES):
                continue
            mine = [other for other in pool.ways if link in dict(other.way.shared)]
            own = sum(other.share for other in mine) * sent_by(pool)
            left = max(rate - (flows[link][0] - own), own)
            crossing = sum(other.units for other in mine)
            if left / crossing < each:
                name, each, on_it, carries = link, left / crossing, crossing, left
        before = found.get(name)
        found[name] = LinkCluster(
            taken.units + (before.units if before else 0),
            taken.share + (before.share if before else 0.0),
            on_it,
            carries / alone,
        )
    return tuple(found.values())


def simulated_flows(fleet: Fleet, runs: Sequence[Sequence[PoolRun]]) -> dict[str, float]:
    """Return what went over each link in a simulation of a fleet, bytes per second.

    Args:
        fleet: Pools, some of groups on ways.
        runs: Their replications, by pool.
    """
    flows: dict[str, float] = {}
    for pool, own in zip(fleet.pools, runs, strict=True):
        shares = [run.group for run in own if run.group is not None]
        group = pool.template.build.group
        if group is None or not pool.ways or not shares:
            continue
        tokens = sum(sum(s.tokens_per_s) for s in shares) / len(shares)
        for taken in pool.ways:
            sent = tokens * group.kv_bytes_per_token * taken.share
            for name, _ in taken.way.shared:
                flows[name] = flows.get(name, 0.0) + sent
    return flows
