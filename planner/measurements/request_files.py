"""Rows of request logs, some ten thousand at a time, so that gigabytes pass through little memory.

A chunk gives columns by name. CSV and JSONL are read with and without ``.gz``; Parquet through
polars.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar, cast

from planner.errors import InputError
from planner.measurements.text_lines import (
    bounded_lines,
    column_names,
    csv_rows,
    json_row,
    open_text,
    told,
)
from planner.source import refuse_odd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from polars import Series

T = TypeVar("T")
ROWS: Final = 65_536
"""Rows of one chunk."""
CHUNK_CHARACTERS: Final = 16 * 2**20
"""About how much text is held at once: fewer rows are, where they are long."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows in a row of a file.

    Args:
        first_row: Number of the first, counted from 1 without the header.
        names: Columns that there are.
        rows: How many.
        data: Columns of CSV and Parquet by name; the rows themselves for JSONL.
        lines: On which line of the text each row ends; empty for Parquet, which has none.
    """

    first_row: int
    names: tuple[str, ...]
    rows: int
    data: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]
    lines: Sequence[int] = ()

    def place(self, path: Path, at: int) -> str:
        """Say where a row of this chunk is written: by its line, or its number in Parquet."""
        return row_place(path, self.first_row + at, self.lines[at] if self.lines else None)

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


def row_place(path: Path, row: int, line: int | None) -> str:
    """Say where a row is written: by its line, or by its number in a file without lines."""
    return f"{path}: row {row}" if line is None else f"{path}:{line}:1"


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
        raise InputError(
            f"{path}: a request log is CSV, JSONL, either with .gz, or Parquet, told by the name's"
            " ending; else it is a scrape of vLLM's /metrics, and this is none"
        )
    with told(path), open_text(path) as file:
        yield from read(path, file)


def _csv_chunks(path: Path, file: TextIO) -> Iterator[Chunk]:
    reader = csv_rows(path, bounded_lines(path, file))
    line, header = next(reader, (1, None))
    if header is None:
        return
    names = column_names(f"{path}:{line}:1", header)
    number = 1
    while found := list(_some(reader, lambda row: _size(path, row, len(names)))):
        rows = [cells for _, cells in found if cells]
        lines = [line for line, cells in found if cells]
        if rows:
            columns = dict(zip(names, zip(*rows, strict=True), strict=True))
            yield Chunk(number, names, len(rows), columns, lines)
            number += len(rows)


def _size(path: Path, row: tuple[int, list[str]], columns: int) -> int:
    """Return about how many characters a row of a table has.

    Raises:
        InputError: It has too few cells, or too many.
    """
    line, cells = row
    if cells and len(cells) != columns:
        raise InputError(
            f"{path}:{line}:1: {len(cells)} cells where the header has {columns};"
            " quote what holds a comma, or mend the row"
        )
    return sum(map(len, cells)) + len(cells)


def _some(source: Iterator[T], size: Callable[[T], int]) -> Iterator[T]:
    """Yield the next items, as many as a chunk holds."""
    left = CHUNK_CHARACTERS
    for item in islice(source, ROWS):
        yield item
        left -= size(item)
        if left < 0:
            return


def _json_chunks(path: Path, file: TextIO) -> Iterator[Chunk]:
    number, line_number = 1, 0
    source = bounded_lines(path, file)
    while lines := list(_some(source, len)):
        rows, places = [], []
        for line in lines:
            line_number += 1
            if line.strip():
                rows.append(json_row(path, line_number, line))
                places.append(line_number)
        if rows:
            yield Chunk(number, tuple(map(str, rows[0])), len(rows), rows, places)
            number += len(rows)


def _reach(row: Mapping[str, Any], name: str) -> Any:
    if name in row:
        return row[name]
    here: Any = row
    for step in name.split("."):
        here = here.get(step) if isinstance(here, dict) else None
    return here


def _parquet_chunks(path: Path) -> Iterator[Chunk]:
    """Read Parquet by batches; what lies in a struct is a column of its own, named by dots."""
    import polars as pl

    first = 1
    with told(path):
        refuse_odd(path)
        if not path.is_file():
            path.open("rb").close()  # says what it is instead
        try:
            table = pl.scan_parquet(path)
            for batch in table.collect_batches(chunk_size=ROWS, maintain_order=True):
                for part in batch.iter_slices(ROWS):
                    columns = dict(_flat(part.get_columns()))
                    yield Chunk(first, tuple(columns), part.height, columns)
                    first += part.height
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            why = (str(error).splitlines() or [type(error).__name__])[0][:200]
            raise InputError(
                f"{path}: cannot be read as Parquet: {why}; write it again, or as CSV"
            ) from error


def _flat(columns: Sequence[Series], within: str = "") -> Iterator[tuple[str, Sequence[Any]]]:
    for column in columns:
        name = f"{within}{column.name}"
        if hasattr(column.dtype, "fields"):
            yield from _flat(column.struct.unnest().get_columns(), f"{name}.")
        else:
            yield name, column.to_list()
