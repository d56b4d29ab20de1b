"""Rates by window of time: CSV files, or the sum over a ServeGen client set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from planner.errors import InputError, nearest
from planner.measurements.client_sets import client_set_of, has_lengths, read_client_set
from planner.measurements.request_files import read_chunks, row_place
from planner.measurements.request_times import LONGEST_SPAN_S, WrongValueError, parse_numbers
from planner.measurements.text_lines import bounded_lines, csv_rows, open_text, told
from planner.units import shown

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from planner.measurements.request_files import Chunk

    Floats = NDArray[np.float64]


MOST_WINDOWS: Final = 2_000_000
MOST_RPS: Final = 1e9
COLUMNS: Final = ("window_start_s", "requests_per_s")
"""Usual names of the columns of starts and rates."""


def has_rates_only(path: Path) -> bool:
    """Tell a file that says how many requests came when, and nothing of single ones.

    Raises:
        InputError: It cannot be read.
    """
    archive = client_set_of(path)
    if archive is not None:
        return not has_lengths(*archive)
    if ".csv" not in (suffix.lower() for suffix in path.suffixes[-2:]):
        return False
    with told(path), open_text(path) as file:
        _, names = next(csv_rows(path, bounded_lines(path, file)), (1, []))
    return set(COLUMNS) <= {name.strip() for name in names}


def read_rate_series(
    path: Path, columns: tuple[str, str], name: str | None = None
) -> tuple[Floats, Floats]:
    """Read starts of windows, in seconds and ascending, and the rate in each.

    Args:
        path: A CSV file (``.gz`` too), or the ``.tar.gz`` of client sets, ``#FOLDER`` added where
            it holds several.
        columns: Names of the columns of starts and rates of a CSV file.
        name: The value of the column ``workload``, where the file holds several series.

    Raises:
        InputError: The file cannot be read, or holds no such series.
    """
    archive = client_set_of(path)
    if archive is not None:
        return read_client_set(*archive).total_rate()
    start, rate, label, lines = _rows(path, columns)
    kinds = sorted(set(label))
    if name is None and len(kinds) > 1:
        raise InputError(f"{path}: holds several series; name one: {', '.join(kinds[:20])}")
    mine = np.array(label) == (kinds[0] if name is None else name)
    if not mine.any():
        raise InputError(f"{path}: there is no series {name!r}; {nearest(str(name), kinds)}")
    start, rate = start[mine], rate[mine]
    back = np.diff(start) <= 0
    if back.any():
        later = int(np.argmax(back)) + 1
        row = int(np.flatnonzero(mine)[later])
        raise InputError(
            f"{row_place(path, row + 1, lines[row] if lines else None)}: {columns[0]} is"
            f" {start[later]:g} after {start[later - 1]:g}; starts of a series must ascend"
        )
    if not rate.any():
        raise InputError(f"{path}: no {columns[1]} is above 0; a series needs one that is")
    return start, rate


def _rows(path: Path, columns: tuple[str, str]) -> tuple[Floats, Floats, list[str], list[int]]:
    """Return starts, rates and names of series of all rows, and their lines if there are lines."""
    starts: list[Floats] = []
    rates: list[Floats] = []
    names: list[str] = []
    lines: list[int] = []
    for chunk in read_chunks(path):
        for column in columns:
            if not chunk.has(column):
                raise InputError(
                    f"{path}: there is no column {column!r}; {nearest(column, chunk.names)}"
                )
        for column, kept, high in zip(
            columns, (starts, rates), (LONGEST_SPAN_S, MOST_RPS), strict=True
        ):
            kept.append(_numbers(path, chunk, column, high))
        names += chunk.column("workload") if chunk.has("workload") else [""] * chunk.rows
        lines += chunk.lines
        if len(names) > MOST_WINDOWS:
            raise InputError(f"{path}: more than {MOST_WINDOWS:,} windows; take longer ones")
    if not starts:
        raise InputError(f"{path}: is empty; it needs one window a row")
    return np.concatenate(starts), np.concatenate(rates), names, lines


def _numbers(path: Path, chunk: Chunk, column: str, high: float) -> Floats:
    try:
        values = parse_numbers(chunk.column(column))
    except WrongValueError as error:
        raise InputError(f"{chunk.place(path, error.at)}: {column} is {error}") from error
    good = (values >= 0) & (values <= high)
    if not good.all():
        at = int(np.argmin(good))
        raise InputError(
            f"{chunk.place(path, at)}: {column} is {shown(chunk.column(column)[at])};"
            f" expected a number from 0 to {high:g}"
        )
    return values
