"""Over which links two sides of a group may meet: one that is stated, or those of a topology."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from planner.scenario.disaggregation import KvLink
from planner.topology import islands, ways_between, within_island

if TYPE_CHECKING:
    from planner.candidates.template import Build
    from planner.problem.resolve import Problem
    from planner.scenario.disaggregation import Transport
    from planner.topology import Level, LinkClass, Topology, Way

TRANSPORTS: Final[dict[str, Transport]] = {
    "scaleup": "nvlink",
    "pcie": "pcie",
    "rdma": "rdma",
    "tcp": "tcp",
}
"""A topology's word for what carries bytes, and that of a group's link."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """A link between two sides, and where they stand."""

    link: KvLink
    """Of one group alone."""
    level: Level | None = None
    """Nearest common place; None where the scenario states a link and no places."""
    ways: tuple[Way, ...] = ()
    """Between which domains; none within a scale-up domain."""


Sides = tuple[tuple["Build", int], tuple["Build", int]]
"""Prefill, then decode: a build, and replicas in a group."""


def meetings_of(problem: Problem, sides: Sides) -> tuple[Meeting, ...]:
    """Return the links over which the sides of a group may meet, nearest first."""
    policy, topology = problem.policies.disaggregation, problem.topology
    assert policy is not None  # the caller looks for groups
    if policy.link is not None:
        return (Meeting(policy.link),)
    if topology is None:
        return ()
    (first, n_first), (then, n_then) = sides
    found = []
    devices = n_first * first.devices_per_replica + n_then * then.devices_per_replica
    near = within_island(topology, first.accelerator, devices)
    if near is not None and first.accelerator == then.accelerator:
        ranks = min(first.devices_per_replica, then.devices_per_replica)
        found.append(Meeting(_link(near, policy.sharing, ranks), "scaleup"))
    for level, ways in ways_between(topology, first.accelerator, then.accelerator).items():
        slowest = min((way.link for way in ways), key=lambda link: link.bytes_per_s)
        narrowest = min((rate for way in ways for _, rate in way.shared), default=math.inf)
        rate = min(slowest.bytes_per_s, narrowest)
        found.append(Meeting(_link(slowest, policy.sharing, 1, rate), level, ways))
    wanted = policy.meet
    return tuple(m for m in found if wanted is None or m.level in wanted)


def _link(
    link: LinkClass, sharing: Literal["fifo", "fair"], ranks: int, rate: float | None = None
) -> KvLink:
    """Return a link class as the link of a group.

    Args:
        link: Of the topology.
        sharing: Of transfers.
        ranks: Devices that send at once, each over its own link.
        rate: Where another is the bottleneck, bytes per second.
    """
    return KvLink.model_construct(
        bandwidth=(link.bytes_per_s if rate is None else rate) * ranks,
        latency=link.latency_s,
        transport=TRANSPORTS[link.transport],
        sharing=sharing,
    )


def on_a_node(problem: Problem, meeting: Meeting, sides: Sides) -> int:
    """Return how many groups may share what one node sends or takes in.

    As many as have a side on one node, where nodes are filled with that side.
    """
    if problem.topology is None or not meeting.ways:
        return 1
    most = 1
    for build, n in sides:
        devices = problem.topology.shape_of(build.accelerator).devices
        most = max(most, devices // (n * build.devices_per_replica))
    return most


def room_for(topology: Topology, meeting: Meeting, sides: Sides, bytes_per_s: float) -> float:
    """Return at most how many groups find room and links at a meeting.

    Args:
        topology: Nodes and links.
        meeting: Where the sides meet.
        sides: What stands there.
        bytes_per_s: What a group sends.
    """
    (first, n_first), (then, n_then) = sides
    p, d = n_first * first.devices_per_replica, n_then * then.devices_per_replica
    if not meeting.ways:
        mine = [o for o in topology.domains if o.shape.accelerator == first.accelerator]
        return sum(count * (size // (p + d)) for o in mine for size, count in islands(o))
    sources = {way.source.id: way.source.free_devices for way in meeting.ways}
    targets = {way.target.id: way.target.free_devices for way in meeting.ways}
    both = sum(({**sources, **targets}).values())
    places = min(
        sum(n // p for n in sources.values()),
        sum(n // d for n in targets.values()),
        both // (p + d),
    )
    outs = {name: rate for way in meeting.ways for name, rate in way.shared[-2:-1]}
    return min(places, sum(outs.values()) / bytes_per_s) if outs else places
