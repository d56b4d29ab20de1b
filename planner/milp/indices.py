"""Periods and domains: the indices that a program may have beside templates and workloads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from planner.milp.instance import Instance

ALONE: Final = ""
"""The one period of a load that never changes, or the one domain; names leave it out."""


def named(index: Iterable[str]) -> tuple[str, ...]:
    """Leave a period and a domain that stand alone out of an index."""
    return tuple(i for i in index if i != ALONE)


def mistakes_of(data: Instance) -> Iterator[str]:
    """Yield what cannot be used of an instance's periods and domains, a line each."""
    for name, ids in (("T", data.T), ("D", data.D)):
        if not ids:
            yield f"{name}: is empty; leave it out where there is only one"
        if ALONE in ids and len(ids) > 1:
            yield f"{name}: an id is empty; name each where there are several"
    for i in sorted(set(data.T) & set(data.D) - {ALONE}):
        yield f"T and D: {i!r} is in both; rows could not be told apart"
    yield from _loads(data)
    yield from _places(data)


def _loads(data: Instance) -> Iterator[str]:
    for t, h in data.hours.items():
        if t not in data.T:
            yield f"hours[{t}]: no such period"
        if not (math.isfinite(h) and h > 0):
            yield f"hours[{t}]: must be finite and above 0; got {h}"
    for (w, t), rate in data.demand_in.items():
        if w not in data.W or t not in data.T:
            yield f"demand_in[{w},{t}]: no such workload or period"
        if not (math.isfinite(rate) and rate >= 0):
            yield f"demand_in[{w},{t}]: must be finite and at least 0; got {rate}"


def _places(data: Instance) -> Iterator[str]:
    for g, domains in data.homes.items():
        if g not in data.G:
            yield f"homes[{g}]: no such accelerator"
        for d in sorted(set(domains) - set(data.D)):
            yield f"homes[{g}]: {d!r} is not in D"
    for (g, d), count in data.stock_in.items():
        if g not in data.G or d not in data.D or d == ALONE:
            yield f"stock_in[{g},{d}]: no such accelerator or domain"
        if not (math.isfinite(count) and count >= 0 and count == int(count)):
            yield f"stock_in[{g},{d}]: must be a whole number of at least 0; got {count}"
