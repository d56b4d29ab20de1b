"""Tables of measurements as text: CSV, plain or gzipped."""

from __future__ import annotations

import csv
import gzip
import zlib
from typing import IO, TYPE_CHECKING, Final

from planner.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_GZIP: Final = b"\x1f\x8b"


def header_of(path: Path) -> tuple[str, ...]:
    """Return the column names of a table.

    Raises:
        InputError: It cannot be read.
    """
    return tuple(next(_lines(path), []))


def rows_of(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a table, by column; a cell that is missing is empty.

    Raises:
        InputError: It cannot be read.
    """
    lines = _lines(path)
    names = next(lines, [])
    for cells in lines:
        if cells:
            yield dict.fromkeys(names, "") | dict(zip(names, cells, strict=False))


def _lines(path: Path) -> Iterator[list[str]]:
    try:
        with _opened(path) as file:
            yield from csv.reader(file)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error, EOFError, zlib.error) as error:
        raise InputError(f"{path}: is no table of comma-separated text: {error}") from error


def _opened(path: Path) -> IO[str]:
    with path.open("rb") as file:
        zipped = file.read(2) == _GZIP
    if zipped:
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def number(cells: Mapping[str, str], name: str) -> float | None:
    """Return a number of a row; None where the cell is empty or missing.

    Raises:
        InputError: It is no number.
    """
    text = (cells.get(name) or "").strip()
    if text in ("", "nan"):
        return None
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{name}: expected a number, got {text!r}") from None


def required(cells: Mapping[str, str], name: str) -> float:
    """Return a number above 0 of a row.

    Raises:
        InputError: It is none, or not stated.
    """
    value = number(cells, name)
    if value is None or not 0 < value < float("inf"):
        raise InputError(f"{name}: not stated" if value is None else f"{name}: must be above 0")
    return value
