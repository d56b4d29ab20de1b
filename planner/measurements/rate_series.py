"""Rates by window of time: CSV files, or the sum over a ServeGen client set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.errors import InputError, nearest
from planner.measurements.client_sets import client_set_of, read_client_set
from planner.measurements.request_files import read_chunks
from planner.measurements.request_times import parse_numbers

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


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
    start, rate, label = _rows(path, columns)
    kinds = sorted(set(label))
    if name is None and len(kinds) > 1:
        raise InputError(f"{path}: holds several series; name one of {', '.join(kinds)}")
    mine = np.array(label) == (kinds[0] if name is None else name)
    if not mine.any():
        raise InputError(f"{path}: there is no series {name!r}; {nearest(str(name), kinds)}")
    start, rate = start[mine], rate[mine]
    if not (np.isfinite(start).all() and np.isfinite(rate).all() and (rate >= 0).all()):
        raise InputError(f"{path}: a start or a rate is missing, negative or no number")
    if not rate.sum() > 0 or (np.diff(start) <= 0).any():
        raise InputError(f"{path}: starts must ascend, and some rate be above 0")
    return start, rate


def _rows(path: Path, columns: tuple[str, str]) -> tuple[Floats, Floats, list[str]]:
    """Return starts, rates and names of series of all rows."""
    starts: list[Floats] = []
    rates: list[Floats] = []
    names: list[str] = []
    for chunk in read_chunks(path):
        for column in columns:
            if not chunk.has(column):
                raise InputError(
                    f"{path}: there is no column {column!r}; {nearest(column, chunk.names)}"
                )
        try:
            starts.append(parse_numbers(chunk.column(columns[0])))
            rates.append(parse_numbers(chunk.column(columns[1])))
        except ValueError as error:
            raise InputError(f"{path}: {error}") from error
        names += chunk.column("workload") if chunk.has("workload") else [""] * chunk.rows
    if not starts:
        raise InputError(f"{path}: is empty; it needs one window a row")
    return np.concatenate(starts), np.concatenate(rates), names
