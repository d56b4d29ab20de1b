"""What a question of owning or renting states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from planner.scenario.overrides import apply_overrides
from planner.source import read_source
from planner.spec import Spec, validate
from planner.units import (
    Fraction,
    Share,
    UnitPrice,
    Usd,
    UsdOrNone,
    UsdPerKwh,
    UsdPerKwMonth,
    UsdPerYear,
    Watts,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Change = Annotated[Share, Field(gt=-1, le=10, allow_inf_nan=False)]


class Owning(Spec):
    """What owning costs; what is left out costs nothing."""

    price: Usd
    """Of one accelerator with its share of the server, paid at the beginning."""
    network: UsdOrNone = 0.0
    """Of switches and cables for all, paid at the beginning."""
    spares: Fraction = 0.0
    """Accelerators bought beside those in use, as a share of them."""
    residual: Fraction = 0.0
    """Of all that was paid at the beginning, got back at the end."""
    power: Watts = 0.0
    """Of one accelerator with its share of the server, in use."""
    idle_power: Fraction = 0.3
    """Of it while not in use."""
    pue: Annotated[float, Field(ge=1, le=10, allow_inf_nan=False)] = 1.0
    """Power of the site per power of the servers."""
    energy: UsdPerKwh = 0.0
    """Price of energy."""
    hosting: UsdPerKwMonth = 0.0
    """Rent of the place, by the power of all accelerators in use."""
    staff: UsdPerYear = 0.0
    """People, insurance and all else that is paid every year."""


class Renting(Spec):
    """What renting costs."""

    price: UnitPrice
    """Of one accelerator in the first year; paid while it is used."""
    change: Change = 0.0
    """By which share the price changes every year: -15 % falls, 5 % rises."""


class OwningQuestion(Spec):
    """Whether to own or to rent the same accelerators for the same hours."""

    format_version: Literal["1.0"]
    name: Annotated[str, Field(min_length=1, max_length=100)]
    accelerators: Annotated[int, Field(gt=0, le=10_000_000)]
    """In use at once, at the most."""
    utilisation: Annotated[Fraction, Field(gt=0)]
    """Share of all hours in which an accelerator would be rented."""
    years: Annotated[int, Field(ge=1, le=30)]
    """For how long; owned ones are sold at the end."""
    discount_rate: Annotated[Share, Field(ge=0, le=1, allow_inf_nan=False)]
    """By which a dollar a year later is worth less; each year's payments count at its end."""
    own: Owning
    rent: Renting


def read_owning(path: Path, settings: Sequence[str] = ()) -> OwningQuestion:
    """Read the question from YAML, with ``path=value`` settings applied.

    Raises:
        InputError: One line per mistake, each with its place.
    """
    return validate(apply_overrides(read_source(path), settings), OwningQuestion)
