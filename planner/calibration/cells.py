"""Cells of tables of measurements: rows within bounds, and numbers that a benchmark could have."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from planner.errors import InputError
from planner.measurements.text_lines import (
    bounded_lines,
    column_names,
    csv_rows,
    csv_table,
    open_text,
    told,
)
from planner.units import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from planner.measurements.text_lines import CsvRow

MOST_ROWS: Final = 100_000
MOST_USERS: Final = 65_536
MOST_TOKENS: Final = 4_000_000
"""Of a prompt or an output; no model has a longer context."""
MOST_DEVICES: Final = 16_384
MOST_REQUESTS: Final = 1_000_000
MOST_RPS: Final = 1e6
MOST_MS: Final = 1e9
"""Eleven days."""


def rows_of(path: Path, needed: Sequence[str] = ()) -> Iterator[CsvRow]:
    """Yield the rows of a table, ``.gz`` too.

    Args:
        path: A CSV file.
        needed: Columns that it must have.

    Raises:
        InputError: It cannot be read, is no UTF-8, lacks a column, names two alike, has a cell
            without end or too many rows.
    """
    with told(path), open_text(path) as file:
        for number, row in enumerate(csv_table(path, bounded_lines(path, file), needed)):
            if number >= MOST_ROWS:
                raise InputError(f"{path}:{row.line}: more than {MOST_ROWS:,} rows; split the file")
            yield row


def column_names_of(path: Path) -> frozenset[str]:
    """Return the names of a table's columns, even if it has no row.

    Raises:
        InputError: As of :func:`rows_of`.
    """
    with told(path), open_text(path) as file:
        rows = csv_rows(path, bounded_lines(path, file))
        heads = (column_names(f"{path}:{line}:1", cells) for line, cells in rows if cells)
        return frozenset(next(heads, ()))


def text_in(cells: Mapping[str, str], name: str) -> str:
    """Return a text; empty where the cell is, or where the table has no such column."""
    return cells.get(name) or ""


def number_in(
    cells: Mapping[str, str], name: str, high: float, *, low: float = 0.0
) -> float | None:
    """Return a number; ``None`` where the cell is empty.

    Raises:
        InputError: It is no number, or none from ``low`` to ``high``.
    """
    text = (cells.get(name) or "").strip()
    if text in ("", "nan"):
        return None
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{name}: expected a number, got {shown(text)}") from None
    if not low <= value <= high:
        raise InputError(f"{name}: expected a number from {low:g} to {high:g}, got {shown(text)}")
    return value


def required(cells: Mapping[str, str], name: str, high: float) -> float:
    """Return a number above 0.

    Raises:
        InputError: It is not stated, or none up to ``high``.
    """
    value = number_in(cells, name, high)
    if not value:
        raise InputError(f"{name}: not stated" if value is None else f"{name}: must be above 0")
    return value


def whole_in(
    cells: Mapping[str, str],
    name: str,
    high: int,
    *,
    low: int = 0,
    default: int | None = None,
) -> int:
    """Return a whole number, or the default where the cell is empty.

    Raises:
        InputError: It is none from ``low`` to ``high``, or there is none and no default.
    """
    value = number_in(cells, name, float(high), low=float(low))
    if value is None:
        if default is None:
            raise InputError(f"{name}: empty; state it, or leave the row out")
        return default
    if not math.isclose(value, round(value), abs_tol=1e-9):
        raise InputError(f"{name}: expected a whole number, got {value:g}")
    return round(value)
