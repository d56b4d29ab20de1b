"""What the nodes have room for, as rows on units: at least one of a few holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planner.milp.instance import Instance


@dataclass(frozen=True, slots=True)
class FitRow:
    """``sum over j of weights[j] × units <= most``."""

    weights: Mapping[str, int]
    """a_fij: by template; absent means 0."""
    most: int
    """b_fi."""
    reach: int
    """M_fi: what the sum is not above in any fleet that has a place, whatever else holds."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Every fleet that has a place keeps at least one of these rows."""

    id: str
    any_of: tuple[FitRow, ...]

    def rows(self) -> Iterator[tuple[str, FitRow]]:
        """Yield the rows with their names, from ``1``."""
        for i, row in enumerate(self.any_of, start=1):
            yield str(i), row


def weights_of(data: Instance, j: str) -> tuple[int, ...]:
    """Return what a unit of ``j`` weighs in all rows, in order."""
    return tuple(row.weights.get(j, 0) for fit in data.fits for row in fit.any_of)


def mistakes_of(data: Instance) -> Iterator[str]:
    """Yield what cannot be used of the rows, a line each."""
    names = [fit.id for fit in data.fits]
    for name in sorted({n for n in names if names.count(n) > 1}):
        yield f"fits[{name}]: stands there twice; keep one"
    for fit in data.fits:
        if not fit.any_of:
            yield f"fits[{fit.id}]: is empty, so that no fleet has a place"
        for i, row in fit.rows():
            if row.most < 0 or row.reach < row.most or min(row.weights.values(), default=0) < 0:
                yield f"fits[{fit.id}.{i}]: needs 0 <= most <= reach, and weights of at least 0"
