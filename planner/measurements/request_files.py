"""Rows of request logs, some ten thousand at a time, so that gigabytes pass through little memory.

A chunk gives columns by name. CSV and JSONL are read with and without ``.gz``; Parquet through
polars or pyarrow, whichever is installed.
"""

from __future__ import annotations

import csv
import importlib.util
import json
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from planner.errors import InputError
from planner.measurements.text_lines import bounded_lines, open_text, told

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

ROWS: Final = 65_536
"""Rows of one chunk."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows in a row of a file.

    Args:
        first_row: Number of the first, counted from 1 without the header.
        names: Columns that there are.
        rows: How many.
        data: Columns of CSV and Parquet by name; the rows themselves for JSONL.
    """

    first_row: int
    names: tuple[str, ...]
    rows: int
    data: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]

    def column(self, name: str) -> Sequence[Any]:
        """Return a column; of JSONL, a dotted name reaches into objects, and gaps are ``None``."""
        if isinstance(self.data, list):
            return [_reach(row, name) for row in self.data]
        return cast("Mapping[str, Sequence[Any]]", self.data)[name]

    def has(self, name: str) -> bool:
        """Tell whether there is such a column (of JSONL: in the first row)."""
        if isinstance(self.data, list):
            return _reach(self.data[0], name) is not None or name in self.names
        return name in self.names


def read_chunks(path: Path) -> Iterator[Chunk]:
    """Read a log by chunks; there is at least one row in each.

    Raises:
        InputError: The file cannot be read, is of no known kind, or a row is no row.
    """
    kinds = {".csv": _csv_chunks, ".jsonl": _json_chunks, ".json": _json_chunks}
    suffixes = [s.lower() for s in path.suffixes]
    if suffixes and suffixes[-1] == ".parquet":
        yield from _parquet_chunks(path)
        return
    read = next((kinds[s] for s in reversed(suffixes[-2:]) if s in kinds), None)
    if read is None:
        known = "CSV, JSONL, either with .gz, or Parquet"
        raise InputError(f"{path}: a request log is {known}, told by the name's ending")
    with told(path), open_text(path) as file:
        yield from read(path, file)


def _csv_chunks(path: Path, file: TextIO) -> Iterator[Chunk]:
    reader = csv.reader(bounded_lines(path, file))
    header = next(reader, None)
    if header is None:
        return
    names = tuple(name.strip() for name in header)
    number = 1
    while rows := [row for row in islice(reader, ROWS) if row]:
        if set(map(len, rows)) != {len(names)}:
            at = next(i for i, row in enumerate(rows) if len(row) != len(names))
            raise InputError(
                f"{path}: row {number + at} has {len(rows[at])} fields; the header has {len(names)}"
            )
        yield Chunk(
            number, names, len(rows), dict(zip(names, zip(*rows, strict=True), strict=True))
        )
        number += len(rows)


def _json_chunks(path: Path, file: TextIO) -> Iterator[Chunk]:
    number, line_number = 1, 0
    source = bounded_lines(path, file)
    while lines := list(islice(source, ROWS)):
        rows = []
        for line in lines:
            line_number += 1
            if line.strip():
                rows.append(_json_row(path, line_number, line))
        if rows:
            yield Chunk(number, tuple(map(str, rows[0])), len(rows), rows)
            number += len(rows)


def _json_row(path: Path, number: int, line: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}:{number}:1: not JSON; a log has one object a line") from error
    if not isinstance(row, dict):
        raise InputError(f"{path}:{number}:1: expected an object with the columns of a request")
    return row


def _reach(row: Mapping[str, Any], name: str) -> Any:
    if name in row:
        return row[name]
    here: Any = row
    for step in name.split("."):
        here = here.get(step) if isinstance(here, dict) else None
    return here


def _parquet_chunks(path: Path) -> Iterator[Chunk]:
    """Read Parquet with a library that is not required: it is heavy, and few need it."""
    if importlib.util.find_spec("pyarrow") is not None:
        parquet = importlib.import_module("pyarrow.parquet")
        number = 1
        try:
            for batch in parquet.ParquetFile(path).iter_batches(batch_size=ROWS):
                if batch.num_rows:
                    columns = batch.to_pydict()
                    yield Chunk(number, tuple(columns), batch.num_rows, columns)
                    number += batch.num_rows
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: cannot be read: {error}") from error
        return
    if importlib.util.find_spec("polars") is not None:
        yield from _polars_chunks(path)
        return
    raise InputError(
        f"{path}: reading Parquet needs pyarrow or polars, and neither is installed; install one,"
        " or write the log as CSV"
    )


def _polars_chunks(path: Path) -> Iterator[Chunk]:
    polars = importlib.import_module("polars")
    try:
        table = polars.read_parquet(path)
    except (OSError, polars.exceptions.PolarsError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    for first in range(0, table.height, ROWS):
        part = table.slice(first, ROWS)
        columns = {name: part[name].to_list() for name in part.columns}
        yield Chunk(first + 1, tuple(columns), part.height, columns)
