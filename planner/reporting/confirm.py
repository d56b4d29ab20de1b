"""Measured runs against a plan, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.reporting.format import NONE, rate, seconds, share
from planner.reporting.layout import grid, heading, lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from planner.explanation.confirm import Confirmation, Difference


def confirmation_tables(
    found: Sequence[tuple[str, Confirmation]],
) -> tuple[RenderableType, ...]:
    """Return the verdict on each run, and what differs from the plan in it."""
    return tuple(_tables(found))


def _tables(found: Sequence[tuple[str, Confirmation]]) -> Iterator[RenderableType]:
    for file, one in found:
        yield heading(f"{one.workload}: {one.run} of {file}")
        yield lines(_verdict(one))
        yield grid(
            ("figure", ">planned", ">measured", ">ratio (95 %)", "differs"),
            [_row(d) for d in one.differences],
        )


def _verdict(one: Confirmation) -> Iterator[str]:
    between = NONE if one.low is None or one.high is None else f"{share(one.low)}–{share(one.high)}"
    yield (
        f"promise {one.verdict}: {share(one.attainment)} ({between}) of {one.requests:,} requests"
        f" meet all deadlines; promised {share(one.promise)}, planned {share(one.planned.value)}"
    )
    if one.failed:
        yield f"{one.failed:,} failed, which are misses"
    if one.verdict == "undecided" and one.requests_needed is not None:
        yield f"about {one.requests_needed:,} requests would decide, were attainment as seen"
    first = next((d for d in one.differences if d.differs), None)
    if first is None:
        yield "what was compared is as planned"
    else:
        yield f"first of what differs: {first.of} {first.ratio.value:.2f} × as planned"
    if one.missing:
        yield f"not told by these data: {', '.join(one.missing)}"


def _row(d: Difference) -> tuple[str, ...]:
    ratio = f"{d.ratio.value:.3f} ({d.ratio.low:.3f}–{d.ratio.high:.3f})"
    return d.of, _amount(d, d.planned), _amount(d, d.measured), ratio, "yes" if d.differs else "no"


def _amount(d: Difference, value: float) -> str:
    if d.of == "rate":
        return rate(value)
    return seconds(value) if d.of == "time per token" else f"{value:,.0f}"
