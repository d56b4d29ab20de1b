"""Time stamps of request logs: text or numbers, in whatever unit, to seconds."""

from __future__ import annotations

import contextlib
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planner.units import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

UNITS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}

_ENDINGS: Final = (("_ms", "ms"), ("_us", "us"), ("_ns", "ns"), ("[s]", "s"), ("_s", "s"))
_EPOCHS: Final = ((1e17, "ns"), (1e14, "us"), (1e11, "ms"))
"""Above these, a number can only be the time since 1970 in such a unit."""

LATEST_S: Final = 253_402_300_800.0
"""The end of the year 9999, and as long before 1970: no log has a time beyond."""

LONGEST_SPAN_S: Final = 10 * 365.25 * 86_400.0
"""Of a log: a wider one has times of two kinds, or in another unit."""

_DATE: Final = re.compile(r"(?:\d{4}-|\d{8}T|\d{4}W)")
_VECTOR: Final = re.compile(
    r"((?:19|20)\d\d-\d\d-\d\d(?:[ T]\d\d:\d\d:\d\d(?:\.\d{1,9})?)?)"
    r"( ?(?:Z|UTC|([+-])(\d\d):?(\d\d)))?"
)
"""Dates that fit into 64 bits of nanoseconds, which wrap around in silence; and their offset."""
_NOTHING: Final = frozenset({"", "null", "none", "nan", "nat"})


def unit_of(name: str, first: float) -> str:
    """Guess the unit of a numeric time column from its name, else from the size of a value."""
    for ending, unit in _ENDINGS:
        if name.lower().endswith(ending):
            return unit
    return next((unit for least, unit in _EPOCHS if abs(first) > least), "s")


class WrongValueError(ValueError):
    """A value of a column that cannot be used.

    Attributes:
        at: Its index.
    """

    def __init__(self, at: int, what: str) -> None:
        super().__init__(what)
        self.at = at


def parse_numbers(values: Sequence[Any]) -> NDArray[np.float64]:
    """Return numbers, NaN where a value is empty.

    Raises:
        WrongValueError: A value is no number; the message quotes it.
    """
    try:
        numbers = np.array(values, dtype=np.float64)
        if numbers.ndim == 1 and bool not in set(map(type, values)):
            return numbers
    except (ValueError, TypeError, OverflowError):
        pass  # one by one, below: the slow way names the culprit
    return np.array([_number(i, value) for i, value in enumerate(values)], np.float64)


def _number(i: int, value: Any) -> float:
    if value is None or (isinstance(value, str) and value.strip().lower() in _NOTHING):
        return float("nan")
    if isinstance(value, bool):
        raise WrongValueError(i, f"{shown(value)}, no number")
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    except (ValueError, TypeError) as error:
        raise WrongValueError(i, f"{shown(value)}, no number") from error


def parse_times(values: Sequence[Any], unit: str) -> NDArray[np.float64]:
    """Return numeric times in seconds.

    Raises:
        WrongValueError: A value is missing, a date, no number, or no time that a log could hold.
    """
    try:
        times = parse_numbers(values) * UNITS[unit]
    except WrongValueError as error:
        text = str(values[error.at])
        if _DATE.match(text.lstrip()):
            mixed = f"{shown(text)}, a date, and others are numbers; write all times alike"
            raise WrongValueError(error.at, mixed) from error
        raise
    return _sane(times, values)


def parse_moments(values: Sequence[Any]) -> NDArray[np.float64]:
    """Return dates with times as seconds since 1970, UTC unless an offset is written.

    Raises:
        WrongValueError: A value is no such date; the message quotes it.
    """
    texts = [value if isinstance(value, str) else str(value) for value in values]
    found = _VECTOR.fullmatch(texts[0])
    ending = found[2] or "" if found is not None else ""
    plain = [text[: len(text) - len(ending)] for text in texts]
    if (
        found is not None
        and all(text.endswith(ending) for text in texts)
        and all((one := _VECTOR.fullmatch(text)) is not None and not one[2] for text in plain)
    ):
        sign = -1.0 if found[3] == "-" else 1.0
        ahead_s = sign * (int(found[4] or 0) * 3600 + int(found[5] or 0) * 60)
        with contextlib.suppress(ValueError):  # one by one, below, which names the culprit
            stamps = np.array(plain, dtype="datetime64[ns]")
            return np.asarray(stamps.astype(np.int64) * 1e-9 - ahead_s, np.float64)
    return _sane(np.array([_moment(i, text) for i, text in enumerate(texts)]), values)


def _sane(times: NDArray[np.float64], values: Sequence[Any]) -> NDArray[np.float64]:
    good = np.abs(times) <= LATEST_S  # false of what is missing
    if not good.all():
        at = int(np.argmin(good))
        if np.isnan(times[at]):
            raise WrongValueError(at, "missing; give every request its time, or leave the row out")
        raise WrongValueError(
            at, f"{shown(values[at])}, a time beyond the year 9999; mend it, or name its unit"
        )
    return times


def _moment(i: int, text: str) -> float:
    bare = text.strip().removesuffix("UTC").strip()
    if bare.lower() in _NOTHING:
        return float("nan")
    try:
        moment = datetime.fromisoformat(bare) if _DATE.match(bare) else None
    except ValueError:
        moment = None
    if moment is None:
        what = f"{shown(text)}, no date with a time"
        with contextlib.suppress(ValueError):
            float(bare)
            what = f"{shown(text)}, a number, and others are dates; write all times alike"
        raise WrongValueError(i, what)
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except OverflowError:  # an offset may lead out of the calendar
        return float("inf")
