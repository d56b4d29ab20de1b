"""Request traces: prompt and output lengths, one request a row, as CSV or JSONL."""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import zlib
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

import numpy as np

from planner.errors import InputError, nearest
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
LONGEST_LINE: Final = 1_000_000
"""Characters of a line; traces that carry the texts themselves have long ones."""


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
            length that is no whole number of tokens; told with its line.
    """
    prompts: list[int] = []
    outputs: list[int] = []
    with _told(path), _open(path) as file:
        names = columns
        for line, row in _rows(path, file):
            names = names or _columns_of(path, row)
            prompts.append(_tokens(path, line, names[0], row, least=1))
            outputs.append(max(_tokens(path, line, names[1], row, least=0), 1))
            if len(prompts) > MOST_ROWS:
                raise InputError(f"{path}: more than {MOST_ROWS:,} rows; sample the trace")
    if not prompts:
        raise InputError(f"{path}: the trace is empty; it needs one request a row")
    return np.array(prompts, np.int64), np.array(outputs, np.int64)


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """Say why a file cannot be read, in place of the system's error."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: is a folder; name a file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text; save it as UTF-8") from error
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read: {why}") from error
    except ValueError as error:
        raise InputError(f"{str(path)!r}: cannot be read: {error}") from error


def _open(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return cast("TextIO", gzip.open(path, "rt", encoding="utf-8-sig", newline=""))
    return path.open("r", encoding="utf-8-sig", newline="")


def _lines(path: Path, file: TextIO) -> Iterator[str]:
    """Yield lines; one that never ends, as a device's or an archive's, must not fill the memory."""
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise InputError(
                f"{path}:{number}:1: a line of more than {LONGEST_LINE:,} characters; a trace has"
                " one request a line"
            )
        yield line


def _rows(path: Path, file: TextIO) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield each row with the line on which it ends, counted from 1."""
    lines = _lines(path, file)
    if ".jsonl" in path.suffixes or ".json" in path.suffixes:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield number, _json_row(path, number, line)
    else:
        reader = csv.DictReader(lines)
        for row in reader:
            yield reader.line_num, row


def _json_row(path: Path, number: int, line: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
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


def _tokens(path: Path, line: int, name: str, row: Mapping[str, Any], *, least: int) -> int:
    if name not in row:
        known: Iterable[str] = [str(k) for k in row]
        raise InputError(f"{path}:{line}:1: there is no {name!r}; {nearest(name, known)}")
    text = row[name]
    if text is None:
        raise InputError(f"{path}:{line}:1: {name} is missing; give the row all its columns")
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
    with _told(path), _open(path) as file:
        for line, row in _rows(path, file):
            cell = [_tokens(path, line, name, row, least=1) for name in names[:4]]
            cell.append(_tokens(path, line, "count", row, least=0))
            if cell[0] > cell[1] or cell[2] > cell[3]:
                raise InputError(f"{path}:{line}:1: a low bound is above its high bound; swap them")
            cells.append(cell)
    if not any(cell[4] for cell in cells):
        raise InputError(f"{path}: the histogram is empty; it needs a cell with a count")
    return tuple(np.array(cells, np.int64).T)
