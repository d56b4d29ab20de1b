"""Why a plan's requests miss their deadlines, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.reporting.format import seconds, share, significant, usd
from planner.reporting.layout import grid, heading, lines, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from planner.attribution.plan_diagnosis import Lost, PoolDiagnosis


def plan_diagnosis_tables(pools: Sequence[PoolDiagnosis]) -> Iterator[RenderableType]:
    """Lay out the diagnosis of pools, readable at 100 columns."""
    yield plain("What stands behind missed deadlines, pool by pool", style="bold")
    rows = [
        [
            pool.pool,
            f"{pool.requests:,}",
            f"{pool.missed:,}",
            pool.root_cause.replace("_", " "),
            share(pool.root_share),
        ]
        for pool in pools
    ]
    yield grid(("pool", ">requests", ">missed", "cause", ">of misses"), rows)
    for pool in pools:
        yield heading(pool.pool)
        lost = [
            pool.because,
            f"busy {share(pool.busy_share)} of the time; {_lost(pool.in_vain)} in vain, for"
            " requests that missed",
        ]
        if pool.recomputed.share > 0:
            lost.append(f"{_lost(pool.recomputed)} to compute again what was preempted")
        yield lines(lost)
        if pool.misses:
            yield grid(
                ("workload", "misses charged to", ">of its requests"),
                [[row.workload, row.cause, share(row.share)] for row in pool.misses],
            )
        if pool.harm:
            yield grid(
                ("slowed", "by", "through", ">per request"),
                [
                    [row.slowed, row.by, row.kind, seconds(row.seconds_per_request)]
                    for row in pool.harm
                ],
            )


def _lost(lost: Lost) -> str:
    return (
        f"{share(lost.share)} of it, {significant(lost.accelerators)} accelerators or"
        f" {usd(lost.usd_per_hour)} per hour,"
    )
