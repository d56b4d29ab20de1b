"""The profile of a load over time as tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.reporting.format import NONE, rate, seconds, significant
from planner.reporting.layout import grid, heading, lines, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from planner.profiles.rate_profile import RateProfile


def rate_table(profile: RateProfile) -> tuple[RenderableType, ...]:
    """Lay out a profile of rates, readable at 100 columns."""
    return tuple(_profile(profile))


def _profile(profile: RateProfile) -> Iterator[RenderableType]:
    title = profile.file + (f": {profile.series}" if profile.series else "")
    yield plain(f"{title} (rates only, no requests)", style="bold")
    span, window = seconds(profile.span_s), seconds(profile.window_s)
    peak = f"{rate(profile.peak_rps)}, {significant(profile.peak_rps / profile.mean_rps)} x mean"
    yield lines(
        (
            f"span: {span} in {profile.windows:,} windows of {window}",
            f"mean rate: {rate(profile.mean_rps)}",
            f"least: {rate(profile.least_rps)}",
            f"half, 95 % and 99 % of the time at most: {rate(profile.p50_rps)},"
            f" {rate(profile.p95_rps)}, {rate(profile.p99_rps)}",
            f"peak: {peak}",
        )
    )
    yield heading("Mean rate by hour of the day, in req/s")
    hours = [NONE if x is None else significant(x) for x in profile.hours_rps]
    rows = [
        [f"{h:02d}–{h + 5:02d} h", *(x or NONE for x in hours[h : h + 6])] for h in (0, 6, 12, 18)
    ]
    yield grid(("", *(f">+{i}" for i in range(6))), rows)
    yield heading("Notes")
    yield lines(
        (
            "rates tell how a load changes: traffic.series takes the file, --fit writes it; lengths"
            " must come from elsewhere",
        )
    )
