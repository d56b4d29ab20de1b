"""Length histograms as CSV, and the names that traces give to lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TextIO

import numpy as np

from planner.errors import InputError, nearest
from planner.measurements.text_lines import bounded_lines, csv_table, json_row, open_text, told
from planner.units import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

KNOWN_COLUMNS: Final = (
    ("prompt_tokens", "output_tokens"),
    ("prompt_tokens", "completion_tokens"),
    ("ContextTokens", "GeneratedTokens"),
    ("input_length", "output_length"),
    ("input_tokens", "output_tokens"),
    ("num_prefill_tokens", "num_decode_tokens"),
    ("Request tokens", "Response tokens"),
)
"""Pairs of column names that common traces use; the first pair present is read."""

MOST_ROWS: Final = 20_000_000
LONGEST_TOKENS: Final = 10_000_000


def _rows(path: Path, file: TextIO) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield each row with the line on which it ends, counted from 1."""
    lines = bounded_lines(path, file)
    if ".jsonl" in path.suffixes or ".json" in path.suffixes:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield number, json_row(path, number, line)
    else:
        for row in csv_table(path, lines):
            if row.ragged:
                raise InputError(f"{path}:{row.line}:1: {row.ragged}; give each column one cell")
            yield row.line, row.cells


def _tokens(path: Path, line: int, name: str, row: Mapping[str, Any], *, least: int) -> int:
    if name not in row:
        known: Iterable[str] = [str(k) for k in row]
        raise InputError(f"{path}:{line}:1: there is no {name!r}; {nearest(name, known)}")
    text = row[name]
    try:
        value = float(text)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{path}:{line}:1: {name} is {shown(text)}, no number; mend or remove the row"
        ) from error
    if not (least <= value <= LONGEST_TOKENS) or value != int(value):
        raise InputError(
            f"{path}:{line}:1: {name} is {shown(text)}; expected a whole number of tokens"
            f" from {least} to {LONGEST_TOKENS:,}"
        )
    return int(value)


def read_histogram(path: Path) -> tuple[NDArray[np.int64], ...]:
    """Read a joint length histogram: prompt_low, prompt_high, output_low, output_high, count.

    Returns:
        The five columns, shape ``(cells,)`` each; bounds are inclusive, in tokens.

    Raises:
        InputError: The file cannot be read, lacks a column, or a cell makes no sense.
    """
    names = ("prompt_low", "prompt_high", "output_low", "output_high", "count")
    cells: list[list[int]] = []
    with told(path), open_text(path) as file:
        for line, row in _rows(path, file):
            cell = [_tokens(path, line, name, row, least=1) for name in names[:4]]
            cell.append(_tokens(path, line, "count", row, least=0))
            if cell[0] > cell[1] or cell[2] > cell[3]:
                raise InputError(f"{path}:{line}:1: a low bound is above its high bound; swap them")
            cells.append(cell)
    if not any(cell[4] for cell in cells):
        raise InputError(f"{path}: the histogram is empty; it needs a cell with a count")
    return tuple(np.array(cells, np.int64).T)
