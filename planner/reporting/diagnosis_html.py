"""A diagnosis as one page that needs nothing else: causes stacked, late requests as waterfalls."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from planner.reporting.diagnosis import SHOWN_RUNS
from planner.reporting.format import seconds, share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.attribution.diagnosis import LateRequest, RunDiagnosis
    from planner.explanation.counterfactual import Counterfactuals

COLOURS: Final = (
    "#1f5fa8",
    "#c0562f",
    "#4a8f4a",
    "#7a5aa6",
    "#b8862b",
    "#3a9aa0",
    "#a83a6b",
    "#6b6b6b",
    "#8fae3d",
    "#5b7bd5",
    "#d08770",
    "#2f4858",
)
WIDTH: Final = 900
BAR: Final = 22
LABEL: Final = 250
_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1200px;padding:0 1rem;color:#222}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin:2rem 0 .3rem}h3{font-size:1rem;margin:1rem 0 .2rem}
svg{width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:#333}
table{border-collapse:collapse}td,th{padding:.15rem 1rem .15rem 0;text-align:left}
td.n,th.n{text-align:right}ul{margin:.3rem 0;color:#555}
"""


def diagnosis_page(
    title: str, runs: Sequence[RunDiagnosis], counterfactuals: Sequence[Counterfactuals] = ()
) -> str:
    """Write the page."""
    names = dict.fromkeys(m.cause for run in runs for m in run.misses)
    names |= dict.fromkeys(s for run in runs for late in run.late for s in late.stages_s)
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    body = [f"<h1>{escape(title)}</h1>", _overview(runs), "<h2>What misses are charged to</h2>"]
    body += [_stacked(runs, colours)]
    for run in runs[:SHOWN_RUNS]:
        body.append(f"<h2>{escape(run.run)}</h2>")
        body += [_waterfall(late, colours) for late in run.late]
        told = [f"not in the data: {what}" for what in run.missing]
        told.append(f"what a request takes alone is {run.unloaded}")
        body.append("<ul>" + "".join(f"<li>{escape(t)}</li>" for t in told) + "</ul>")
    body += [_what_if(found) for found in counterfactuals]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(body)}</body></html>\n"
    )


def _overview(runs: Sequence[RunDiagnosis]) -> str:
    head = "<tr><th>run</th><th class=n>requests</th><th class=n>failed</th>"
    head += "<th>each deadline</th><th class=n>product</th><th class=n>joint</th></tr>"
    rows = ""
    for run in runs:
        each = ", ".join(
            f"{d.deadline} ≤ {seconds(d.allowed_s)}: {share(d.met)}" for d in run.deadlines
        )
        cells = (f"{run.requests:,}", f"{run.failed:,}")
        rows += f"<tr><td>{escape(run.run)}</td>"
        rows += "".join(f"<td class=n>{cell}</td>" for cell in cells)
        rows += f"<td>{escape(each)}</td><td class=n>{share(run.product_of_shares)}</td>"
        rows += f"<td class=n>{share(run.attainment)}</td></tr>"
    return f"<table>{head}{rows}</table>"


def _stacked(runs: Sequence[RunDiagnosis], colours: Mapping[str, str]) -> str:
    """Draw one bar per run, as long as its misses, cut by cause."""
    most = max((1 - run.attainment for run in runs), default=0.0)
    causes = list(dict.fromkeys(m.cause for run in runs for m in run.misses))
    legend_rows = -(-len(causes) // 4)
    height = (BAR + 8) * len(runs) + 20 * legend_rows + 16
    parts = []
    for i, run in enumerate(runs):
        top = i * (BAR + 8)
        parts.append(_label(run.run, top))
        left = float(LABEL)
        for cause in run.misses:
            wide = cause.share / most * (WIDTH - LABEL - 70) if most > 0 else 0.0
            parts.append(
                _rect(left, top, wide, colours[cause.cause], f"{cause.cause}: {share(cause.share)}")
            )
            left += wide
        missed = escape(share(1 - run.attainment))
        parts.append(f'<text x="{left + 6:.1f}" y="{top + 15}">{missed}</text>')
    for i, cause_name in enumerate(causes):
        x, y = (i % 4) * (WIDTH // 4), (BAR + 8) * len(runs) + 12 + 20 * (i // 4)
        parts.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colours[cause_name]}"/>')
        parts.append(f'<text x="{x + 18}" y="{y + 11}">{escape(cause_name)}</text>')
    return _svg("Misses by cause", height, parts)


def _waterfall(late: LateRequest, colours: Mapping[str, str]) -> str:
    """Draw the parts of one late request one below the other, each where the last one ended."""
    total = sum(late.stages_s.values()) or 1.0
    scale = (WIDTH - LABEL - 80) / total
    parts, left = [], 0.0
    for i, (name, time_s) in enumerate(late.stages_s.items()):
        top = i * (BAR + 4)
        parts.append(_label(name, top))
        colour = colours.get(name, COLOURS[-1])
        parts.append(_rect(LABEL + left * scale, top, time_s * scale, colour, seconds(time_s)))
        x = LABEL + (left + time_s) * scale + 6
        parts.append(f'<text x="{x:.1f}" y="{top + 15}">{escape(seconds(time_s))}</text>')
        left += time_s
    at = LABEL + late.ttft_s * scale
    bottom = (BAR + 4) * len(late.stages_s)
    parts.append(f'<path d="M{at:.1f} 0V{bottom}" stroke="#444" stroke-dasharray="4 3"/>')
    title = (
        f"Request {late.request:,}: TTFT {seconds(late.ttft_s)}, in all {seconds(late.e2e_s)};"
        f" charged to {late.cause} most"
    )
    return f"<h3>{escape(title)}</h3>" + _svg(title, bottom + 4, parts)


def _what_if(found: Counterfactuals) -> str:
    rows = "".join(
        f"<tr><td>{escape(row.change)}</td><td class=n>{row.replicas:,}</td>"
        f"<td class=n>{share(row.attainment)}</td></tr>"
        for row in found.rows
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in found.notes)
    return (
        f"<h2>What would have been: {escape(found.run)}</h2><table><tr><th>change</th>"
        f"<th class=n>replicas</th><th class=n>attainment</th></tr>{rows}</table><ul>{notes}</ul>"
    )


def _label(text: str, top: float) -> str:
    shown = text if len(text) <= 36 else text[:35] + "…"
    return f'<text x="{LABEL - 8}" y="{top + 15:.1f}" text-anchor="end">{escape(shown)}</text>'


def _rect(left: float, top: float, width: float, colour: str, title: str) -> str:
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{max(width, 0.5):.1f}" height="{BAR}"'
        f' fill="{colour}"><title>{escape(title)}</title></rect>'
    )


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )
