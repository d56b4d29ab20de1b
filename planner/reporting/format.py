"""Numbers in the units that people read; the only place where they are chosen."""

from __future__ import annotations

import math
from typing import Final

NONE: Final = "–"
"""Stands where a value is unknown or does not exist."""


def significant(value: float, digits: int = 3) -> str:
    """Write a number with few digits and no exponent while it is readable: ``1,234``, ``0.0312``.

    Args:
        value: Any float.
        digits: Significant digits; digits before the point are never dropped.
    """
    if not math.isfinite(value):
        return "∞" if value > 0 else ("-∞" if value < 0 else NONE)
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e9:
        return f"{value:.{digits - 1}e}"
    exponent = math.floor(math.log10(abs(value)))
    decimals = max(digits - 1 - exponent, 0)
    rounded = round(value, decimals)
    if rounded and math.floor(math.log10(abs(rounded))) > exponent:
        decimals = max(decimals - 1, 0)
    return f"{value:,.{decimals}f}"


def amount(value: float) -> str:
    """Write how much of something there is: whole numbers and large ones whole, others short."""
    whole = math.isfinite(value) and abs(value) < 1e15 and (value == int(value) or value >= 1e9)
    return f"{round(value):,}" if whole else significant(value)


def seconds(value: float | None) -> str:
    """Write a time: ``480 ms``, ``1.20 s``, ``35.0 min``."""
    if value is None:
        return NONE
    size = abs(value)
    for limit, unit, name in ((0.9995e-3, 1e-6, "µs"), (0.9995, 1e-3, "ms"), (120.0, 1.0, "s")):
        if size < limit:
            return f"{significant(value / unit)} {name}"
    return f"{significant(value / 60)} min" if size < 7200 else f"{significant(value / 3600)} h"


def rate(value: float | None) -> str:
    """Write a rate of requests: ``1.20 req/s``."""
    return NONE if value is None else f"{significant(value)} req/s"


def usd(value: float | None) -> str:
    """Write money: ``$0.0310``, ``$11.96``, ``$1,250``; cents always where there are dollars."""
    if value is None:
        return NONE
    sign = "-" if value < 0 else ""
    size = abs(value)
    if not math.isfinite(size):
        return f"{sign}$∞"
    if 0.995 <= size < 1000:
        return f"{sign}${size:,.2f}"
    return f"{sign}${significant(size)}" if size < 1 else f"{sign}${size:,.0f}"


def share(value: float | None, digits: int = 1) -> str:
    """Write a share in per cent: ``95.3 %``; never rounds a miss up to 100 % or down to 0 %."""
    if value is None:
        return NONE
    return f"{100 * value:.{_telling(value, digits)}f} %"


def share_interval(value: float, low: float, high: float) -> str:
    """Write an estimate with its interval: ``96.4 % (96.1–96.7)``, all to the same digits."""
    digits = max(_telling(x, 1) for x in (value, low, high))
    ends = "–".join(f"{100 * x:.{digits}f}" for x in (low, high))
    return f"{100 * value:.{digits}f} % ({ends})"


def _telling(value: float, digits: int) -> int:
    """Return how many decimals keep a share apart from none and from all; at most four."""
    while digits < 4 and round(100 * value, digits) in (0, 100) and value not in (0, 1):
        digits += 1
    return digits


def count(number: int, one: str, many: str | None = None) -> str:
    """Write a count with its noun: ``1 pool``, ``2 pools``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def change(share: float, digits: int = 0) -> str:
    """Write a relative difference in per cent with its sign: ``+12 %``, ``-0.02 %``, ``0 %``.

    Args:
        share: The difference, as a share.
        digits: After the point; more are written where they would tell of none.
    """
    percent = 100 * share
    if percent == 0:
        return "0 %"
    if abs(percent) < 0.5 * 10**-digits:
        return f"{'-' if percent < 0 else '+'}{significant(abs(percent), 1)} %"
    return f"{percent:+.{digits}f} %"
