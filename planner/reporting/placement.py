"""Where a plan's replicas stand, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.reporting.layout import grid, heading, plain
from planner.topology import place_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from planner.fleet import FleetPlan


def placement_table(plan: FleetPlan) -> Iterator[RenderableType]:
    """Lay out how many replicas of each pool every rack holds; nothing without a placement."""
    if plan.topology is None or not plan.placement:
        return
    racks: dict[str, dict[str, set[int]]] = {}
    used: dict[str, int] = {}
    for row in plan.placement:
        racks.setdefault(row.domain, {}).setdefault(row.pool, set()).add(row.replica)
        used[row.domain] = used.get(row.domain, 0) + len(row.devices)
    yield heading("Placement")
    rows = []
    for domain in plan.topology.domains:
        here = racks.get(domain.id, {})
        what = "\n".join(f"{len(n)} × {pool}" for pool, n in sorted(here.items())) or "nothing"
        where = f"{place_at(domain, 'zone')} {domain.rack or ''}".rstrip()
        share = f"{used.get(domain.id, 0)} of {domain.free_devices} {domain.shape.accelerator}"
        rows.append((where, str(domain.nodes), share, what))
    yield grid(("place", ">nodes", ">used", "replicas"), rows)
    yield plain("node by node: planner explain PLAN --draw FILE.html")
