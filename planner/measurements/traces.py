"""Request traces: prompt and output lengths, one request a row, as CSV or JSONL."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

import numpy as np

from planner.errors import InputError, nearest

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


def read_lengths(
    path: Path, columns: tuple[str, str] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Read the prompt and output lengths of a trace, in tokens; shape ``(rows,)`` each.

    Rows are streamed. An output of 0 tokens is kept as 1: the request was served and its
    prompt computed.

    Args:
        path: ``.csv`` or ``.jsonl``, each also with ``.gz``.
        columns: Names of the two columns; found among the known ones if left out.

    Raises:
        InputError: The file cannot be read, lacks the columns, holds no requests, or has a
            length that is no whole number of tokens; told with its row.
    """
    prompts: list[int] = []
    outputs: list[int] = []
    try:
        with _open(path) as file:
            names = columns
            for number, row in enumerate(_rows(path, file), start=1):
                names = names or _columns_of(path, row)
                prompts.append(_tokens(path, number, names[0], row, least=1))
                outputs.append(max(_tokens(path, number, names[1], row, least=0), 1))
                if number > MOST_ROWS:
                    raise InputError(f"{path}: more than {MOST_ROWS:,} rows; sample the trace")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    if not prompts:
        raise InputError(f"{path}: the trace is empty; it needs one request a row")
    return np.array(prompts, np.int64), np.array(outputs, np.int64)


def _open(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return cast("TextIO", gzip.open(path, "rt", encoding="utf-8-sig", newline=""))
    return path.open("r", encoding="utf-8-sig", newline="")


def _rows(path: Path, file: TextIO) -> Iterator[Mapping[str, Any]]:
    if ".jsonl" in path.suffixes or ".json" in path.suffixes:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield _json_row(path, number, line)
    else:
        yield from csv.DictReader(file)


def _json_row(path: Path, number: int, line: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path}:{number}:1: not JSON; a trace has one object a line") from error
    if not isinstance(row, dict):
        raise InputError(f"{path}:{number}:1: expected an object with the two lengths")
    return row


def _columns_of(path: Path, row: Mapping[str, Any]) -> tuple[str, str]:
    for pair in KNOWN_COLUMNS:
        if all(name in row for name in pair):
            return pair
    there = ", ".join(str(name) for name in row)
    raise InputError(
        f"{path}: no known pair of length columns among {there}; name them with"
        " columns: {prompt: ..., output: ...}"
    )


def _tokens(path: Path, number: int, name: str, row: Mapping[str, Any], *, least: int) -> int:
    if name not in row:
        known: Iterable[str] = [str(k) for k in row]
        raise InputError(f"{path}: row {number} has no {name!r}; {nearest(name, known)}")
    try:
        value = float(row[name])
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: row {number}: {name} is {row[name]!r}, no number") from error
    if not (least <= value <= LONGEST_TOKENS) or value != int(value):
        raise InputError(
            f"{path}: row {number}: {name} is {row[name]}; expected a whole number of tokens"
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
    try:
        with _open(path) as file:
            for number, row in enumerate(csv.DictReader(file), start=1):
                cell = [_tokens(path, number, name, row, least=1) for name in names[:4]]
                cell.append(_tokens(path, number, "count", row, least=0))
                if cell[0] > cell[1] or cell[2] > cell[3]:
                    raise InputError(f"{path}: row {number}: a low bound is above its high bound")
                cells.append(cell)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    if not any(cell[4] for cell in cells):
        raise InputError(f"{path}: the histogram is empty; it needs a cell with a count")
    return tuple(np.array(cells, np.int64).T)
