"""Quantities: written with their unit in YAML, held as floats in base units in Python.

A dimensioned value without a unit is refused in a file: ``ttft: 500`` has cost this
field more wrong answers than any missing constraint. Base units: s, bytes, req/s, W,
USD and USD/h (money per hour stays, being the market's own).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import ValidationInfo

_NUMBER: Final = re.compile(r"^\s*([+-]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S.*?)?\s*$")

SHOWN: Final = 60
"""Longest value that an error message repeats in full."""


def shown(value: object) -> str:
    """Write a value as it stands in the file, short enough for a message."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return "keys and values" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) >= 10**SHOWN:
        return "a number beyond all measure"
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _digits(text: str) -> float:
    """Read digits with grouping commas or underscores."""
    return float(text.replace(",", "").replace("_", ""))


LEAST_RPS: Final = 1e-6
"""One request in eleven days: least rate of a workload."""
MOST_RPS: Final = 1e9
"""A thousand million requests a second: highest rate of a workload."""
LEAST_USD_PER_HOUR: Final = 1e-6
"""Least price of an accelerator."""

FROM_FILE: Final = {"from_file": True}
"""Validation context of values that a person wrote."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """A physical dimension: its base unit, and what one of each unit is in the base unit."""

    name: str
    base: str
    factors: Mapping[str, float]

    def parse(self, value: object, info: ValidationInfo) -> float:
        """Read ``"500 ms"`` as ``0.5``; code, but no file, may pass a bare number."""
        from_file = bool((info.context or {}).get("from_file"))
        if isinstance(value, int | float) and not isinstance(value, bool) and not from_file:
            return _as_float(value)
        return self.read(value)

    def read(self, value: object) -> float:
        """Read a number with its unit, such as ``"500 ms"`` or ``"60s"``.

        Raises:
            ValueError: The value is no text, or its unit is missing or unknown.
        """
        units = ", ".join(self.factors)
        found = _NUMBER.match(value) if isinstance(value, str) else None
        if found is None or not found[2]:
            raise ValueError(
                f"expected a {self.name} with its unit ({units}), such as '{self._example(value)}';"
                f" got {shown(value)}"
            )
        if found[2] not in self.factors:
            raise ValueError(f"{shown(found[2])} is no unit of {self.name}; use one of {units}")
        number = _digits(found[1]) * self.factors[found[2]]
        if not math.isfinite(number):
            raise ValueError(f"{shown(value)} is too large to be a {self.name}")
        return number

    def _example(self, value: object) -> str:
        """Give the number that was written its unit, or show how one looks."""
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else 1
        plain = 0 < number < 1e15
        return f"{number if plain else 1} {self.base}"

    def format(self, value: float) -> str:
        """Write a value so that :meth:`parse` reads the same float."""
        return f"{value!r} {self.base}"


TIME: Final = Dimension(
    "time", "s", {"s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0, "h": 3600.0, "d": 86400.0}
)
RATE: Final = Dimension("rate", "req/s", {"req/s": 1.0, "req/min": 1 / 60, "req/h": 1 / 3600})
MEMORY: Final = Dimension(
    "memory size",
    "B",
    {
        "B": 1.0,
        "kB": 1e3,
        "MB": 1e6,
        "GB": 1e9,
        "TB": 1e12,
        "KiB": 2.0**10,
        "MiB": 2.0**20,
        "GiB": 2.0**30,
        "TiB": 2.0**40,
    },
)
BANDWIDTH: Final = Dimension(
    "bandwidth", "B/s", {"B/s": 1.0, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12, "Gb/s": 1.25e8}
)
COMPUTE: Final = Dimension(
    "compute rate", "FLOP/s", {"FLOP/s": 1.0, "GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15}
)
POWER: Final = Dimension("power", "W", {"W": 1.0, "kW": 1e3, "MW": 1e6})
MONEY: Final = Dimension("sum of money", "USD", {"USD": 1.0, "kUSD": 1e3})
PRICE: Final = Dimension("price", "USD/h", {"USD/h": 1.0, "USD/s": 3600.0, "USD/d": 1 / 24})
ENERGY: Final = Dimension("price of energy", "USD/kWh", {"USD/kWh": 1.0, "USD/MWh": 1e-3})
HOSTING: Final = Dimension(
    "price of hosting", "USD/kW/month", {"USD/kW/month": 1.0, "USD/kW/year": 1 / 12}
)
YEARLY: Final = Dimension(
    "sum a year", "USD/year", {"USD/year": 1.0, "kUSD/year": 1e3, "USD/month": 12.0}
)


def with_unit(bound: str, unit: str, value: object) -> str:
    """Add the unit of a bound where the refused value has another: ``at most 60 s`` of ``2 h``."""
    own = value.lstrip("+-.,_0123456789eE ") if isinstance(value, str) else ""
    return f"{bound} {unit}" if unit and own.strip() not in ("", unit) else bound


def _written(value: float) -> str:
    """Write a bound: ``1e-12``, ``0.5`` and ``1,000,000``."""
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def within(least: float, most: float, unit: str = "") -> AfterValidator:
    """Refuse a number outside of ``least`` to ``most``, both included, and say which it passed.

    Bounds lie far beyond what any fleet needs, and keep what is reckoned from them, whole
    picoseconds and coefficients of a program among others, far within what a machine holds.
    """

    def check(value: float) -> float:
        if least <= value <= most:
            return value
        if value <= 0 < least:
            text, of = "must be above 0", ""
        elif value < least:
            text, of = f"must be at least {_written(least)}", unit
        else:
            text, of = f"must be at most {_written(most)}", unit
        raise PydanticCustomError("out_of_bounds", "{bound}", {"bound": text, "unit": of})

    return AfterValidator(check)


def _quantity(dimension: Dimension, least: float, most: float) -> object:
    """Return the type of a quantity from ``least`` to ``most``, in the base unit."""
    schema = {
        "type": "string",
        "description": (
            f"A {dimension.name} with its unit: {', '.join(dimension.factors)}; from"
            f" {_written(least)} to {_written(most)} {dimension.base}"
        ),
        "examples": [f"1 {dimension.base}"],
    }
    return Annotated[
        float,
        Field(allow_inf_nan=False),
        BeforeValidator(dimension.parse),
        within(least, most, dimension.base),
        PlainSerializer(dimension.format),
        WithJsonSchema(schema),
    ]


if TYPE_CHECKING:
    Seconds = float
    SecondsOrNone = float
    RequestsPerSecond = float
    RequestsPerSecondOrNone = float
    Bytes = float
    BytesPerSecond = float
    FlopPerSecond = float
    Watts = float
    UsdPerHour = float
    UnitPrice = float
    Usd = float
    UsdOrNone = float
    UsdPerKwh = float
    UsdPerKwMonth = float
    UsdPerYear = float
else:
    Seconds = _quantity(TIME, 1e-12, 315_360_000)
    """From a picosecond, the tick of the simulation, to ten years."""
    SecondsOrNone = _quantity(TIME, 0, 315_360_000)
    RequestsPerSecond = _quantity(RATE, LEAST_RPS, MOST_RPS)
    RequestsPerSecondOrNone = _quantity(RATE, 0, MOST_RPS)
    Bytes = _quantity(MEMORY, 0, 1e15)
    BytesPerSecond = _quantity(BANDWIDTH, 0, 1e15)
    FlopPerSecond = _quantity(COMPUTE, 0, 1e20)
    Watts = _quantity(POWER, 0, 1e9)
    UsdPerHour = _quantity(PRICE, 0, 1e12)
    UnitPrice = _quantity(PRICE, LEAST_USD_PER_HOUR, 1e6)
    """Of one accelerator."""
    Usd = _quantity(MONEY, 1e-6, 1e9)
    """Paid once."""
    UsdOrNone = _quantity(MONEY, 0, 1e12)
    UsdPerKwh = _quantity(ENERGY, 0, 1e3)
    UsdPerKwMonth = _quantity(HOSTING, 0, 1e6)
    UsdPerYear = _quantity(YEARLY, 0, 1e12)


def _count_of_tokens(value: object) -> float:
    """Read ``1500``, ``"1500 tokens"`` and ``"1,500 tokens"`` alike: tokens are counted."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _as_float(value)
    found = _NUMBER.match(value) if isinstance(value, str) else None
    if found is None or found[2] not in ("tokens", "token", None):
        raise ValueError(f"expected a number of tokens, such as '1500 tokens'; got {shown(value)}")
    return _digits(found[1])


def _as_float(value: float) -> float:
    """Convert a number; an integer beyond floats becomes infinite, which bounds then refuse."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


Tokens = Annotated[
    float,
    Field(allow_inf_nan=False),
    BeforeValidator(_count_of_tokens),
    within(1, 1e9, "tokens"),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 1, "maximum": 1e9},
                {"type": "string", "pattern": r"^\s*[0-9_,.eE+]+\s*(tokens?)?\s*$"},
            ],
            "description": "A number of tokens, written bare or with the word",
            "examples": ["1500 tokens"],
        }
    ),
]
"""A number of tokens, 1 to 1e9; counted, so written bare or as ``1500 tokens``."""


def _shifted(text: str) -> float:
    """Read a number of per cent as a share: the nearest float to the decimal two places on."""
    mantissa, _, exponent = text.lower().partition("e")
    return _digits(f"{mantissa}e{int(exponent or 0) - 2}")


def read_share(value: object) -> float:
    """Read ``0.95``, ``"0.95"`` and ``"95 %"`` alike; per cent are shifted as decimals, exactly.

    Raises:
        ValueError: The value is no number, or is above 1 and so was meant as per cent.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        number, percent = _as_float(value), False
    else:
        found = _NUMBER.match(value) if isinstance(value, str) else None
        if found is None or found[2] not in (None, "%"):
            raise ValueError(f"expected a share, such as 0.95 or 95 %; got {shown(value)}")
        percent = found[2] == "%"
        number = _shifted(found[1]) if percent else _digits(found[1])
    if 1 < number <= 100 and not percent:
        raise ValueError(f"{number:g} is more than all; write {number / 100:g} or {number:g} %")
    return number


Share = Annotated[
    float,
    BeforeValidator(read_share),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": 1},
                {"type": "string", "pattern": r"^\s*[0-9.]+\s*%?\s*$"},
            ],
            "description": "A share, written bare or in per cent",
            "examples": [0.95, "95 %"],
        }
    ),
]
"""A share without its bounds; dimensionless, so written bare: ``0.99`` or ``99 %``."""

Fraction = Annotated[Share, Field(ge=0, le=1, allow_inf_nan=False)]
"""A share from 0 to 1, both included."""
