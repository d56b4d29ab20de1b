"""The goodput curve as one self-contained SVG picture, readable on light and dark ground."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from planner.reporting.format import rate, significant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from planner.planning.capacity import TemplateCapacity

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 64, 56
TICKS: Final = 6

STYLE: Final = """
  text { font: 13px system-ui, sans-serif; fill: #5b6472; }
  .title { font-size: 16px; font-weight: 600; fill: #27303f; }
  .grid { stroke: #8a94a6; stroke-opacity: .28; }
  .line { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
  .offered { stroke: #8a94a6; stroke-dasharray: 5 4; } .completed { stroke: #2f7fd1; }
  .compliant { stroke: #1b9e63; stroke-width: 2.8; }
  text.offered, text.completed, text.compliant { stroke: none; }
  text.completed { fill: #2f7fd1; } text.compliant { fill: #1b9e63; }
  .mark { stroke: #d4622a; stroke-width: 1.6; } .cliff { fill: #d4622a; fill-opacity: .1; }
  text.mark { fill: #d4622a; stroke: none; } .dot { fill: #1b9e63; }
  @media (prefers-color-scheme: dark) {
    text { fill: #a7b0bf; } .title { fill: #e4e8ef; }
    .completed { stroke: #67abf0; } text.completed { fill: #67abf0; }
    .compliant { stroke: #3fc98a; } text.compliant, .dot { fill: #3fc98a; }
    .mark { stroke: #f08a54; } text.mark, .cliff { fill: #f08a54; }
  }
"""


def goodput_svg(found: TemplateCapacity) -> str:
    """Draw offered, completed and compliant rate over the offered load.

    The capacity is a line, the cliff from the peak of the compliant rate to its collapse a band.

    Returns:
        An SVG document without fonts, scripts or links, ending in a newline.
    """
    x_top = _round_up(max(p.offered_rps for p in found.curve))
    y_top = _round_up(max(max(p.completed_rps, p.compliant_rps) for p in found.curve) * 1.08)

    def x(value: float) -> float:
        return LEFT + value / x_top * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - value / y_top * (HEIGHT - TOP - BOTTOM)

    title = f"{found.replicas} × {found.template}"
    body = [
        f'<text class="title" x="{LEFT}" y="26">{escape(title)}</text>',
        f'<text x="{LEFT}" y="46">capacity {escape(rate(found.capacity_rps.value))}, most compliant'
        f" {escape(rate(found.peak.compliant_rps))}</text>",
        *_axes(x_top, y_top, x, y),
        *_marks(found, x, y),
        *_lines(found, min(x_top, y_top), x, y),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' width="{WIDTH}" height="{HEIGHT}" role="img">\n'
        f"<title>Goodput of {escape(title)}</title>\n<style>{STYLE}</style>\n"
        + "\n".join(body)
        + "\n</svg>\n"
    )


def goodput_html(found: TemplateCapacity) -> str:
    """Return a page with nothing but the picture."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>Goodput of {escape(found.template)}</title>"
        "<style>:root{color-scheme:light dark}body{margin:2rem}svg{max-width:100%;height:auto}"
        f"</style></head>\n<body>\n{goodput_svg(found)}</body></html>\n"
    )


def _lines(
    found: TemplateCapacity, end: float, x: Callable[[float], float], y: Callable[[float], float]
) -> Iterator[str]:
    loads = [0.0, *(p.offered_rps for p in found.curve)]
    rows = (
        ("offered", [0.0, end], [0.0, end]),
        ("completed", loads, [0.0, *(p.completed_rps for p in found.curve)]),
        ("compliant", loads, [0.0, *(p.compliant_rps for p in found.curve)]),
    )
    for name, across, up in rows:
        points = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in zip(across, up, strict=True))
        yield f'<polyline class="line {name}" points="{points}"/>'
    for i, (name, *_) in enumerate(rows):
        left, top = LEFT + 14, TOP + 18 + 20 * i
        yield f'<line class="line {name}" x1="{left}" y1="{top}" x2="{left + 26}" y2="{top}"/>'
        yield f'<text class="{name}" x="{left + 34}" y="{top + 4}">{name}</text>'


def _marks(
    found: TemplateCapacity, x: Callable[[float], float], y: Callable[[float], float]
) -> Iterator[str]:
    peak, last = found.peak, found.curve[-1]
    bottom = HEIGHT - BOTTOM
    if found.collapsed and last.offered_rps > peak.offered_rps:
        left, right = x(peak.offered_rps), x(last.offered_rps)
        yield (
            f'<rect class="cliff" x="{left:.1f}" y="{TOP}" width="{right - left:.1f}"'
            f' height="{bottom - TOP}"/>'
        )
        yield (
            f'<text class="mark" x="{(left + right) / 2:.1f}" y="{bottom - 8}"'
            ' text-anchor="middle">cliff</text>'
        )
    at = x(found.capacity_rps.value)
    yield f'<line class="mark" x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{bottom}"/>'
    yield (
        f'<text class="mark" x="{at - 6:.1f}" y="{bottom - 8}" text-anchor="end">capacity'
        f" {escape(significant(found.capacity_rps.value))}</text>"
    )
    spot = f'cx="{x(peak.offered_rps):.1f}" cy="{y(peak.compliant_rps):.1f}"'
    yield f'<circle class="dot" {spot} r="4"/>'


def _axes(
    x_top: float, y_top: float, x: Callable[[float], float], y: Callable[[float], float]
) -> Iterator[str]:
    bottom = HEIGHT - BOTTOM
    for value in _ticks(y_top):
        at = f"{y(value):.1f}"
        yield f'<line class="grid" x1="{LEFT}" y1="{at}" x2="{WIDTH - RIGHT}" y2="{at}"/>'
        yield f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{_tick(value)}</text>'
    for value in _ticks(x_top):
        at = f"{x(value):.1f}"
        yield f'<text x="{at}" y="{bottom + 20}" text-anchor="middle">{_tick(value)}</text>'
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">offered load, req/s</text>'
    half = (TOP + bottom) / 2
    turned = f'transform="rotate(-90 16 {half})"'
    yield f'<text x="16" y="{half}" text-anchor="middle" {turned}>req/s</text>'


def _step(top: float) -> float:
    rough = top / TICKS
    power: float = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * (1 - 1e-9))


def _round_up(value: float) -> float:
    """Return the next multiple of a round step."""
    step = _step(value)
    return math.ceil(value / step - 1e-9) * step


def _ticks(top: float) -> Sequence[float]:
    step = _step(top)
    return [i * step for i in range(round(top / step) + 1)]


def _tick(value: float) -> str:
    """Write a number of an axis, short enough for its margin."""
    for least, unit, suffix in ((1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if value >= least:
            return f"{value / unit:.6g}{suffix}"
    return f"{value:.6g}"
