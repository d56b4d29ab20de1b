"""Columns in the order of what a request costs, and what is told of them when pricing is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.candidates.screen import KEEPS_AT_NO_LOAD, Screened
from planner.candidates.template import Removed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from planner.candidates.columns import Column


def kind_of(column: Column) -> tuple[str, str]:
    """Name the hardware and whom it serves: templates of a kind differ by policy."""
    return column.template.build.hardware, column.template.label


def capacity_of(column: Column) -> float:
    """Return the load of one unit that was measured, or else the most that it may be."""
    return column.frontier.capacity_rps.value if column.frontier is not None else column.most_rps


def cheapest(columns: Iterable[Column]) -> list[Column]:
    """Sort columns by what a request costs at their most."""
    return sorted(columns, key=lambda c: (c.usd_per_request, c.template.id))


def measured_columns(columns: Iterable[Column]) -> list[Screened]:
    """Return the templates that were measured, cheapest per request first."""
    mine = [c for c in columns if c.frontier is not None]
    found = [Screened(c.template, c.bound, capacity_of(c)) for c in mine]
    return sorted(found, key=lambda s: (s.usd_per_request, s.template.id))


def unmeasured_columns(columns: Collection[Column]) -> list[Removed]:
    """Return the templates that were not measured, each with the most it could carry."""
    best = min((s.usd_per_request for s in measured_columns(columns)), default=0.0)
    rows = []
    for column in cheapest(c for c in columns if c.open):
        usd = column.usd_per_request
        why = (
            f"carries {column.most_rps:.4g} req/s a unit at most ({column.because}): no fleet"
            " with it is better, by the prices of the program"
        )
        numbers = {
            "most_rps": column.most_rps,
            "usd_per_thousand_at_best": usd * 1e3,
            "usd_per_thousand_of_the_best": best * 1e3,
        }
        rows.append(Removed(column.template.id, why, numbers))
    dead = sorted(c.template.id for c in columns if c.dead)
    return rows + [Removed(j, KEEPS_AT_NO_LOAD, {}) for j in dead]
