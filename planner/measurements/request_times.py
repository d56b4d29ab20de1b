"""Time stamps of request logs: text or numbers, in whatever unit, to seconds."""

from __future__ import annotations

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

_OFFSET: Final = re.compile(r"\s*(?:Z|UTC|([+-])(\d\d):?(\d\d))$")


def unit_of(name: str, first: float) -> str:
    """Guess the unit of a numeric time column from its name, else from the size of a value."""
    for ending, unit in _ENDINGS:
        if name.lower().endswith(ending):
            return unit
    return next((unit for least, unit in _EPOCHS if abs(first) > least), "s")


def parse_numbers(values: Sequence[Any]) -> NDArray[np.float64]:
    """Return numbers, NaN where a value is empty.

    Raises:
        ValueError: A value is no number; the message quotes it.
    """
    try:
        numbers = np.array(values, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        return np.array([_number(value) for value in values])
    if numbers.ndim != 1:
        raise ValueError(f"{shown(values[0])}, no number")
    return numbers


def _number(value: Any) -> float:
    if value is None or (isinstance(value, str) and value.strip().lower() in ("", "null", "none")):
        return float("nan")
    try:
        return float(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{shown(value)}, no number") from error


def parse_moments(values: Sequence[Any]) -> NDArray[np.float64]:
    """Return dates with times as seconds since 1970, UTC unless an offset is written.

    Raises:
        ValueError: A value is no such date; the message quotes it.
    """
    texts = [value if isinstance(value, str) else str(value) for value in values]
    endings = {_OFFSET.search(text[10:]) is not None for text in (texts[0], texts[-1])}
    try:
        if endings == {False}:
            return _vector(texts, 0.0)
        found = _OFFSET.search(texts[0][10:])
        if found is not None and all(text.endswith(found[0]) for text in texts):
            sign = -1.0 if found[1] == "-" else 1.0
            ahead = sign * (int(found[2] or 0) * 3600 + int(found[3] or 0) * 60)
            return _vector([text[: -len(found[0])] for text in texts], ahead)
    except ValueError:
        pass  # one by one, below: the slow way takes more forms and names the culprit
    return np.array([_moment(text) for text in texts])


def _vector(texts: list[str], ahead_s: float) -> NDArray[np.float64]:
    stamps = np.array(texts, dtype="datetime64[ns]")
    if np.isnat(stamps).any():
        raise ValueError("a date is missing")
    return np.asarray(stamps.astype(np.int64) * 1e-9 - ahead_s, np.float64)


def _moment(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text.strip().removesuffix("UTC").strip())
    except ValueError as error:
        raise ValueError(f"{shown(text)}, no date with a time") from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
