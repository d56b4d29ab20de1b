"""Where a plan's replicas stand, as a table."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from planner.reporting.layout import grid, heading, plain
from planner.topology import place_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from planner.fleet import FleetPlan
    from planner.topology import Domain

FEW: Final = 3
"""Empty racks that are alike are told one by one up to so many, then together."""


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
    empty = Counter(_kind(d) for d in plan.topology.domains if d.id not in used)
    for domain in plan.topology.domains:
        alike = 0 if domain.id in used else empty[_kind(domain)]
        if alike > FEW:
            rows.append(_together(domain, alike))
            empty[_kind(domain)] = -1  # told
        if alike > FEW or alike < 0:
            continue
        here = racks.get(domain.id, {})
        what = "\n".join(f"{len(n)} × {pool}" for pool, n in sorted(here.items())) or "nothing"
        where = f"{place_at(domain, 'zone')} {domain.rack or ''}".rstrip()
        share = f"{used.get(domain.id, 0)} of {domain.free_devices} {domain.shape.accelerator}"
        rows.append((where, str(domain.nodes), share, what))
    yield grid(("place", ">nodes", ">used", "replicas"), rows)
    yield plain("node by node: planner explain PLAN --draw FILE.html")


def _kind(domain: Domain) -> tuple[str, str, int, int]:
    """Tell apart what an empty rack can be told by."""
    shape = domain.shape
    return place_at(domain, "zone"), shape.accelerator, domain.nodes, domain.free_devices


def _together(domain: Domain, count: int) -> tuple[str, ...]:
    """Write empty racks that are like this one in a row."""
    zone, accelerator, nodes, free = _kind(domain)
    return (
        f"{zone}, {count:,} racks like {domain.rack or domain.id}",
        str(nodes * count),
        f"0 of {free * count} {accelerator}",
        "nothing",
    )
