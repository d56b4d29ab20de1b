"""Work that may wait: what it brings, when, and which units can do it in the meantime."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Deferral:
    """Deferrable workloads over a cycle of slots of equal length that repeats for ever.

    A period is a set of slots with one load of the other workloads; units that a period leaves
    free are lent to deferrable work for all of it.
    """

    B: tuple[str, ...]
    """Deferrable workloads b."""
    T: tuple[str, ...]
    """Periods t."""
    S: tuple[str, ...]
    """Slots k, in order; the first follows the last."""
    period_of: Mapping[str, str]
    """t_k: the period of slot k."""
    arriving: Mapping[tuple[str, str], float]
    """a_bk: what b brings in slot k, requests."""
    slots_to_wait: Mapping[str, int]
    """d_b: slots within which b must be done after the one in which it came, and with it."""
    slot_s: float
    """h: length of a slot, seconds."""
    lent_rps: Mapping[tuple[str, str], float]
    """kappa_jb: what one unit of j does of b within its deadlines, req/s; absent means none."""
    kept: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """e_jt: units of j that the other workloads need in period t; absent means none."""

    def lenders(self, b: str) -> tuple[str, ...]:
        """List the templates whose units can do the work of ``b``."""
        return tuple(j for (j, of), rate in self.lent_rps.items() if of == b and rate > 0)

    def total(self, b: str) -> float:
        """Return what ``b`` brings in a whole cycle, requests."""
        return sum(self.arriving.get((b, k), 0.0) for k in self.S)

    def latest(self, b: str, k: str) -> float:
        """Return what came in the last d_b slots up to the end of slot ``k``, requests."""
        n, at = len(self.S), self.S.index(k)
        whole, rest = divmod(self.slots_to_wait[b], n)
        recent = sum(self.arriving.get((b, self.S[(at - i) % n]), 0.0) for i in range(rest))
        return whole * self.total(b) + recent


NOTHING: Final = Deferral((), (), (), {}, {}, {}, 1.0, {})
"""No work may wait."""


def mistakes_of(data: Deferral, templates: tuple[str, ...]) -> Iterator[str]:
    """Yield what cannot be used, a line each."""
    if not data.S or not (math.isfinite(data.slot_s) and data.slot_s > 0):
        yield "deferral: a cycle needs slots of a length above 0"
    for k in data.S:
        if data.period_of.get(k) not in data.T:
            yield f"deferral.period_of[{k}]: {data.period_of.get(k)!r} is not in T"
    for b in data.B:
        if data.slots_to_wait.get(b, 0) < 1:
            yield f"deferral.slots_to_wait[{b}]: must be at least 1"
        if not data.total(b) > 0:
            yield f"deferral.arriving[{b}]: nothing comes in the whole cycle"
    yield from _amounts("arriving", data.arriving, data.B, data.S)
    yield from _amounts("lent_rps", data.lent_rps, templates, data.B)
    yield from _amounts("kept", data.kept, templates, data.T)


def _amounts(
    name: str,
    given: Mapping[tuple[str, str], float],
    first: tuple[str, ...],
    second: tuple[str, ...],
) -> Iterator[str]:
    known = set(first), set(second)
    for (i, k), amount in given.items():
        if i not in known[0] or k not in known[1]:
            yield f"deferral.{name}[{i},{k}]: no such id"
        elif not (math.isfinite(amount) and amount >= 0):
            yield f"deferral.{name}[{i},{k}]: must be finite and at least 0; got {amount}"
