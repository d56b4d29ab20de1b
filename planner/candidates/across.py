"""Replicas that no scale-up domain holds: over which network they would lie, or why they cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.candidates.template import Removed
from planner.curves.link import Across
from planner.topology import islands, link_between, link_class

if TYPE_CHECKING:
    from planner.topology import Domain, LinkClass, Topology


def most_joined(topology: Topology, accelerator: str) -> int:
    """Return the most free devices of one scale-up domain."""
    mine = [d for d in topology.domains if d.shape.accelerator == accelerator]
    return max((free for d in mine for free, _ in islands(d)), default=0)


def lies_across(topology: Topology | None, accelerator: str, devices: int) -> bool:
    """Tell whether a tensor-parallel group lies over several scale-up domains."""
    return topology is not None and devices > most_joined(topology, accelerator)


def way_across(
    topology: Topology, name: str, accelerator: str, devices: int
) -> Across | Removed | None:
    """Return the network of a tensor-parallel group; None where one scale-up domain holds it.

    Args:
        topology: Where everything stands.
        name: Of what is left out, if it is.
        accelerator: Its id.
        devices: Of the group, all stages left aside.

    Returns:
        The slowest network of the places that could hold it, or why none can.
    """
    most = most_joined(topology, accelerator)
    if devices <= most:
        return None
    if not topology.tp_may_cross or most == 0:
        why = f"needs {devices} devices of one scale-up domain; the topology's have {most} free"
        return Removed(name, why, {"free_devices": float(most)})
    parts = -(-devices // most)
    ways = [
        (rate, link.latency_s)
        for d in topology.domains
        if d.shape.accelerator == accelerator and dict(islands(d)).get(most, 0) >= parts
        if (link := _link(topology, d)) is not None and (rate := _share(topology, d, link)) > 0
    ]
    if not ways:
        why = (
            f"needs {parts} scale-up domains with {most} free devices in one place, linked to each"
            " other; the topology has none"
        )
        return Removed(name, why, {"free_devices": float(most)})
    rate, latency_s = min(ways, key=lambda way: (way[0], -way[1]))
    return Across(parts, rate, latency_s)


def _link(topology: Topology, d: Domain) -> LinkClass | None:
    return link_class(topology, "node", d, d) if d.nodes == 1 else link_between(topology, d, d)


def _share(topology: Topology, d: Domain, link: LinkClass) -> float:
    """Return what a device has of a link when all of its node send, as members share it out."""
    if link.transport == "pcie":
        return link.bytes_per_s
    network = topology.networks.get(link.level)
    over = network.oversubscription if network is not None else 1.0
    return link.bytes_per_s / d.shape.devices / over
