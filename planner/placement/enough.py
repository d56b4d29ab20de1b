"""As many racks of each kind as could be used: the others need not be looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.topology import place_at

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence, Set

    from planner.placement.program import Item
    from planner.topology import Domain, Topology


def enough(topology: Topology, items: Sequence[Item], named: Iterable[str]) -> Topology:
    """Leave out racks that are like others and more than there are replicas to place.

    Every replica lies in one rack, so of racks that are alike no placement uses more than it has
    replicas. With so many of them each replica's even share of a rack is one, as it is with more:
    no goal is reached better with those that are left out.

    Args:
        topology: Where everything stands.
        items: What is placed.
        named: Domains that are like no other, for what stands in them already; those that an item
            must be in are too.
    """
    kept_anyway = {*named, *(i.domain for i in items if i.domain is not None)}
    racks: dict[str, list[Domain]] = {}
    for domain in topology.domains:
        racks.setdefault(place_at(domain, "rack"), []).append(domain)
    seen: dict[Hashable, int] = {}
    left_out: set[str] = set()
    for domains in racks.values():
        if any(d.id in kept_anyway for d in domains):
            continue
        kind = (
            place_at(domains[0], "zone"),
            domains[0].rack is None,
            tuple((d.shape, d.groups) for d in domains),
        )
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] > _could_be_in(items, {d.shape.accelerator for d in domains}):
            left_out.update(d.id for d in domains)
    if not left_out:
        return topology
    rest = tuple(d for d in topology.domains if d.id not in left_out)
    return topology.model_copy(update={"domains": rest})


def _could_be_in(items: Iterable[Item], accelerators: Set[str]) -> int:
    """Count what could lie in racks with these accelerators; at least one rack is kept."""
    return max(1, sum(i.count for i in items if i.accelerator in accelerators))
