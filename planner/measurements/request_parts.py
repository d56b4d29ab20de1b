"""Requests as they are read, part by part, and the trace that they make together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.errors import InputError
from planner.measurements.request_files import row_place
from planner.measurements.request_times import LONGEST_SPAN_S
from planner.measurements.request_trace import (
    PrefixBlocks,
    RequestTrace,
    find_tick,
    impute_lengths,
)

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

MOONCAKE_BLOCK: Final = 512


@dataclass(slots=True)
class Parts:
    """What has been read so far, chunk by chunk."""

    time: list[NDArray[np.float64]] = field(default_factory=list)
    prompt: list[NDArray[np.float64]] = field(default_factory=list)
    output: list[NDArray[np.float64]] = field(default_factory=list)
    failed: list[NDArray[np.bool_]] = field(default_factory=list)
    client: list[NDArray[np.int32]] = field(default_factory=list)
    session: list[NDArray[np.int32]] = field(default_factory=list)
    lengths_of_prefix: list[NDArray[np.int64]] = field(default_factory=list)
    names_of_prefix: list[NDArray[np.int64]] = field(default_factory=list)
    line: list[NDArray[np.int32]] = field(default_factory=list)
    """On which line of a text each row ends; empty where a file has none."""
    start: str | None = None
    rows: int = 0


def assemble(path: Path, time: str, parts: Parts, *notes_before: str) -> RequestTrace:
    """Put a trace together: unknown lengths filled, in order of arrival, ticks of a clock found.

    Args:
        path: The file, for messages.
        time: What the file calls the time of arrival.
        parts: What was read.
        notes_before: What else was assumed in reading.

    Raises:
        InputError: No request has both lengths, or times lie decades apart.
    """
    notes = list(notes_before)
    raw_prompt, raw_output = np.concatenate(parts.prompt), np.concatenate(parts.output)
    failed = np.concatenate(parts.failed)
    try:
        prompt, output = impute_lengths(raw_prompt, raw_output)
    except ValueError as error:
        raise InputError(f"{path}: {error}; a trace needs completed requests") from error
    unknown = int(np.isnan(raw_output).sum())
    if failed.any():
        what = f"{int(failed.sum()):,} of {failed.size:,} requests failed, were cancelled or"
        what += " rejected; they stay in the demand"
        if unknown:
            what += f", {unknown:,} of them with the output of a request of about the same prompt"
        notes.append(what)
    order: NDArray[np.int64] | slice = slice(None)
    time_s, tick_s = None, 0.0
    if parts.time:
        time_s = np.concatenate(parts.time)
        _refuse_far_apart(path, time, time_s, parts.line)
        if (np.diff(time_s) < 0).any():
            order = np.argsort(time_s, kind="stable")
            time_s = time_s[order]
            notes.append("rows were put in order of arrival")
        time_s = time_s - time_s[0]
        tick_s = find_tick(time_s)
        if tick_s:
            notes.append(
                f"arrivals are stamped in ticks of {tick_s:g} s; they are spread over their tick"
            )
    return RequestTrace(
        time_s=time_s,
        prompt=prompt.astype(np.int32)[order],
        output=output.astype(np.int32)[order],
        failed=failed[order],
        client=np.concatenate(parts.client)[order] if parts.client else None,
        session=np.concatenate(parts.session)[order] if parts.session else None,
        prefix=_prefix(parts, order),
        tick_s=tick_s,
        start=parts.start,
        notes=tuple(notes),
    )


def _refuse_far_apart(
    path: Path, name: str, time_s: NDArray[np.float64], line: list[NDArray[np.int32]]
) -> None:
    """Refuse a log over decades: it has times of two kinds, or they are read in a wrong unit."""
    span_s = float(np.ptp(time_s))
    if span_s <= LONGEST_SPAN_S:
        return
    ascending = np.sort(time_s)
    gap = int(np.argmax(np.diff(ascending)))
    early = time_s <= ascending[gap]
    few = early if early.sum() <= early.size / 2 else ~early
    year = 365.25 * 86_400
    at = int(np.argmax(few))
    where = row_place(path, at + 1, int(np.concatenate(line)[at]) if line else None)
    raise InputError(
        f"{where}: {name} lies {span_s / year:,.0f} years from that"
        f" of other rows, and no log covers more than {LONGEST_SPAN_S / year:.0f}; mend the row,"
        " or name the unit of all: --column time_unit=ms"
    )


def _prefix(parts: Parts, order: NDArray[np.int64] | slice) -> PrefixBlocks | None:
    if not parts.lengths_of_prefix:
        return None
    count = np.concatenate(parts.lengths_of_prefix)
    _, dense = np.unique(np.concatenate(parts.names_of_prefix), return_inverse=True)
    name = dense.astype(np.int32)
    start = np.concatenate([[0], np.cumsum(count)])
    if isinstance(order, slice):
        return PrefixBlocks(start, name, MOONCAKE_BLOCK)
    pieces = [name[start[i] : start[i + 1]] for i in order]
    moved = np.concatenate([[0], np.cumsum(count[order])])
    return PrefixBlocks(moved, np.concatenate(pieces), MOONCAKE_BLOCK)
