"""The profile of a trace as one page that needs nothing else: pictures are inline SVG."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from planner.reporting.profile import facts
from planner.reporting.svg import Axis, Line, heat_chart, line_chart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.profiles.document import ArrivalProfile, HeatMap, TraceProfile

_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1360px;padding:0 1rem;color:#222}
h1{font-size:1.4rem}h2{font-size:1.05rem;margin:0 0 .3rem}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:1.5rem}
svg{width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:#444}
table{border-collapse:collapse;margin:0 0 1.5rem}
td{padding:.15rem 1.2rem .15rem 0;vertical-align:top}
td:first-child{color:#666}figure{margin:0}figcaption{color:#666;font-size:.85rem}
"""


def profile_page(profile: TraceProfile) -> str:
    """Write the page."""
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>"
        for name, value in facts(profile)
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in profile.notes)
    figures = "".join(
        f"<figure><h2>{escape(title)}</h2>{picture}<figcaption>{escape(caption)}</figcaption></figure>"
        for title, picture, caption in _pictures(profile)
    )
    title = escape(f"Workload profile: {profile.file}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body><h1>{title}</h1><table>{rows}</table>"
        f"{f'<ul>{notes}</ul>' if notes else ''}"
        f'<div class="grid">{figures}</div></body></html>\n'
    )


def _pictures(profile: TraceProfile) -> Iterator[tuple[str, str, str]]:
    if profile.arrivals is not None:
        yield from _arrivals(profile.arrivals)
    yield (
        "Prompt and output together",
        _heat(profile.heat),
        f"Darker is more, on a scale of logs. Rank correlation {profile.rank_correlation:.2f}.",
    )
    yield (
        "Lengths",
        _cumulative(profile.heat),
        "Share of the requests that are at most so long.",
    )


def _arrivals(arrivals: ArrivalProfile) -> Iterator[tuple[str, str, str]]:
    window = arrivals.rate.window_s
    unit, per = ("h", 3600.0) if arrivals.span_s > 3 * 3600 else ("s", 1.0)
    steps = []
    for i, rps in enumerate(arrivals.rate.rps):
        steps += [(i * window / per, rps), ((i + 1) * window / per, rps)]
    top = max(arrivals.rate.rps) * 1.05
    yield (
        "Rate over time",
        line_chart(
            "Rate over time",
            Axis(f"time ({unit})", 0, arrivals.span_s / per),
            Axis("requests per second", 0, top),
            (Line("", steps),),
        ),
        f"Windows of {window:g} s.",
    )
    scales = arrivals.dispersion
    if len(scales) > 1:
        values = [x for d in scales for x in (d.low, d.high) if x > 0]
        yield (
            "Burstiness by time scale",
            line_chart(
                "Burstiness by time scale",
                Axis("window (s)", scales[0].window_s, scales[-1].window_s, log=True),
                Axis("index of dispersion", min(0.7, *values), max(2.0, *values), log=True),
                (
                    Line("trace", [(d.window_s, d.index) for d in scales]),
                    Line("Poisson", [(d.window_s, 1.0) for d in scales], dashed=True),
                ),
            ),
            "Variance over mean of the counts in a window, about the mean of their hour.",
        )
    memory = arrivals.autocorrelation
    if memory:
        step = arrivals.autocorrelation_window_s
        yield (
            "Memory",
            line_chart(
                "Autocorrelation of counts",
                Axis("distance (s)", step, step * len(memory)),
                Axis("autocorrelation", min(0.0, *memory), 1.0),
                (Line("", [(step * (i + 1), value) for i, value in enumerate(memory)]),),
            ),
            f"Of the counts of windows of {step:g} s.",
        )


def _axes(heat: HeatMap) -> tuple[Axis, Axis]:
    return (
        Axis("prompt tokens", 1, float(heat.prompt_edges[-1]), log=True),
        Axis("output tokens", 1, float(heat.output_edges[-1]), log=True),
    )


def _heat(heat: HeatMap) -> str:
    x, y = _axes(heat)
    edges = heat.prompt_edges, heat.output_edges
    return heat_chart("Prompt and output together", x, y, edges, heat.counts)


def _cumulative(heat: HeatMap) -> str:
    total = sum(map(sum, heat.counts))
    lines = []
    for name, edges, counts in (
        ("prompt", heat.prompt_edges, [sum(row) for row in heat.counts]),
        ("output", heat.output_edges, [sum(column) for column in zip(*heat.counts, strict=True)]),
    ):
        points, below = [(1.0, 0.0)], 0
        for edge, count in zip(edges[1:], counts, strict=True):
            below += count
            points.append((float(edge), below / total))
        lines.append(Line(name, points))
    longest = float(max(heat.prompt_edges[-1], heat.output_edges[-1]))
    return line_chart("Lengths", Axis("tokens", 1, longest, log=True), Axis("share", 0, 1.0), lines)
