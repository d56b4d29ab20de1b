"""An engine's log, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.reporting.format import NONE, share, significant
from planner.reporting.layout import grid, heading, lines, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from planner.attribution.log_diagnosis import LogDiagnosis

_SUSPECTS = {
    "kv_block_wait": "requests wait mostly while the KV cache is full: for blocks",
    "queue": "requests wait mostly with room in the KV cache: for seats, budget or the step",
    "nothing waits": "nobody waits in any sample",
    "not told": "requests wait; for what, the log does not tell",
}


def log_tables(engines: Sequence[LogDiagnosis]) -> Iterator[RenderableType]:
    """Lay out logs of engines, readable at 100 columns."""
    yield plain("What the engines' logs say; of single requests they say nothing", style="bold")
    headers = ("engine", ">samples", ">running", ">waiting", ">KV use", ">waits", ">KV full")
    rows = [
        [
            one.engine,
            f"{one.samples:,}",
            f"{significant(one.mean_running)} ≤ {one.most_running:,}",
            f"{significant(one.mean_waiting)} ≤ {one.most_waiting:,}",
            share(one.mean_kv_use) if one.kv_recorded else NONE,
            share(one.waiting_share),
            share(one.waiting_full_share) if one.kv_recorded else NONE,
        ]
        for one in engines
    ]
    yield grid(headers, rows)
    for one in engines:
        yield heading(one.engine)
        told = [_SUSPECTS[one.suspect]]
        if one.preemptions:
            told.append(f"{one.preemptions:,} lines tell of preemptions")
        yield lines([*told, *(f"not in the data: {what}" for what in one.missing)])
