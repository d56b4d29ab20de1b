"""The ways that KV can take between two kinds of accelerators, and the links that they share.

A way leads from the nodes of one domain to those of another (or of the same). What it shares with
other ways is what all nodes of a place can send out of it, or take in: a rack's uplink, a zone's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from planner.topology.tree import (
    LinkClass,
    bytes_per_s_out,
    common_level,
    link_between,
    link_class,
    place_at,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.topology.document import Domain, Level, Topology

MOST_WAYS: Final = 256
"""Of one level between two accelerators; of more, each domain sends to the next few only."""
_PLACES: Final[tuple[Level, ...]] = ("node", "rack", "zone", "region")


@dataclass(frozen=True, slots=True)
class Way:
    """From a domain to a domain."""

    id: str
    """Such as ``eu-a.rack1.h100-sxm:eu-a.rack2.h200-sxm``."""
    source: Domain
    target: Domain
    link: LinkClass
    """What it is alone on the way."""
    shared: tuple[tuple[str, float], ...]
    """Links that it shares with other ways, by name, and what each carries, bytes per second."""


def within_island(topology: Topology, accelerator: str, devices: int) -> LinkClass | None:
    """Return the link between devices of one scale-up domain; None where none holds so many."""
    fitting = [
        d
        for d in topology.domains
        if d.shape.accelerator == accelerator and _largest_island(d) >= devices
    ]
    return link_class(topology, "scaleup", fitting[0], fitting[0]) if fitting else None


def _largest_island(domain: Domain) -> int:
    joined = domain.shape.scaleup_devices
    across = domain.shape.nodes_per_island
    return max(min(joined, across * g.free) for g in domain.groups)


def ways_between(topology: Topology, source: str, target: str) -> dict[Level, tuple[Way, ...]]:
    """Return the ways between different nodes, by the level at which the nodes meet.

    Args:
        topology: Nodes and links.
        source: Accelerator that sends.
        target: Accelerator that receives.
    """
    found: dict[Level, list[Way]] = {}
    froms = [d for d in topology.domains if d.shape.accelerator == source and d.free_devices]
    tos = [d for d in topology.domains if d.shape.accelerator == target and d.free_devices]
    rates = _outlets(topology)
    for one, other in _pairs(froms, tos):
        level = common_level(one, other)
        link = link_between(topology, one, other)
        if link is None or level == "scaleup" or (one.id == other.id and one.nodes < 2):
            continue
        shared = tuple(_shared(rates, one, other, level))
        mine = found.setdefault(level, [])
        if len(mine) < MOST_WAYS and all(rate > 0 for _, rate in shared):
            mine.append(Way(f"{one.id}:{other.id}", one, other, link, shared))
    order: tuple[Level, ...] = ("rack", "zone", "region", "world")
    return {level: tuple(found[level]) for level in order if found.get(level)}


def _pairs(froms: list[Domain], tos: list[Domain]) -> Iterator[tuple[Domain, Domain]]:
    """Yield all pairs or, of very many, each domain with the next few: those of all in turn."""
    few = max(4, 4 * MOST_WAYS // max(len(froms), 1))
    for k in range(min(len(tos), few)):
        yield from ((one, tos[(i + k) % len(tos)]) for i, one in enumerate(froms))


def _shared(
    rates: dict[tuple[Level, str], float | None], one: Domain, other: Domain, level: Level
) -> Iterator[tuple[str, float]]:
    """Yield the links out of the places that a way leaves, and into those that it enters."""
    for below in _PLACES:
        if below == level:
            return
        for domain, side in ((one, "out"), (other, "in")):
            place = place_at(domain, below)
            rate = rates[below, place]
            if rate is not None:
                yield f"{below}:{_plain(place)}:{side}", rate


def _outlets(topology: Topology) -> dict[tuple[Level, str], float | None]:
    """Return what each place can send out of it: :func:`bytes_per_s_out` of all, in one pass."""
    inside: dict[tuple[Level, str], list[Domain]] = {}
    for domain in topology.domains:
        for level in _PLACES:
            inside.setdefault((level, place_at(domain, level)), []).append(domain)
    return {
        (level, place): bytes_per_s_out(topology.model_copy(update={"domains": here}), level, place)
        for (level, place), here in inside.items()
    }


def _plain(place: str) -> str:
    """Write the name of a place as an id: ``eu/eu-a/rack1`` as ``eu.eu-a.rack1``."""
    return place.replace("/", ".").replace("(", "").replace(")", "")
