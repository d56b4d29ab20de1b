"""Request logs and traces: arrival, lengths, fate, client and prefix of every request.

The known layouts are found by their column names: Azure 2023 and 2024, Mooncake, BurstGPT, and
the usual names of gateway and engine logs. A mapping names other columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planner.errors import InputError, nearest
from planner.measurements.request_files import read_chunks
from planner.measurements.request_parts import Parts, assemble
from planner.measurements.request_times import (
    UNITS,
    WrongValueError,
    parse_moments,
    parse_numbers,
    parse_times,
    unit_of,
)
from planner.measurements.traces import KNOWN_COLUMNS, LONGEST_TOKENS
from planner.units import SHOWN, shown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from planner.measurements.request_files import Chunk
    from planner.measurements.request_trace import RequestTrace

MOST_ROWS: Final = 50_000_000
_MOST_BLOCK: Final = 2**63

KNOWN: Final[dict[str, tuple[str, ...]]] = {
    "time": (
        *("TIMESTAMP", "Timestamp", "timestamp", "arrival_time", "arrived_at", "arrival"),
        *("arrival_time_s", "arrival_s", "request_time", "start_time", "created_at", "created"),
        *("timestamp_ms", "ts", "time", "startTime"),
    ),
    "status": ("status", "status_code", "Status", "outcome", "finish_reason", "error"),
    "client": ("client_id", "client", "user_id", "user", "tenant", "api_key", "team"),
    "session": ("Session ID", "session_id", "conversation_id", "session"),
    "prefix": ("hash_ids", "block_hashes"),
}
"""Column names that common logs use, by what they tell."""

_FAILED: Final = ("fail", "error", "cancel", "abort", "reject", "timeout", "timed", "refused")
"""A status that holds one of these words is no success."""


@dataclass(frozen=True, slots=True)
class RequestColumns:
    """Names of columns where they are not among the known ones."""

    time: str | None = None
    time_unit: str | None = None
    """``s``, ``ms``, ``us`` or ``ns``, of numeric times."""
    prompt: str | None = None
    output: str | None = None
    status: str | None = None
    client: str | None = None
    session: str | None = None


def read_requests(path: Path, columns: RequestColumns | None = None) -> RequestTrace:
    """Read a request log or trace, whole but chunk by chunk.

    Args:
        path: CSV, JSONL (either with ``.gz``) or Parquet.
        columns: Names of columns; those left out are found among the known ones.

    Raises:
        InputError: The file cannot be read, lacks lengths, or a value makes no sense; told with
            its row.
    """
    parts = Parts()
    reader: _Reader | None = None
    for chunk in read_chunks(path):
        reader = reader or _Reader(path, chunk, columns or RequestColumns())
        reader.take(chunk, parts)
        if parts.rows > MOST_ROWS:
            raise InputError(f"{path}: more than {MOST_ROWS:,} rows; sample the log")
    if reader is None:
        raise InputError(f"{path}: the trace is empty; it needs one request a row")
    return assemble(path, str(reader.time), parts)


class _Reader:
    """Knows where a file keeps what, and turns its columns into numbers."""

    def __init__(self, path: Path, first: Chunk, columns: RequestColumns) -> None:
        self.path = path
        self.codes: dict[str, dict[Any, int]] = {"client": {}, "session": {}}
        self.prompt, self.output = self._lengths(first, columns)
        self.time = self._find(first, "time", columns.time)
        self.status = self._find(first, "status", columns.status)
        self.client = self._find(first, "client", columns.client)
        self.session = self._find(first, "session", columns.session)
        self.prefix = self._find(first, "prefix", None)
        self.unit = columns.time_unit
        if self.unit is not None and self.unit not in UNITS:
            raise InputError(f"{path}: {self.unit!r} is no unit of time; use s, ms, us or ns")
        if self.unit is None and self.prefix is not None and self.time == "timestamp":
            self.unit = "ms"  # Mooncake counts milliseconds from its start
        self.by_text = False

    def _lengths(self, first: Chunk, columns: RequestColumns) -> tuple[str, str]:
        pairs = [(columns.prompt, columns.output)] if columns.prompt or columns.output else []
        if pairs and None in pairs[0]:
            raise InputError(f"{self.path}: name both length columns, prompt and output")
        usage = (("usage.prompt_tokens", "usage.completion_tokens"),)
        for pair in (*pairs, *([] if pairs else (*KNOWN_COLUMNS, *usage))):
            if all(name is not None and first.has(name) for name in pair):
                return str(pair[0]), str(pair[1])
        if pairs:
            missing = next(str(n) for n in pairs[0] if not first.has(str(n)))
            raise InputError(
                f"{self.path}: there is no column {missing!r}; {nearest(missing, first.names)}"
            )
        names = [name if len(name) <= SHOWN else f"{name[: SHOWN - 1]}…" for name in first.names]
        listed = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if names[20:] else "")
        raise InputError(
            f"{self.path}: no known pair of length columns among {listed}; name them: --column"
            " prompt=NAME --column output=NAME"
        )

    def _find(self, first: Chunk, what: str, wanted: str | None) -> str | None:
        if wanted is not None:
            if not first.has(wanted):
                raise InputError(
                    f"{self.path}: there is no column {wanted!r}; {nearest(wanted, first.names)}"
                )
            return wanted
        return next((name for name in KNOWN[what] if first.has(name)), None)

    def take(self, chunk: Chunk, parts: Parts) -> None:
        """Add the rows of a chunk."""
        prompt, output = self._tokens(chunk, self.prompt), self._tokens(chunk, self.output)
        failed = np.isnan(output) | np.isnan(prompt) | (prompt < 1)
        if self.status is not None:
            failed |= _failures(chunk.column(self.status))
        else:
            failed |= output < 1  # without another sign, no token means no answer
        output = np.where(failed & ~(output >= 1), np.nan, np.maximum(output, 1))
        parts.prompt.append(np.where(prompt < 1, np.nan, prompt))
        parts.output.append(output)
        parts.failed.append(failed)
        if self.time is not None:
            parts.time.append(self._times(chunk, self.time, parts))
        for name, column in (("client", self.client), ("session", self.session)):
            if column is not None:
                getattr(parts, name).append(self._numbered(name, chunk.column(column)))
        if self.prefix is not None:
            self._prefixes(chunk, self.prefix, parts)
        parts.rows += chunk.rows
        if chunk.lines:
            parts.line.append(np.array(chunk.lines, np.int32))

    def _tokens(self, chunk: Chunk, name: str) -> NDArray[np.float64]:
        try:
            values = parse_numbers(chunk.column(name))
        except WrongValueError as error:
            raise self._blame(chunk, name, error) from error
        wrong = ~np.isnan(values) & ~(
            (values >= 0) & (values <= LONGEST_TOKENS) & (values == np.floor(values))
        )
        if wrong.any():
            at = int(np.argmax(wrong))
            raise InputError(
                f"{chunk.place(self.path, at)}: {name} is {values[at]:g}; expected a whole"
                f" number of tokens from 0 to {LONGEST_TOKENS:,}"
            )
        return values

    def _times(self, chunk: Chunk, name: str, parts: Parts) -> NDArray[np.float64]:
        values = chunk.column(name)
        if parts.start is None:
            parts.start = str(values[0])
            try:
                first = parse_numbers(values[:1])
                self.unit = self.unit or unit_of(name, float(first[0]))
            except WrongValueError:
                self.by_text = True
        try:
            if self.by_text:
                return parse_moments(values)
            return parse_times(values, self.unit or "s")
        except WrongValueError as error:
            raise self._blame(chunk, name, error) from error

    def _blame(self, chunk: Chunk, name: str, error: WrongValueError) -> InputError:
        return InputError(f"{chunk.place(self.path, error.at)}: {name} is {error}")

    def _numbered(self, what: str, values: Sequence[Any]) -> NDArray[np.int32]:
        codes = self.codes[what]
        empty = -1 if what == "session" else codes.setdefault("", 0)
        return np.array(
            [
                empty if value in (None, "") else codes.setdefault(str(value), len(codes))
                for value in values
            ],
            np.int32,
        )

    def _prefixes(self, chunk: Chunk, name: str, parts: Parts) -> None:
        lists = chunk.column(name)
        wrong = next((i for i, one in enumerate(lists) if not _are_blocks(one)), None)
        if wrong is not None:
            raise InputError(
                f"{chunk.place(self.path, wrong)}: {name} is {shown(lists[wrong])}; expected a"
                " list of block ids, whole numbers below 2^63"
            )
        names = np.array([block for one in lists for block in one], np.int64)
        parts.names_of_prefix.append(names)
        parts.lengths_of_prefix.append(np.array([len(one) for one in lists], np.int64))


def _are_blocks(value: Any) -> bool:
    return isinstance(value, list) and all(
        type(block) is int and -_MOST_BLOCK <= block < _MOST_BLOCK for block in value
    )


def _failures(values: Sequence[Any]) -> NDArray[np.bool_]:
    """Tell which statuses mean no success; HTTP codes from 400 on, or words."""
    verdicts = {value: _is_failure(value) for value in {str(v) for v in values}}
    return np.array([verdicts[str(value)] for value in values], np.bool_)


def _is_failure(status: str) -> bool:
    word = status.strip().lower()
    if word in ("", "none", "null", "false", "0", "ok"):
        return False
    try:
        return float(word) >= 400
    except ValueError:
        return word == "true" or any(part in word for part in _FAILED)
