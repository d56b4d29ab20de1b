"""On which terms accelerators are held: owned, reserved, on demand, spot; and how fast they change.

What is owned or reserved is held in every period; what is hired on demand or as spot is held
period by period, and takes time to start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Kind = Literal["owned", "reserved", "on-demand", "spot"]
"""Owned and reserved accelerators are steady: paid in every period. The others are hired."""


@dataclass(frozen=True, slots=True)
class Term:
    """One way to hold an accelerator."""

    kind: Kind
    usd_per_hour: float
    """Price of one accelerator while it is held, USD/h; of an owned one, what it costs to keep."""
    stock: int | None = None
    """Accelerators that can be had so, in all domains; of owned ones, how many there are."""
    least_hours: float = 0.0
    """Hours for which one is held at least once it is started; hired terms only."""

    @property
    def steady(self) -> bool:
        """Tell whether what is held so is held in every period."""
        return self.kind in ("owned", "reserved")


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of all accelerators that have any; units of others are paid by their own price.

    Periods follow each other as ``cycle`` says. A period that comes several times in it has as
    many spans, equally long; all of them run the same fleet.
    """

    of: Mapping[tuple[str, str], Term]
    """By accelerator g and term c, such as ``("h100", "on-demand")``."""
    spot_share: Mapping[str, float] = field(default_factory=dict)
    """phi_g: share of the accelerators g held in a period that may be spot; absent means all."""
    start_hours: Mapping[str, float] = field(default_factory=dict)
    """s_g: hours from hiring an accelerator, or clearing it, to a unit that serves; absent: 0."""
    ramp: Mapping[str, int] = field(default_factory=dict)
    """r_g: most accelerators g by which their use changes from a span to the next."""
    cycle: tuple[str, ...] = ()
    """Periods in the order of their spans; empty means each of T once."""
    cyclic: bool = True
    """Whether the first span follows the last; if not, it begins with what it needs."""

    def priced(self, g: str) -> bool:
        """Tell whether accelerators ``g`` are paid by terms."""
        return any(of == g for of, _ in self.of)

    def steady(self) -> tuple[tuple[str, str], ...]:
        """List the terms (g, c) that hold in every period."""
        return tuple(i for i, term in self.of.items() if term.steady)

    def hired(self) -> tuple[tuple[str, str], ...]:
        """List the terms (g, c) that are held period by period."""
        return tuple(i for i, term in self.of.items() if not term.steady)

    def startable(self) -> tuple[tuple[str, str], ...]:
        """List the hired terms whose starts take time or bind."""
        return tuple(
            (g, c)
            for g, c in self.hired()
            if self.start_hours.get(g, 0.0) > 0 or self.of[g, c].least_hours > 0
        )

    def least_usd_per_hour(self, g: str) -> float:
        """Return the lowest price of an accelerator, USD/h."""
        return min((term.usd_per_hour for (of, _), term in self.of.items() if of == g), default=0.0)


NONE = Terms({})
"""No terms: every unit is paid by its own price."""


@dataclass(frozen=True, slots=True)
class Order:
    """The spans of an instance, one after the other."""

    spans: tuple[str, ...]
    """The period of each span."""
    hours: tuple[float, ...]
    """How long each lasts."""
    cyclic: bool

    @classmethod
    def of(cls, terms: Terms, periods: tuple[str, ...], hours: Mapping[str, float]) -> Order:
        """Lay the periods out in time."""
        spans = terms.cycle or periods
        each = tuple(hours.get(t, 1.0) / spans.count(t) for t in spans)
        return cls(spans, each, terms.cyclic)

    def steps(self) -> dict[tuple[str, str], int]:
        """Return how often period b begins after another period a, by (a, b)."""
        found: dict[tuple[str, str], int] = {}
        for i, b in enumerate(self.spans):
            a = self.spans[i - 1]
            if a != b and (i > 0 or self.cyclic):
                found[a, b] = found.get((a, b), 0) + 1
        return found

    def within(self, k: int, hours: float) -> list[tuple[str, str]]:
        """List the steps (a, b) after which less than ``hours`` have passed when span ``k`` begins.

        What is started at the beginning of span i is still bound in span k if less than ``hours``
        pass between the two beginnings. A step that comes round again is listed again.
        """
        found, passed, i = [], 0.0, k
        while passed < hours:
            if i <= 0 and not self.cyclic:
                break
            a, b = self.spans[(i - 1) % len(self.spans)], self.spans[i % len(self.spans)]
            if a != b:
                found.append((a, b))
            i -= 1
            passed += self.hours[i % len(self.spans)]
        return found


def mistakes_of(
    data: Terms, accelerators: tuple[str, ...], periods: tuple[str, ...], hours: Mapping[str, float]
) -> Iterator[str]:
    """Yield what cannot be used, a line each."""
    for (g, c), term in data.of.items():
        where = f"terms.of[{g},{c}]"
        if g not in accelerators:
            yield f"{where}: no such accelerator"
        if not (math.isfinite(term.usd_per_hour) and term.usd_per_hour >= 0):
            yield f"{where}: the price must be finite and at least 0; got {term.usd_per_hour}"
        if term.stock is not None and (term.stock < 0 or term.stock != int(term.stock)):
            yield f"{where}: the stock must be a whole number of at least 0; got {term.stock}"
        if term.kind == "owned" and term.stock is None:
            yield f"{where}: say how many are owned"
        if not (math.isfinite(term.least_hours) and term.least_hours >= 0):
            yield f"{where}: least_hours must be finite and at least 0; got {term.least_hours}"
    yield from _changes(data)
    if data.cycle and set(data.cycle) != set(periods):
        yield "terms.cycle: must name every period of T, and no other"
        return
    shortest = min(Order.of(data, periods, hours).hours, default=0.0)
    for g, s in data.start_hours.items():
        if len(periods) > 1 and s > shortest * (1 + 1e-9):
            yield (
                f"terms.start_hours[{g}]: {s:g} h is more than the shortest span of {shortest:g} h;"
                " use longer periods"
            )


def _changes(data: Terms) -> Iterator[str]:
    of = {g for g, _ in data.of}
    for name, given, most in (
        ("spot_share", data.spot_share, 1.0),
        ("start_hours", data.start_hours, math.inf),
        ("ramp", data.ramp, math.inf),
    ):
        for g, number in given.items():
            if g not in of:
                yield f"terms.{name}[{g}]: this accelerator has no terms"
            if not (math.isfinite(number) and 0 <= number <= most):
                yield f"terms.{name}[{g}]: must be finite and at least 0; got {number}"
