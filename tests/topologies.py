"""Small topologies with nodes of eight devices."""

import itertools
from collections.abc import Iterator

from planner.topology import Domain, Link, Network, NodeGroup, NodeShape, Topology

FAST = Link(transport="scaleup", bytes_per_s=450e9, latency_s=1e-5)


def shape(accelerator: str = "h100-sxm", devices: int = 8, joined: int = 8) -> NodeShape:
    return NodeShape(
        accelerator=accelerator,
        devices=devices,
        scaleup_devices=joined,
        scaleup=FAST,
        network_bytes_per_s=400e9,
    )


def domain(
    zone: str, rack: str | None, *free: int, of: NodeShape | None = None, region: str = "eu"
) -> Domain:
    """A domain of one node per number of free devices."""
    kind = of or shape()
    return Domain(
        id=".".join(part for part in (zone, rack, kind.accelerator) if part),
        region=region,
        zone=zone,
        rack=rack,
        shape=kind,
        groups=tuple(_groups(free)),
    )


def _groups(free: tuple[int, ...]) -> Iterator[NodeGroup]:
    first = 0
    for devices, nodes in itertools.groupby(free):
        count = len(list(nodes))
        yield NodeGroup(first=first, nodes=count, free=devices)
        first += count


def topology(*domains: Domain, tp_may_cross: bool = False) -> Topology:
    near = Network(transport="rdma", bytes_per_s=400e9, latency_s=1e-5)
    far = Network(transport="tcp", bytes_per_s=3e9, latency_s=1e-3)
    return Topology(
        domains=domains,
        networks={"rack": near, "zone": near, "region": far, "world": None},
        tp_may_cross=tp_may_cross,
    )
