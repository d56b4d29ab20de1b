"""The demand at which a promise breaks, in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.reporting.format import share

if TYPE_CHECKING:
    from planner.fleet import BreakPoint


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
