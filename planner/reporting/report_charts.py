"""Pictures of a plan for its report: the bill, attainment against demand, misses by cause."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Final

from planner.reporting.format import share, usd
from planner.reporting.svg import COLOURS as LINE_COLOURS
from planner.reporting.svg import Axis, Line, line_chart

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.fleet import FleetPlan
    from planner.studies.runner import StudyResult

LONGEST_BAR: Final = 82.0
"""Percent of the room; the rest is for the number at its end."""
MOST_CHARTS: Final = 8
"""Workloads with a picture of their own."""
COLOURS: Final = (
    "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#c9a227", "#9c755f",
    "#d37295", "#86bc57", "#5f6caf", "#7f7f7f",
)  # fmt: skip


def bill_chart(plan: FleetPlan) -> str:
    """Draw a bar per line of the bill; empty where there is nothing to pay."""
    most = max((line.usd_per_hour for line in plan.bill), default=0.0)
    if most <= 0:
        return ""
    rows = [
        (line.item, [(line.usd_per_hour / most, COLOURS[i % len(COLOURS)], usd(line.usd_per_hour))])
        for i, line in enumerate(plan.bill)
    ]
    return bars("The bill, per hour", rows, [usd(line.usd_per_hour) for line in plan.bill])


def misses_chart(plan: FleetPlan) -> str:
    """Draw the misses of each workload, cut by cause, on one scale; empty where nothing missed."""
    told = [(w.id, w.misses.model_dump()) for w in plan.workloads if w.misses is not None]
    causes = [c for c in (told[0][1] if told else {}) if any(m[c] > 0 for _, m in told)]
    most = max((sum(m.values()) for _, m in told), default=0.0)
    if not causes or most <= 0:
        return ""
    colour = {cause: COLOURS[i % len(COLOURS)] for i, cause in enumerate(causes)}
    rows = [
        (name, [(m[c] / most, colour[c], f"{_words(c)}: {share(m[c], 2)}") for c in causes])
        for name, m in told
    ]
    ends = [share(sum(m.values()), 2) for _, m in told]
    legend = "".join(
        f'<li><span style="background:{colour[c]}"></span>{escape(_words(c))}</li>' for c in causes
    )
    return f'<ul class="legend">{legend}</ul>' + bars("Misses by cause", rows, ends)


def demand_charts(plan: FleetPlan) -> Iterator[str]:
    """Draw, for each workload, attainment of this fleet against multiples of the demand."""
    evidence = plan.evidence
    for result in plan.workloads[:MOST_CHARTS]:
        seen = {
            p.multiple: p.attainment[result.id]
            for p in evidence.demand_sweep
            if result.id in p.attainment
        }
        breaks = next((b for b in evidence.breaks_at if b.workload == result.id), None)
        if breaks is not None and breaks.broken_at is not None and breaks.attainment is not None:
            seen[breaks.broken_at] = breaks.attainment
        if len(seen) < 2:
            continue
        at = sorted(seen)
        lowest = min(min(seen[m].low for m in at), result.promise)
        promised = [(at[0], result.promise), (at[-1], result.promise)]
        named = [
            Line("attainment", [(m, seen[m].value) for m in at], colour=0, marked=True),
            Line("95 % interval", [(m, seen[m].low) for m in at], dashed=True, colour=0),
            Line("promised", promised, dashed=True, colour=3),
        ]
        if breaks is not None and breaks.broken_at is not None:
            edge = [(breaks.broken_at, lowest), (breaks.broken_at, 1.0)]
            named.append(Line(f"breaks at × {breaks.broken_at:g}", edge, dashed=True, colour=1))
        upper = Line("", [(m, seen[m].high) for m in at], dashed=True, colour=0)
        yield lines_figure(
            f"{result.id}: attainment if all demand were a multiple of the planned",
            Axis("times the demand", at[0], at[-1]),
            Axis("attainment", lowest, 1.0),
            named,
            (upper,),
        )


def study_chart(found: StudyResult) -> str:
    """Draw cost per thousand compliant requests along the first axis, a line per other values."""
    lines: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for row in found.rows:
        values = list(row.values.values())
        at = _number(values[0]) if values else None
        if at is None or row.usd_per_thousand_compliant is None:
            continue
        others = (row.alternative or "", *values[1:], str(row.seed))
        lines.setdefault(others, []).append((at, row.usd_per_thousand_compliant))
    points = [p for line in lines.values() for p in line]
    if not points or len(lines) > MOST_CHARTS or len({x for x, _ in points}) < 2:
        return ""
    path = next(iter(found.rows[0].values))
    seeds = len({row.seed for row in found.rows}) > 1
    drawn = [
        Line(
            ", ".join(x for x in (key if seeds else key[:-1]) if x),
            sorted(line),
            dashed=i >= len(LINE_COLOURS),
            colour=i % len(LINE_COLOURS),
            marked=True,
        )
        for i, (key, line) in enumerate(lines.items())
    ]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return lines_figure(
        "Cost per thousand compliant requests, USD",
        Axis(path, min(xs), max(xs)),
        Axis("USD per thousand", 0.0, max(ys) or 1.0),
        drawn,
    )


def _number(text: str) -> float | None:
    try:
        return float(text.split()[0].rstrip("%"))
    except (ValueError, IndexError):
        return None


def _words(cause: str) -> str:
    return cause.replace("_", " ")


def figure(caption: str, drawn: str) -> str:
    """Put a caption to what is drawn."""
    return f"<figure><figcaption>{escape(caption)}</figcaption>{drawn}</figure>"


def lines_figure(
    caption: str, x: Axis, y: Axis, named: Sequence[Line], more: Sequence[Line] = ()
) -> str:
    """Draw lines with a legend of words, which a narrow screen can wrap."""
    legend = "".join(
        f'<li><i class="k{line.colour}{" dash" if line.dashed else ""}"></i>'
        f"{escape(line.name)}</li>"
        for line in named
        if line.name
    )
    drawn = [replace(line, name="") for line in (*more, *reversed(named))]
    chart = line_chart(caption, x, y, drawn)
    return figure(caption, f'<ul class="legend">{legend}</ul>{chart}' if legend else chart)


def bars(
    title: str,
    rows: Sequence[tuple[str, Sequence[tuple[float, str, str]]]],
    ends: Sequence[str],
) -> str:
    """Draw a bar per row of parts, its name above it; parts are (length, colour, words)."""
    parts = []
    for (name, pieces), end in zip(rows, ends, strict=True):
        drawn = "".join(
            f'<span style="width:{length * LONGEST_BAR:.2f}%;background:{colour}"'
            f' title="{escape(words)}"></span>'
            for length, colour, words in pieces
            if length > 0
        )
        parts.append(
            f'<div class="name">{escape(name)}</div><div class="bar">{drawn}'
            f"<b>{escape(end)}</b></div>"
        )
    return figure(title, "".join(parts))
