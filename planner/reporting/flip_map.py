"""A map of where *together or apart* flips: as a table, as CSV, and as a picture."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from planner.reporting.bill_difference import signed
from planner.reporting.format import NONE, change, count
from planner.reporting.layout import grid, heading, lines, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from planner.studies import Flip, FlipCell, FlipMap

NUMBERS: Final = (
    "usd_per_hour_together",
    "usd_per_hour_apart",
    "difference_usd_per_hour",
    "fluid_difference_usd_per_hour",
    "plan_usd_per_hour",
)
COLOURS: Final = {
    "apart": "#2f7fd1",
    "together": "#d4622a",
    "even": "#8a94a6",
    "both ways": "#7a5aa6",
    "neither": "#5b6472",
}
LEFT, TOP, CELL, ROW, LEGEND = 16, 64, 92, 62, 40
LETTER: Final = 7.5
"""Width of a letter of a label, about."""


def flip_tables(found: FlipMap) -> tuple[RenderableType, ...]:
    """Lay out the cells, and between which values the answer flips."""
    return tuple(_sections(found))


def _sections(found: FlipMap) -> Iterator[RenderableType]:
    yield plain(f"{found.name}: {count(found.plans, 'plan')}, USD per hour", style="bold")
    yield grid(
        (*found.axes, ">together", ">apart", ">difference", ">if units were cut", "cheaper"),
        [
            (
                *(cell.values.get(axis, "") for axis in found.axes),
                _usd(cell.usd_per_hour_together),
                _usd(cell.usd_per_hour_apart),
                _signed(cell.difference_usd_per_hour),
                _signed(cell.fluid_difference_usd_per_hour),
                cell.winner + ("" if cell.verified or not cell.pools else " (NOT verified)"),
            )
            for cell in found.cells
        ],
    )
    if found.flips:
        yield heading("The answer flips")
        yield lines(_flip(x) for x in found.flips)
    barred = list(dict.fromkeys(cell.why for cell in found.cells if cell.why))
    if barred:
        yield heading("Where a cell has no fleet, or no settled one")
        yield lines(barred)
    if found.ended:
        yield plain(f"\nNot all cells are there: {found.ended}")


def _flip(x: Flip) -> str:
    where = "".join(f", {name} {value}" for name, value in x.beside.items())
    return f"between {x.axis} {x.low} ({x.before}) and {x.high} ({x.after}){where}"


def flip_csv(found: FlipMap) -> str:
    """Write one row per cell: its axes, both costs, the difference, the winner, and why."""
    split = sorted({name for cell in found.cells for name in cell.lines})
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(
        (*found.axes, "added", "winner", *NUMBERS, "verified", "pools", "why", "settings", *split)
    )
    for cell in found.cells:
        numbers = [getattr(cell, name) for name in NUMBERS]
        rows.writerow(
            (
                *(cell.values.get(axis, "") for axis in found.axes),
                str(cell.added).lower(),
                cell.winner,
                *map(_number, numbers),
                str(cell.verified).lower(),
                " + ".join(cell.pools),
                cell.why,
                " ".join(cell.settings),
                *(_number(cell.lines.get(name)) for name in split),
            )
        )
    return text.getvalue()


def flip_svg(found: FlipMap) -> str:
    """Draw strips of cells in the colour of the winner, with what apart costs more or less.

    Returns:
        An SVG document without fonts, scripts or links, ending in a newline.
    """
    strips = [strip for strip in found.strips if strip]
    labels = [_label(found, strip) for strip in strips]
    first = LEFT + LETTER * max((len(text) for text in labels), default=0) + 12
    widest = max((len(strip) for strip in strips), default=0)
    width = round(max(first + CELL * widest + LEFT, 560))
    height = TOP + ROW * len(strips) + LEGEND
    body = []
    for i, (strip, label) in enumerate(zip(strips, labels, strict=True)):
        y = TOP + ROW * i
        body.append(f'<text x="{LEFT}" y="{y + ROW / 2 + 1:.0f}">{escape(label)}</text>')
        for j, cell in enumerate(strip):
            body += _cell(cell, _axis(strip), first + CELL * j, y)
    at = LEFT
    for name, colour in COLOURS.items():
        body.append(f'<rect x="{at}" y="{height - 28}" width="12" height="12" fill="{colour}"/>')
        body.append(f'<text x="{at + 18}" y="{height - 18}">{name}</text>')
        at += 100
    title = f"Prefill and decode together or apart: {found.name}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" role="img">\n<title>{escape(title)}</title>\n<style>{STYLE}</style>\n'
        f'<text class="title" x="{LEFT}" y="26">{escape(title)}</text>\n'
        f'<text x="{LEFT}" y="46">What apart costs more, USD per hour and per cent</text>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


STYLE: Final = """
  text { font: 13px system-ui, sans-serif; fill: #5b6472; }
  .title { font-size: 16px; font-weight: 600; fill: #27303f; }
  text.in { fill: #fff; text-anchor: middle; } text.value { font-size: 11px; }
  @media (prefers-color-scheme: dark) { text { fill: #a7b0bf; } .title { fill: #e4e8ef; } }
"""


def _label(found: FlipMap, strip: Sequence[FlipCell]) -> str:
    axis = _axis(strip)
    beside = [f"{k} {v}" for k, v in strip[0].values.items() if k != axis]
    return ", ".join(beside) or axis


def _axis(strip: Sequence[FlipCell]) -> str:
    """Return the axis along which a strip goes: the last that its cells name."""
    return list(strip[0].values)[-1]


def _cell(cell: FlipCell, axis: str, x: float, y: int) -> Iterator[str]:
    middle = x + (CELL - 4) / 2
    told = _signed(cell.difference_usd_per_hour)
    less, base = cell.difference_usd_per_hour, cell.usd_per_hour_together
    percent = "" if less is None or not base else change(less / base)
    value = cell.values[axis]
    short = value if len(value) <= 13 else f"{value[:12]}…"
    yield (
        f'<rect x="{x:.0f}" y="{y}" width="{CELL - 4}" height="{ROW - 4}" rx="3"'
        f' fill="{COLOURS[cell.winner]}"><title>{escape(_words(cell))}</title></rect>'
    )
    for text, down, style in ((short, 16, " value"), (told, 34, ""), (percent, 50, " value")):
        yield f'<text class="in{style}" x="{middle:.0f}" y="{y + down}">{escape(text)}</text>'


def _words(cell: FlipCell) -> str:
    values = ", ".join(f"{name} {value}" for name, value in cell.values.items())
    costs = f"together {_usd(cell.usd_per_hour_together)}, apart {_usd(cell.usd_per_hour_apart)}"
    return f"{values}: {cell.winner}; {costs}" + (f"; {cell.why}" if cell.why else "")


def _usd(value: float | None) -> str:
    return NONE if value is None else f"{value:,.2f}"


def _signed(value: float | None) -> str:
    return NONE if value is None else signed(value)


def _number(value: float | None) -> str:
    return "" if value is None else repr(value)
