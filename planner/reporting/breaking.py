"""The demand at which a promise breaks, and how sure it is, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.reporting.format import share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.fleet import BreakPoint, PromiseKept


def breaks(point: BreakPoint) -> str:
    """Say how much of the demand a promise bears."""
    if point.broken_at is None or point.attainment is None:
        return f"{point.workload}: kept up to × {point.kept_at:g}, the most that was tried"
    cause = f", mostly by {point.cause.replace('_', ' ')}" if point.cause else ""
    kept = "kept at none that was tried"
    if point.kept_at is not None:
        kept = f"kept at × {point.kept_at:g}"
    found = f"{share(point.attainment.value)} at × {point.broken_at:g}{cause}"
    return f"{point.workload}: {kept}; {found}"


def chances(kept: PromiseKept) -> Iterator[str]:
    """Say how often each promise is kept, by how far the demand may be off."""
    widest = max(kept.step_time_sigma.values(), default=0.0)
    for one in kept.chances:
        demand = f"demand off by {one.demand_cv:.0%}" if one.demand_cv else "demand as stated"
        each = ", ".join(f"{name} {share(p)}" for name, p in one.kept.items())
        together = f"; all {share(one.all)}" if len(one.kept) > 1 else ""
        yield f"step times off by {widest:.1%}, {demand}: {each}{together}"
