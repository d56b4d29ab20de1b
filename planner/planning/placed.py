"""The fleet of a plan on the nodes of its topology."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.fleet import Decision, PlacedReplica
from planner.planning.group_pools import wanted_of
from planner.topology import place_at

if TYPE_CHECKING:
    from planner.fleet import FleetPlan
    from planner.placement import Placed, Placement
    from planner.planning.fleet import Fleet
    from planner.problem.resolve import Problem
    from planner.topology import Topology


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a fleet stands; nothing where the scenario has no topology."""

    replicas: tuple[PlacedReplica, ...] = ()
    nodes: int | None = None
    """Nodes that run something."""
    decisions: tuple[Decision, ...] = ()
    notes: tuple[str, ...] = ()
    why_not: str = ""
    """Why the fleet cannot be placed, if it cannot."""


def stand(problem: Problem, fleet: Fleet, current: FleetPlan | None) -> Standing:
    """Place a fleet on the nodes of its topology.

    Args:
        problem: Has the topology.
        fleet: Pools and their units.
        current: What runs now; its replicas stay where they are as far as may be.
    """
    topology = problem.topology
    if topology is None:
        return Standing()
    said = (*topology.notes, *_on_the_way(problem))
    from planner.placement import NotPlaced, place  # the solver takes a second to load

    wanted = wanted_of(fleet, problem, at_ends=True)
    existing = _existing(topology, current)
    found = place(topology, wanted, existing, seed=problem.seed)
    if isinstance(found, NotPlaced):
        return Standing(notes=said, why_not=f"it cannot be placed: {found.reason}")
    domains = {d.id: d for d in topology.domains}
    replicas = tuple(
        PlacedReplica(
            pool=row.pool,
            replica=row.replica,
            domain=row.domain,
            node=domains[row.domain].node_name(row.node),
            devices=row.devices,
            unit=row.unit,
        )
        for row in found.placed
    )
    return Standing(
        replicas=replicas,
        nodes=len({row.node for row in replicas}),
        decisions=_decided(topology, found, moves=bool(existing)),
        notes=said,
    )


def _on_the_way(problem: Problem) -> tuple[str, ...]:
    """Say what of the deadlines the network takes."""
    return tuple(
        f"{w.demand.id}: {w.demand.network_s * 1e3:g} ms of every TTFT are the round trip to its"
        f" users; the fleet has {w.demand.slo.ttft * 1e3:g} ms"
        for w in problem.asked
        if w.demand.network_s
    )


def _existing(topology: Topology, current: FleetPlan | None) -> list[Placed]:
    """Read a former placement; what stands on nodes that are no longer there is left out."""
    from planner.placement import Placed

    numbers = {d.node_name(n): (d.id, n) for d in topology.domains for n in range(d.nodes)}
    return [
        Placed(row.pool, row.replica, *numbers[row.node], row.devices, row.unit)
        for row in (current.placement if current is not None else ())
        if row.node in numbers
    ]


def _decided(topology: Topology, found: Placement, *, moves: bool) -> tuple[Decision, ...]:
    domains = {d.id: d for d in topology.domains}
    zones: Counter[str] = Counter()
    for row in found.placed:
        zones[place_at(domains[row.domain], "zone")] += len(row.devices)
    held = ", ".join(f"{n} in {zone}" for zone, n in sorted(zones.items()))
    because = "no zone and no rack holds more replicas of a pool than it must"
    if not found.proven:
        because += ", as far as was found in the effort"
    spread = Decision(
        question="where do replicas stand?",
        answer=f"accelerators: {held}",
        because=f"{because}; then as few nodes as possible are opened",
        numbers={f"accelerators in {zone}": float(n) for zone, n in sorted(zones.items())},
    )
    if not moves:
        return (spread,)
    moved = Decision(
        question="what has to move?",
        answer=f"{found.moved} of the replicas that run now and are still wanted",
        because="what runs stays on its devices unless something wanted would have no place",
        numbers={"moved": float(found.moved)},
    )
    return (spread, moved)
