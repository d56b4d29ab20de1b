"""Shared links: which ways the units of a template may take, and what each link carries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pulp

from planner.milp.indices import named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planner.milp.instance import Instance


@dataclass(frozen=True, slots=True)
class Links:
    """Links that units of several templates share, and the ways that use them.

    A unit of a template with ways stands on one of them: its sides at the two ends, its KV over
    the way's links. Units of templates without ways use no shared link.
    """

    carries: Mapping[str, float]
    """B_l: what link l carries, bytes per second."""
    ways: Mapping[str, tuple[str, ...]]
    """P_j: ways of template j."""
    over: Mapping[tuple[str, str], tuple[str, ...]]
    """Links of way p of template j, by (j, p)."""
    sent: Mapping[tuple[str, str], float]
    """beta_jo: what one unit of j sends at operating point o, bytes per second, by (j, o)."""
    held: Mapping[tuple[str, str], Mapping[tuple[str, str], int]]
    """k_jpgd: accelerators g that a unit of j on way p holds in place d, by (j, p)."""
    room: Mapping[tuple[str, str], int]
    """R_gd: accelerators g that can be had in place d."""

    def most(self, data: Instance, j: str) -> float:
        """Return b_j: the most that a unit of ``j`` sends at any of its points, bytes per second.

        1 where nothing is sent.
        """
        return max((self.sent.get((j, o), 0.0) for o in data.O[j]), default=0.0) or 1.0


NO_LINKS: Final = Links({}, {}, {}, {}, {}, {})
"""No link is shared."""


@dataclass(frozen=True, slots=True)
class LinkVariables:
    """Decisions about ways; keys are the symbol's indices."""

    on: Mapping[tuple[str, str, str], pulp.LpVariable]
    """on_jpt: units of template j on way p in period t (integer)."""
    flow: Mapping[tuple[str, str, str], pulp.LpVariable]
    """flow_jpt: what goes over way p, in units at the point at which they send most."""


def declare_links(problem: pulp.LpProblem, data: Instance) -> LinkVariables:
    """Add the variables about ways to a problem."""
    where = data.links or NO_LINKS

    def add(family: str, index: tuple[str, ...], *, whole: bool = False) -> pulp.LpVariable:
        name = f"{family}({','.join(named(index))})"
        return problem.add_variable(name, 0, None, pulp.LpInteger if whole else pulp.LpContinuous)

    index = [(j, p, t) for t in data.T for j in data.J for p in where.ways.get(j, ())]
    return LinkVariables(
        on={i: add("on", i, whole=True) for i in index}, flow={i: add("flow", i) for i in index}
    )


def link_mistakes(data: Instance) -> Iterator[str]:
    """Yield what cannot be used of an instance's links, a line each."""
    where = data.links or NO_LINKS
    yield from _rates("carries", where.carries, above=True)
    for j, ways in where.ways.items():
        if j in data.J and not ways:
            yield f"links.ways[{j}]: is empty; leave out a template that uses no shared link"
    for (j, p), names in where.over.items():
        for name in sorted(set(names) - set(where.carries)):
            yield f"links.over[{j},{p}]: {name!r} carries nothing that is known"
    for (j, p), places in where.held.items():
        for place in sorted(set(places) - set(where.room)):
            yield f"links.held[{j},{p}]: no room is known at {','.join(place)}"
    yield from _rates("sent", where.sent, above=False)


def _rates(
    name: str, given: Mapping[str, float] | Mapping[tuple[str, str], float], *, above: bool
) -> Iterator[str]:
    for i, rate in given.items():
        if not (math.isfinite(rate) and rate >= 0) or (above and rate == 0):
            word = "above" if above else "at least"
            yield f"links.{name}[{i}]: must be finite and {word} 0; got {rate}"
