"""Scale-up domains one by one, with what already runs in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from planner.placement.wanted import Placed, Wanted
    from planner.topology import Domain, Topology

Slot = tuple[int, int]
"""Node of a domain, and device of the node."""
Replica = tuple[str, int]
"""Pool, and number."""
Kind = tuple[str, int, tuple[str, ...]]
"""Domain, free devices, and the pools of what may stay: such islands are interchangeable."""


@dataclass(frozen=True, slots=True)
class Island:
    """Devices that reach one another over the scale-up link."""

    domain: Domain
    slots: tuple[Slot, ...]
    """Free ones, in order."""
    existing: tuple[tuple[Replica, tuple[Slot, ...]], ...] = ()
    """Replicas that may stay, by pool and number, with their devices."""

    @property
    def kind(self) -> Kind:
        """Islands of one kind are interchangeable."""
        pools = tuple(replica[0] for replica, _ in self.existing)
        return (self.domain.id, len(self.slots), pools)


def all_islands(
    topology: Topology, wanted: Sequence[Wanted], existing: Iterable[Placed]
) -> tuple[Island, ...]:
    """Return every scale-up domain with free devices, in the order of the topology."""
    wishes = {w.pool: w for w in wanted}
    held = _held(existing)
    found = []
    for domain in topology.domains:
        for slots in _slots(domain):
            mine = set(slots)
            staying = []
            for replica, places in held.get(domain.id, {}).items():
                wish = wishes.get(replica[0])
                if wish is None or not mine.issuperset(places) or wish.devices != len(places):
                    continue
                right = wish.accelerator == domain.shape.accelerator
                near = wish.regions is None or domain.region in wish.regions
                if right and near and wish.domain in (None, domain.id):
                    staying.append((replica, places))
            found.append(Island(domain, slots, tuple(sorted(staying))))
    return tuple(found)


def _held(existing: Iterable[Placed]) -> Mapping[str, dict[Replica, tuple[Slot, ...]]]:
    """Gather the devices of each replica by domain; of two that overlap the later is dropped."""
    held: dict[str, dict[Replica, tuple[Slot, ...]]] = {}
    taken: set[tuple[str, Slot]] = set()
    for row in sorted(existing):
        slots = tuple((row.node, device) for device in row.devices)
        mine = {(row.domain, slot) for slot in slots}
        if len(mine) < len(slots) or mine & taken:
            continue
        taken |= mine
        here = held.setdefault(row.domain, {})
        key = (row.pool, row.replica)
        here[key] = (*here.get(key, ()), *slots)
    return held


def _slots(domain: Domain) -> Iterator[tuple[Slot, ...]]:
    shape = domain.shape
    for group in domain.groups:
        taken = shape.devices - group.free
        nodes = range(group.first, group.first + group.nodes)
        if group.free == 0:
            continue
        per = shape.nodes_per_island
        if per > 1:
            for i in range(0, group.nodes, per):
                yield tuple((n, x) for n in nodes[i : i + per] for x in range(taken, shape.devices))
            continue
        for node in nodes:
            for start in range(0, shape.devices, shape.scaleup_devices):
                free = range(max(start, taken), start + shape.scaleup_devices)
                if free:
                    yield tuple((node, device) for device in free)
