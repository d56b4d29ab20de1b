"""The capacity of a template as a table: the number first, then the goodput at each load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from planner.reporting.format import count, rate, share, usd
from planner.reporting.layout import grid, heading, lines, plain
from planner.reporting.tables import hits

if TYPE_CHECKING:
    from rich.console import RenderableType

    from planner.planning.capacity import GoodputPoint, TemplateCapacity

BAR: Final = 30
"""Columns of the bar that draws the curve."""


def capacity_table(found: TemplateCapacity) -> tuple[RenderableType, ...]:
    """Lay out a capacity and its goodput curve, readable at 100 columns."""
    capacity = found.capacity_rps
    half = (capacity.high - capacity.low) / 2 / capacity.value
    peak = found.peak
    each = f"; {rate(capacity.value / found.replicas)} each" if found.replicas > 1 else ""
    promises = ", ".join(f"{share(w.promise)} of {w.id}" for w in found.workloads)
    facts = [
        f"95 % interval {_number(capacity.low)}–{_number(capacity.high)} req/s, ±{share(half, 2)}"
        f" ({count(found.replications, 'replication')}){each}",
        f"keeps: {promises} within all deadlines; a mean-field estimate is limited by"
        f" {found.limited_by}",
        f"most compliant goodput {rate(peak.compliant_rps)} at {rate(peak.offered_rps)} offered",
        f"{usd(found.usd_per_hour)} per hour; {usd(found.usd_per_thousand_compliant)} per thousand"
        " compliant requests at the capacity",
    ]
    if (cold := found.capacity_without_prefix_cache_rps) is not None:
        kept = ", ".join(map(hits, found.prefix_hits))
        facts.append(
            f"prefixes kept in blocks of {found.prefix_block_tokens} tokens: {kept}; at a hit rate"
            f" of 0 the capacity is {rate(cold.value)} ({_number(cold.low)}–{_number(cold.high)})"
        )
    steps = found.step_times
    if steps is not None and steps.measured_in is not None:
        instead = f", in place of {steps.replaces}" if steps.replaces else ""
        error = f", {share(steps.relative_error)} off" if steps.relative_error else ""
        facts.append(f"step times: {steps.source} to {steps.measured_in}{error}{instead}")
    if not found.precise:
        facts.append(f"wider than the ±{share(found.wanted_precision, 2)} that were wanted")
    if found.matching > 1:
        facts.append(
            f"the cheapest per request of {found.matching} templates that fit; --template narrows"
        )
    return (
        plain(
            f"{found.replicas} × {found.template}: capacity {rate(capacity.value)}", style="bold"
        ),
        lines(facts),
        heading("Goodput by offered load (requests per second)"),
        _curve(found),
        *_remarks(found),
    )


def _curve(found: TemplateCapacity) -> RenderableType:
    headers = (">offered", ">completed", ">compliant", ">attainment", "compliant rate", "")
    top = max(p.compliant_rps for p in found.curve)
    return grid(headers, [_row(p, found, top) for p in found.curve])


def _row(point: GoodputPoint, found: TemplateCapacity, top: float) -> tuple[str, ...]:
    remarks = []
    if point.offered_rps == min(found.curve, key=lambda p: _distance(p, found)).offered_rps:
        remarks.append("capacity")
    if point == found.peak:
        remarks.append("peak")
    if point.unstable:
        remarks.append("unstable")
    return (
        _number(point.offered_rps),
        _number(point.completed_rps),
        _number(point.compliant_rps),
        share(point.compliant_rps / point.offered_rps),
        _bar(point.compliant_rps / top),
        ", ".join(remarks),
    )


def _distance(point: GoodputPoint, found: TemplateCapacity) -> float:
    return abs(point.offered_rps - found.capacity_rps.value)


def _number(value: float) -> str:
    return rate(value).removesuffix(" req/s")


def _bar(part: float) -> str:
    """Draw a share as a bar of eighths of a column."""
    eighths = round(part * BAR * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _remarks(found: TemplateCapacity) -> tuple[RenderableType, ...]:
    said = []
    if any(p.unstable for p in found.curve):
        said.append(
            "unstable: the backlog grows without end; what is compliant there is what the"
            " simulated span gave"
        )
    if not found.collapsed:
        said.append("the curve ends before the goodput has collapsed")
    return (heading("Notes"), lines(said)) if said else ()
