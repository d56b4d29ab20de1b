"""Samples of a Prometheus scrape: the text format, line by line."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from planner.errors import InputError
from planner.measurements.files import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

LONGEST_LINE: Final = 10_000
MOST_LINES: Final = 200_000
_SAMPLE: Final = re.compile(
    r"^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?[ \t]+([-+.0-9A-Za-z]+)(?:[ \t]+(-?\d{1,16}))?[ \t]*$"
)
_LABEL: Final = re.compile(r'(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Sample:
    """One line.

    Attributes:
        name: Of the series.
        labels: By name.
        value: Finite and not below 0.
        time_s: When it was taken, in seconds since 1970, where the line tells.
        where: The file and the line.
    """

    name: str
    labels: Mapping[str, str]
    value: float
    time_s: float | None
    where: str


def samples_of(path: Path, *prefixes: str) -> Iterator[Sample]:
    """Yield the samples whose names begin with one of some prefixes; others are passed over.

    Raises:
        InputError: One of them is not in the text format, or its value is none of a counter.
    """
    for number, line in enumerate(lines_of(path), start=1):
        if number > MOST_LINES:
            raise InputError(f"{path}: more than {MOST_LINES:,} lines; scrape one server")
        if line.startswith(prefixes):
            yield _sample(line.rstrip("\r\n"), f"{path}:{number}")


def _sample(line: str, where: str) -> Sample:
    match = _SAMPLE.match(line) if len(line) <= LONGEST_LINE else None
    if match is None:
        raise InputError(f'{where}: expected a sample, such as vllm:name{{label="x"}} 1.0')
    value = number_of(match[3], where)
    if not math.isfinite(value) or value < 0 or value > 1e18:
        raise InputError(f"{where}: {match[1]} is {value:g}; expected a finite number from 0")
    time_s = float(match[4]) * 1e-3 if match[4] else None
    return Sample(match[1], dict(_LABEL.findall(match[2] or "")), value, time_s, where)


def number_of(text: str, where: str) -> float:
    """Return a number, which may be infinite.

    Raises:
        InputError: It is none.
    """
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"{where}: {text[:40]!r} is no number") from error


def edge_of(sample: Sample) -> float | None:
    """Return the upper edge of a bucket; ``None`` if the sample is none.

    Raises:
        InputError: The edge is no number.
    """
    if not sample.name.endswith("_bucket") or "le" not in sample.labels:
        return None
    edge = number_of(sample.labels["le"], sample.where)
    if math.isnan(edge):
        raise InputError(f"{sample.where}: the bucket's edge is NaN")
    return edge
