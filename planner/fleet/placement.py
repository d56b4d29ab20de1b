"""Where the replicas of a plan stand."""

from __future__ import annotations

from planner.spec import Spec


class PlacedReplica(Spec):
    """One replica on devices of one node; a replica over several nodes has several entries."""

    pool: str
    replica: int
    """From 0."""
    domain: str
    """Nodes of one kind in one place; ``topology.domains`` of the plan has them."""
    node: str
    """Name of the node: the domain's, and the node's number from 1."""
    devices: tuple[int, ...]
    """Numbers in the node, from 0."""
    unit: int | None = None
    """Which unit of its group it belongs to, where pools are grouped."""
