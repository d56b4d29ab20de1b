"""Small pictures as SVG text: lines, steps and heat maps, with axes; no script, no network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

from planner.reporting.format import significant

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 24, 44
LETTER: Final = 7
"""Width of a letter in a legend, about."""
COLOURS: Final = ("#1f5fa8", "#c0562f", "#4a8f4a", "#7a5aa6")


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: what it shows, from where to where."""

    label: str
    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        """Return where a value lies, 0 at the low end and 1 at the high end."""
        if self.log:
            low, high, value = (math.log(max(x, 1e-300)) for x in (self.low, self.high, value))
        else:
            low, high = self.low, self.high
        return (value - low) / (high - low) if high > low else 0.5

    def ticks(self) -> list[float]:
        """Return round values along the axis."""
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            step = max((last - first) // 6, 1)
            tens = [10.0**k for k in range(first, last + 1, step)]
            return [x for x in tens if self.low * 0.999 <= x <= self.high * 1.001]
        span = self.high - self.low
        if span <= 0:
            return [self.low]
        raw = span / 5
        size = 10 ** math.floor(math.log10(raw))
        step = next(size * m for m in (1, 2, 5, 10) if size * m >= raw)
        first = math.ceil(self.low / step)
        return [step * k for k in range(first, math.floor(self.high / step) + 1)]


@dataclass(frozen=True, slots=True)
class Line:
    """Points to be joined; ``name`` goes into the legend.

    Attributes:
        colour: Of ``COLOURS``; None: by the line's place.
        marked: Each point is a dot that says its values.
    """

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False
    colour: int | None = None
    marked: bool = False


def line_chart(title: str, x: Axis, y: Axis, lines: Sequence[Line]) -> str:
    """Draw lines over two axes."""
    parts = [_frame(title, x, y)]
    right = WIDTH - RIGHT
    for i, line in enumerate(lines):
        inside = [(a, b) for a, b in line.points if not (y.log and b <= 0)]
        path = " ".join(f"{_x(x, a):.1f},{_y(y, b):.1f}" for a, b in inside)
        colour = COLOURS[(i if line.colour is None else line.colour) % len(COLOURS)]
        dash = ' stroke-dasharray="5 4"' if line.dashed else ""
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.6"{dash} points="{path}"/>'
        )
        if line.marked:
            parts += [
                f'<circle cx="{_x(x, a):.1f}" cy="{_y(y, b):.1f}" r="4" fill="{colour}">'
                f"<title>{escape(f'{x.label} {significant(a)}: {significant(b)}')}</title></circle>"
                for a, b in inside
            ]
        if line.name:
            parts.append(
                f'<text x="{right}" y="14" text-anchor="end" style="fill:{colour}">'
                f"{escape(line.name)}</text>"
            )
            right -= 16 + LETTER * len(line.name)
    return _svg(title, parts)


def heat_chart(
    title: str,
    x: Axis,
    y: Axis,
    edges: tuple[Sequence[float], Sequence[float]],
    counts: Sequence[Sequence[int]],
) -> str:
    """Draw counts by cell; darker is more, on a scale of logs."""
    most = max((max(row, default=0) for row in counts), default=0)
    parts = [_frame(title, x, y)]
    for i, row in enumerate(counts):
        for j, count in enumerate(row):
            if count:
                left, right = (_x(x, edges[0][k]) for k in (i, i + 1))
                bottom, top = (_y(y, edges[1][k]) for k in (j, j + 1))
                shade = 0.12 + 0.88 * math.log1p(count) / math.log1p(most)
                parts.append(
                    f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}"'
                    f' height="{bottom - top:.1f}" fill="{COLOURS[0]}" fill-opacity="{shade:.2f}">'
                    f"<title>{count:,} requests</title></rect>"
                )
    return _svg(title, parts)


def _x(axis: Axis, value: float) -> float:
    return LEFT + min(max(axis.at(value), 0.0), 1.0) * (WIDTH - LEFT - RIGHT)


def _y(axis: Axis, value: float) -> float:
    return HEIGHT - BOTTOM - min(max(axis.at(value), 0.0), 1.0) * (HEIGHT - TOP - BOTTOM)


def _frame(title: str, x: Axis, y: Axis) -> str:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = [f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#444"/>']
    for tick in x.ticks():
        at = _x(x, tick)
        parts.append(f'<path d="M{at:.1f} {TOP}V{bottom}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{at:.1f}" y="{bottom + 15}" text-anchor="middle">{_tick(tick)}</text>'
        )
    for tick in y.ticks():
        at = _y(y, tick)
        parts.append(f'<path d="M{LEFT} {at:.1f}H{right}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{_tick(tick)}</text>'
        )
    middle = (TOP + bottom) / 2
    parts.append(
        f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 8}" text-anchor="middle">'
        f"{escape(x.label)}</text>"
        f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">'
        f"{escape(y.label)}</text>"
    )
    return "".join(parts)


def _tick(value: float) -> str:
    """Write a round value without zeros at its end: ``0.05``, ``1,200``."""
    text = significant(value)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def _svg(title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )
