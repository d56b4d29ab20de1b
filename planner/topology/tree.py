"""What the places of two domains say: their nearest common place, the link, what it carries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from planner.topology.document import Domain, Level, Topology

_HOPS: Final[tuple[Level, ...]] = ("rack", "zone", "region", "world")


@dataclass(frozen=True, slots=True)
class LinkClass:
    """What KV between two units is moved over."""

    id: str
    """Level and transport, such as ``zone-rdma``; ``scaleup`` over the devices' own link."""
    level: Level
    transport: str
    bytes_per_s: float
    """Of one node (within a scale-up domain: of one device), one direction, alone on the link."""
    latency_s: float


def place_at(domain: Domain, level: Level) -> str:
    """Return the name of the place of a level that a domain lies in, such as ``us/us-a/r1``.

    A domain whose rack is not known is a rack of its own. Levels below a rack name the domain.
    """
    rack = domain.rack if domain.rack is not None else f"({domain.id})"
    path = (domain.region, domain.zone, rack)
    return {
        "world": "world",
        "region": domain.region,
        "zone": "/".join(path[:2]),
        "rack": "/".join(path),
    }.get(level, domain.id)


def common_level(one: Domain, other: Domain) -> Level:
    """Return the level of the nearest common place of *different* nodes of two domains.

    Nodes of one domain meet in their rack, or in their zone where racks are not told apart; those
    of one rack-wide scale-up domain meet in that.
    """
    if one.id == other.id:
        if one.nodes > 1 and one.shape.nodes_per_island >= one.nodes:
            return "scaleup"
        return "rack" if one.rack is not None else "zone"
    if one.rack is not None and place_at(one, "rack") == place_at(other, "rack"):
        return "rack"
    if place_at(one, "zone") == place_at(other, "zone"):
        return "zone"
    return "region" if one.region == other.region else "world"


def link_between(topology: Topology, one: Domain, other: Domain) -> LinkClass | None:
    """Return the link between different nodes of two domains; None where nothing is moved."""
    return link_class(topology, common_level(one, other), one, other)


def link_class(topology: Topology, level: Level, one: Domain, other: Domain) -> LinkClass | None:
    """Return the link of a level between nodes of two domains; None where nothing is moved.

    Args:
        topology: Has the links.
        level: Nearest common place. ``scaleup`` and ``node`` mean the same node or scale-up
            domain, of the first of the two.
        one: Where bytes come from.
        other: Where they go.
    """
    if level == "scaleup":
        link = one.shape.scaleup
        name = "scaleup" if link.transport == "scaleup" else "scaleup-pcie"
        return LinkClass(name, level, link.transport, link.bytes_per_s, link.latency_s)
    if level == "node":
        return _host(one)
    network = topology.networks[level]
    if network is None:
        return None
    ends = (network.bytes_per_s, one.shape.network_bytes_per_s, other.shape.network_bytes_per_s)
    known = [rate for rate in ends if rate is not None]
    if not known:
        return None
    name = f"{level}-{network.transport}"
    return LinkClass(name, level, network.transport, min(known), network.latency_s)


def _host(domain: Domain) -> LinkClass:
    """Between scale-up domains of one node: PCIe or, where devices have a faster link, its network.

    A node's network is behind the same PCIe switches, so it is the rate that is known.
    """
    shape = domain.shape
    link, network = shape.scaleup, shape.network_bytes_per_s
    if link.transport == "pcie" or network is None:
        return LinkClass(
            f"node-{link.transport}", "node", link.transport, link.bytes_per_s, link.latency_s
        )
    return LinkClass("node-rdma", "node", "rdma", network, link.latency_s)


def domains_under(topology: Topology, level: Level, place: str) -> tuple[Domain, ...]:
    """Return the domains that lie in a place, by its level and name (:func:`place_at`)."""
    return tuple(d for d in topology.domains if place_at(d, level) == place)


def bytes_per_s_out(topology: Topology, level: Level, place: str) -> float | None:
    """Return what all nodes of a place together can send out of it (as much comes in).

    Args:
        topology: Has domains and links.
        level: Of the place: ``node`` (a domain's nodes, each on its own), ``rack``, ``zone`` or
            ``region``.
        place: Its name (:func:`place_at`).

    Returns:
        Bytes per second: what its nodes can send, divided by the oversubscription of the level
        above. 0 where that level has no link, None where no rate is known.
    """
    above: Level = "rack" if level in ("scaleup", "node") else _HOPS[_HOPS.index(level) + 1]
    network = topology.networks[above]
    if network is None:
        return 0.0
    total = 0.0
    for domain in domains_under(topology, level, place):
        ends = (network.bytes_per_s, domain.shape.network_bytes_per_s)
        known = [rate for rate in ends if rate is not None]
        if not known:
            return None
        total += domain.nodes * min(known)
    return total / network.oversubscription


def transfer_s(link: LinkClass, size_bytes: float, sharing: float = 1.0) -> float:
    """Return how long bytes take over a link.

    Args:
        link: What they are moved over.
        size_bytes: How many.
        sharing: Transfers at the same time that share the rate evenly, 1 or more.
    """
    return link.latency_s + size_bytes * sharing / link.bytes_per_s


def islands(domain: Domain) -> tuple[tuple[int, int], ...]:
    """Return the scale-up domains of a domain as (free devices, how many of them).

    They are what a tensor-parallel replica must fit in. Of a partly used node the last devices
    are free, so the last of its scale-up domains are.
    """
    shape = domain.shape
    found: dict[int, int] = {}
    for group in domain.groups:
        if shape.nodes_per_island > 1:
            size = shape.nodes_per_island * group.free
            found[size] = found.get(size, 0) + group.nodes // shape.nodes_per_island
            continue
        left = group.free
        while left > 0:
            size = min(left, shape.scaleup_devices)
            found[size] = found.get(size, 0) + group.nodes
            left -= size
    return tuple(sorted(found.items(), reverse=True))
