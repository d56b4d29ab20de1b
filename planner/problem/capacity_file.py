"""Measured capacity per accelerator and request size, in the JSON form of other planners."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from planner.errors import InputError, Where, nearest
from planner.source import Source, dotted, json_places, read_text
from planner.units import shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from planner.source import Loc

    Matrix = tuple[tuple[float, ...], ...]
    Shape = tuple[int, int]
    Mistakes = list[tuple[Loc, str]]

MAX_BYTES: Final = 16 * 2**20
SUM_TOLERANCE: Final = 1e-6
"""How far shares may be from 1 together: they were written with few digits."""


@dataclass(frozen=True, slots=True)
class FileBucket:
    """One cell of the file's matrices."""

    id: str
    input_tokens: float | None
    output_tokens: float | None
    share: float | None
    """Of all requests; None where the file has no distribution."""


@dataclass(frozen=True, slots=True)
class FileAccelerator:
    """One accelerator of the file."""

    id: str
    usd_per_hour: float
    capacity_rps: tuple[float, ...]
    """Largest rate within the deadline by bucket, in the order of the buckets; 0 = cannot."""


@dataclass(frozen=True, slots=True)
class CapacityFile:
    """What a file of measured capacities says."""

    origin: str
    """Where the numbers come from, in the file's own words; empty where it is silent."""
    buckets: tuple[FileBucket, ...]
    accelerators: tuple[FileAccelerator, ...]
    rate_rps: float | None


def read_capacity_file(path: Path) -> CapacityFile:
    """Read capacities, prices and demand.

    ``gpu_info`` holds per accelerator ``cost`` (USD/h) and ``tputs`` (req/s; rows are output
    sizes, columns input sizes); ``workload_distribution`` the share of requests per cell;
    ``total_request_rate`` req/s; ``grid``, if there, the edges in tokens. Other keys are not read.

    Raises:
        InputError: One line per mistake, each with its place and its path in the document.
    """
    text = read_text(path, MAX_BYTES)
    mistakes: Mistakes = []
    data = _parse(text, str(path))
    if not isinstance(data, dict):
        raise InputError(f"{path}:1:1: expected keys and values; got {shown(data)}")
    info = _record(data, "gpu_info", mistakes)
    shape = _shape(data, info)
    shares = None
    if "workload_distribution" in data:
        shares = _matrix(data["workload_distribution"], ("workload_distribution",), shape, mistakes)
        _check_shares(shares, mistakes)
    grid = _grid(data, shape, mistakes)
    accelerators = list(_accelerators(info, shape, mistakes))
    rate = data.get("total_request_rate")
    if rate is not None:
        rate = _number(rate, ("total_request_rate",), mistakes, above=True)
    if mistakes:
        raise InputError("\n".join(_told(mistakes, text, path)))
    return CapacityFile(
        origin=data["origin"] if isinstance(data.get("origin"), str) else "",
        buckets=tuple(_buckets(shape, grid, shares)),
        accelerators=tuple(accelerators),
        rate_rps=rate,
    )


class _RepeatedKeyError(ValueError):
    """Two values under one key: which of them was meant?"""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _RepeatedKeyError(next(key for key in keys if keys.count(key) > 1))
    return record


def _parse(text: str, name: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        where = Where(name, error.lineno, error.colno)
        raise InputError(f"{where}: not JSON: {error.msg}; mend it there") from error
    except _RepeatedKeyError as error:
        raise InputError(f"{name}: key {str(error)!r} is repeated; keep one") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: not JSON: {error}") from error


def _told(mistakes: Mistakes, text: str, path: Path) -> Iterator[str]:
    """Give each mistake its line, where the document can be walked; its path in any case."""
    source = Source(str(path), None, {(): str(path), **json_places(text, str(path))})
    for loc, what in mistakes:
        yield f"{source.at(loc)}: {dotted(loc)}: {what}"


def _record(data: dict[str, Any], key: str, mistakes: Mistakes) -> dict[str, Any]:
    found = data.get(key)
    if key not in data:
        mistakes.append(((key,), f"is missing; {nearest(key, data)}"))
    elif not isinstance(found, dict) or not found:
        mistakes.append(((key,), f"expected accelerators by name; got {shown(found)}"))
    return found if isinstance(found, dict) else {}


def _shape(data: dict[str, Any], info: dict[str, Any]) -> Shape | None:
    """Return rows and columns as the first matrix has them, which all must share."""
    first = next((i.get("tputs") for i in info.values() if isinstance(i, dict)), None)
    for matrix in (data.get("workload_distribution"), first):
        if isinstance(matrix, list) and matrix and isinstance(matrix[0], list) and matrix[0]:
            return len(matrix), len(matrix[0])
    return None


def _accelerators(
    info: dict[str, Any], shape: Shape | None, mistakes: Mistakes
) -> Iterator[FileAccelerator]:
    for name, record in info.items():
        loc: Loc = ("gpu_info", name)
        if not name.strip():
            mistakes.append((loc, "an accelerator needs a name"))
        if not isinstance(record, dict):
            mistakes.append((loc, f"expected cost and tputs; got {shown(record)}"))
            continue
        missing = [key for key in ("cost", "tputs") if key not in record]
        mistakes += [((*loc, key), f"is missing; {nearest(key, record)}") for key in missing]
        if not missing:
            cost = _number(record["cost"], (*loc, "cost"), mistakes, above=True)
            rows = _matrix(record["tputs"], (*loc, "tputs"), shape, mistakes)
            yield FileAccelerator(name, cost, tuple(rate for row in rows for rate in row))


def _matrix(value: object, loc: Loc, shape: Shape | None, mistakes: Mistakes) -> Matrix:
    """Read a list of rows of one length."""
    if not isinstance(value, list) or not value or shape is None:
        mistakes.append((loc, f"expected a list of rows of numbers; got {shown(value)}"))
        return ()
    height, width = shape
    if len(value) != height:
        mistakes.append((loc, f"has {len(value)} rows where the first matrix has {height}"))
    rows = []
    for r, row in enumerate(value):
        at = (*loc, r)
        if not isinstance(row, list):
            mistakes.append((at, f"expected a row of numbers; got {shown(row)}"))
        elif len(row) != width:
            what = f"has {len(row)} columns where the first matrix has {width}"
            mistakes.append((at, f"{what}; every row needs as many"))
        else:
            rows.append(tuple(_number(x, (*at, c), mistakes) for c, x in enumerate(row)))
    return tuple(rows)


def _number(value: object, loc: Loc, mistakes: Mistakes, *, above: bool = False) -> float:
    """Read a finite number of at least 0 (or above it); 0, and a mistake, where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        mistakes.append((loc, f"expected a number; got {shown(value)}"))
        return 0.0
    number = float(value) if abs(value) < 1e300 else math.inf
    if not math.isfinite(number):
        mistakes.append((loc, f"expected a finite number; got {shown(value)}"))
    elif number < 0 or (above and number == 0):
        mistakes.append((loc, f"must be {'above' if above else 'at least'} 0; got {number:g}"))
    else:
        return number
    return 0.0


def _check_shares(shares: Matrix, mistakes: Mistakes) -> None:
    total = math.fsum(share for row in shares for share in row)
    if not mistakes and abs(total - 1) > SUM_TOLERANCE:
        what = f"the shares sum to {total:.9g}; they must sum to 1"
        mistakes.append((("workload_distribution",), what))


def _grid(
    data: dict[str, Any], shape: Shape | None, mistakes: Mistakes
) -> tuple[list[float], list[float]] | None:
    """Return the edges of rows (output) and columns (input), in tokens."""
    grid = data.get("grid")
    if grid is None or shape is None:
        return None
    if not isinstance(grid, dict):
        mistakes.append((("grid",), f"expected output_tokens and input_tokens; got {shown(grid)}"))
        return None
    edges = []
    for key, length in (("output_tokens", shape[0]), ("input_tokens", shape[1])):
        loc, found = ("grid", key), grid.get(key)
        if not isinstance(found, list) or len(found) != length:
            got = f"{len(found)}" if isinstance(found, list) else shown(found)
            mistakes.append((loc, f"expected a list of {length} edges; got {got}"))
            continue
        numbers = [_number(x, (*loc, i), mistakes, above=True) for i, x in enumerate(found)]
        if any(a >= b for a, b in itertools.pairwise(numbers)):
            mistakes.append((loc, "the edges must rise; sort them, each once"))
        edges.append(numbers)
    return (edges[0], edges[1]) if len(edges) == len(("output", "input")) else None


def _buckets(
    shape: Shape | None, grid: tuple[list[float], list[float]] | None, shares: Matrix | None
) -> Iterator[FileBucket]:
    height, width = shape or (0, 0)
    for r in range(height):
        for c in range(width):
            share = shares[r][c] if shares is not None else None
            if grid is None:
                yield FileBucket(f"row{r + 1}-col{c + 1}", None, None, share)
            else:
                output, prompt = grid[0][r], grid[1][c]
                name = f"in{_plain(prompt)}-out{_plain(output)}"
                yield FileBucket(name, prompt, output, share)


def _plain(tokens: float) -> str:
    return str(int(tokens)) if tokens.is_integer() else f"{tokens:.12f}".rstrip("0")
