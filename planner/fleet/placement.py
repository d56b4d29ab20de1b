"""Where the replicas of a plan stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.fleet.figures import Count
from planner.spec import Spec, mistake

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from planner.topology import Topology


class PlacedReplica(Spec):
    """One replica on devices of one node; a replica over several nodes has several entries."""

    pool: str
    replica: Count
    """From 0."""
    domain: str
    """Nodes of one kind in one place; ``topology.domains`` of the plan has them."""
    node: str
    """Name of the node: the domain's, and the node's number from 1."""
    devices: tuple[int, ...]
    """Numbers in the node, from 0."""
    unit: Count | None = None
    """Which unit of its group it belongs to, where pools are grouped."""


def require_places(
    placement: Sequence[PlacedReplica], topology: Topology | None, pools: Set[str]
) -> None:
    """Require that every replica is one of a pool, on devices that the topology has.

    Raises:
        PydanticCustomError: One is not; blames its entry.
    """
    if placement and topology is None:
        raise mistake("names devices, but the plan has no topology", "placement")
    domains = {d.id: d for d in topology.domains} if topology is not None else {}
    for i, row in enumerate(placement):
        domain = domains.get(row.domain)
        if row.pool not in pools:
            raise mistake(f"no pool is called {row.pool!r}", "placement", i, "pool")
        if domain is None:
            raise mistake(f"no domain is called {row.domain!r}", "placement", i, "domain")
        number = row.node.removeprefix(f"{domain.id}.n")
        known = number.isdecimal() and len(number) < 10 and 1 <= int(number) <= domain.nodes
        if not known or row.node != domain.node_name(int(number) - 1):
            what = f"{domain.id} has no node {row.node!r}"
            raise mistake(what, "placement", i, "node")
        if not all(0 <= device < domain.shape.devices for device in row.devices):
            what = f"a node of {domain.id} has devices 0 to {domain.shape.devices - 1}"
            raise mistake(what, "placement", i, "devices")
