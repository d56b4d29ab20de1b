"""The diagnosis of a plan as one page: the cliff, misses by cause against load, late requests."""

from __future__ import annotations

from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from planner.reporting.blocks import Rows, Section, sections
from planner.reporting.format import rate, seconds, share
from planner.reporting.plan_diagnosis import plan_diagnosis_tables
from planner.reporting.report_charts import COLOURS, bars, lines_figure
from planner.reporting.report_html import page
from planner.reporting.svg import Axis, Line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planner.attribution.plan_diagnosis import PoolDiagnosis
    from planner.attribution.waterfall import LateStory
    from planner.planning.against_load import LoadPoint

CLIFF: Final = "Goodput and throughput against load"
CAUSES: Final = "What misses are charged to, against load"
LATE: Final = "Late requests, stretch by stretch"
LOST: Final = 0.02
"""Of the offered requests, by which goodput falls from one load to the next at a cliff."""


def plan_diagnosis_page(
    title: str,
    pools: Sequence[PoolDiagnosis],
    points: Sequence[LoadPoint],
    stories: Mapping[str, Sequence[LateStory]],
) -> str:
    """Write the page.

    Args:
        title: What the plan is called.
        pools: Diagnosis of each.
        points: The fleet against load.
        stories: Late requests, by pool.
    """
    first, *rest = sections(plan_diagnosis_tables(pools))
    told = [Section(f"{title}: why deadlines are missed", first.blocks)]
    pictures = {CLIFF: _cliff(points), CAUSES: "".join(_causes(points))}
    told += [Section(CLIFF, (_table(points),)), Section(CAUSES, ())]
    if any(stories.values()):
        told.append(Section(LATE, ()))
        pictures[LATE] = "".join(
            _story(pool, story) for pool, late in stories.items() for story in late
        )
    return page([*told, *rest], pictures)


def _table(points: Sequence[LoadPoint]) -> Rows:
    return Rows(
        ("times the demand", "offered", "throughput", "goodput"),
        (True, True, True, True),
        tuple(
            (f"{p.multiple:g}", rate(p.offered_rps), rate(p.completed_rps), rate(p.goodput_rps))
            for p in points
        ),
    )


def cliff_of(points: Sequence[LoadPoint]) -> tuple[float, float] | None:
    """Return the multiples between which goodput begins to fall; None where it never does."""
    for low, high in pairwise(points):
        if high.goodput_rps < low.goodput_rps * (1 - LOST):
            return low.multiple, high.multiple
    return None


def _cliff(points: Sequence[LoadPoint]) -> str:
    at = [p.multiple for p in points]
    most = max(max(p.offered_rps, p.completed_rps) for p in points)
    named = [
        Line("offered", [(p.multiple, p.offered_rps) for p in points], dashed=True, colour=2),
        Line("throughput", [(p.multiple, p.completed_rps) for p in points], colour=1, marked=True),
        Line("goodput", [(p.multiple, p.goodput_rps) for p in points], colour=0, marked=True),
    ]
    edge = cliff_of(points)
    more = []
    words = "All workloads growing alike. Goodput counts requests within all their deadlines"
    if edge is None:
        words += "; it does not fall up to the highest load."
    else:
        words += f"; between {edge[0]:g} and {edge[1]:g} times the demand it falls: the cliff."
        more = [Line("", [(x, 0.0), (x, most)], dashed=True, colour=3) for x in edge]
    return lines_figure(
        words,
        Axis("times the demand", min(at), max(at)),
        Axis("req/s", 0.0, most),
        named,
        more,
    )


def _causes(points: Sequence[LoadPoint]) -> Iterator[str]:
    """Draw a bar per load for each workload, cut by cause; all on one scale."""
    names = [row.workload for row in points[0].workloads] if points else []
    for i, name in enumerate(names):
        missed = [(p.multiple, p.workloads[i].misses.model_dump()) for p in points]
        causes = [c for c in missed[0][1] if any(m[c] > 0 for _, m in missed)]
        colour = {c: COLOURS[list(missed[0][1]).index(c) % len(COLOURS)] for c in causes}
        rows = [
            (
                f"{multiple:g} times the demand",
                [(m[c], colour[c], f"{_words(c)}: {share(m[c], 2)}") for c in causes],
            )
            for multiple, m in missed
        ]
        yield _legend(colour) + bars(
            f"{name}: share of its requests that miss", rows, [share(_sum(m), 2) for _, m in missed]
        )


def _story(pool: str, story: LateStory) -> str:
    """Draw one request: a row per stage, each stretch where it lies in time."""
    stages = list(dict.fromkeys(s.stage for s in story.stretches))
    total = max((s.end_s for s in story.stretches), default=0.0) or 1.0
    rows, ends = [], []
    for k, stage in enumerate(stages):
        pieces, at, time_s = [], 0.0, 0.0
        for s in (s for s in story.stretches if s.stage == stage):
            told = f"{_words(stage)}, {seconds(s.end_s - s.start_s)} from {seconds(s.start_s)}"
            pieces.append(((s.start_s - at) / total, "transparent", ""))
            pieces.append(((s.end_s - s.start_s) / total, COLOURS[k % len(COLOURS)], told))
            at, time_s = s.end_s, time_s + s.end_s - s.start_s
        rows.append((_words(stage), pieces))
        ends.append(seconds(time_s))
    due = "" if story.first_by_s is None else f" (allowed {seconds(story.first_by_s)})"
    title = (
        f"{story.workload}, request {story.request:,} on {pool}: {story.prompt_tokens:,} tokens in,"
        f" {story.output_tokens:,} out; TTFT {seconds(story.ttft_s)}{due}, in all"
        f" {seconds(total)}; charged to {_words(story.cause)} most"
    )
    return bars(title, rows, ends)


def _legend(colour: Mapping[str, str]) -> str:
    items = "".join(
        f'<li><span style="background:{c}"></span>{escape(_words(name))}</li>'
        for name, c in colour.items()
    )
    return f'<ul class="legend">{items}</ul>'


def _words(name: str) -> str:
    return name.replace("_", " ")


def _sum(misses: Mapping[str, float]) -> float:
    return sum(misses.values())
