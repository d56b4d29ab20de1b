"""The integer program: how many replicas of a pool each domain holds, and how they pack.

Islands (scale-up domains) of one kind are interchangeable, so they are counted, not named. How
they are filled is a flow: an island is a path from 0 devices used to all, each step a replica of
some size or a loss, and the flow counts the islands that take a step. Paths are what cutting-stock
programs call patterns; a flow holds all of them, whatever the sizes, and every whole flow is a
packing.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ortools.sat.python import cp_model

from planner.topology import common_level, place_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.placement.islands import Island, Kind
    from planner.placement.wanted import Wanted
    from planner.topology import Domain, Level, Topology

MOST_CHOICES: Final = 300
"""Ways of what may stay in an island; of more, only the largest parts are looked at."""

Expr = Any
"""A sum of the solver's variables; its own types do not close under addition."""
Room = tuple[str, int, bool]
"""Domain, devices left in an island after what stays, and whether anything stays in it."""


@dataclass(frozen=True, slots=True)
class Item:
    """What is placed whole: a replica, or a unit that must lie in one scale-up domain."""

    name: str
    accelerator: str
    size: int
    count: int
    domain: str | None
    members: tuple[tuple[Wanted, int], ...]
    """Pools with their replicas in it."""
    group: str | None = None
    per_unit: int = 1
    within: Level = "world"
    at: tuple[tuple[str, int], ...] = ()
    regions: frozenset[str] | None = None


@dataclass(slots=True)
class Program:
    """The variables of a placement, by what they count."""

    model: cp_model.CpModel
    items: tuple[Item, ...]
    new: dict[tuple[str, str], cp_model.IntVar] = field(default_factory=dict)
    """Replicas that are not there yet, by item and domain."""
    stays: dict[tuple[Kind, tuple[str, ...]], cp_model.IntVar] = field(default_factory=dict)
    """Islands of a kind in which just these stay."""
    flow: dict[tuple[Room, int, int], cp_model.IntVar] = field(default_factory=dict)
    """Islands that are filled from one position to another by one replica."""
    whole: dict[tuple[str, str, int], cp_model.IntVar] = field(default_factory=dict)
    """Replicas over several islands: by item, domain and devices of an island."""
    total: dict[tuple[str, str], Expr] = field(default_factory=dict)
    """All replicas by item and domain."""
    units: dict[tuple[str, str], cp_model.IntVar] = field(default_factory=dict)
    """By group and place."""
    empty: list[Expr] = field(default_factory=list)
    """Islands that hold nothing."""
    kept: list[Expr] = field(default_factory=list)
    """Replicas that stay."""
    placed: list[tuple[Item, Expr]] = field(default_factory=list)
    excess: cp_model.IntVar | None = None
    """Replicas of an item that a zone or a rack holds beyond its even share, at most."""

    def variables(self) -> Iterator[cp_model.IntVar]:
        """Yield what a solution consists of."""
        for found in (self.new, self.stays, self.flow, self.whole, self.units):
            yield from found.values()


def items_of(wanted: Sequence[Wanted]) -> tuple[Item, ...]:
    """Return what is placed whole: units within a node are one item, all else single replicas."""
    items = []
    bundles: dict[str, list[Wanted]] = {}
    for w in wanted:
        if w.group is not None and w.within in ("scaleup", "node"):
            bundles.setdefault(w.group, []).append(w)
        else:
            items.append(
                Item(w.pool, w.accelerator, w.devices, w.replicas, w.domain, ((w, 1),),
                     w.group, w.per_unit, w.within, w.at, w.regions)
            )  # fmt: skip
    for group, members in bundles.items():
        size = sum(w.devices * w.per_unit for w in members)
        first = members[0]
        domain = next((w.domain for w in members if w.domain), None)
        count = first.replicas // first.per_unit
        parts = tuple((w, w.per_unit) for w in members)
        items.append(
            Item(group, first.accelerator, size, count, domain, parts, regions=first.regions)
        )
    return tuple(items)


def build(
    topology: Topology,
    items: tuple[Item, ...],
    islands: Sequence[Island],
    *,
    all_of_them: bool = True,
) -> Program:
    """Write the program.

    Args:
        topology: Where everything stands.
        items: What is placed.
        islands: All scale-up domains with what may stay in them.
        all_of_them: Whether every item must be placed; else at most that many.
    """
    p = Program(cp_model.CpModel(), items)
    rooms = _what_stays(p, islands)
    sizes: dict[str, set[int]] = {}
    for domain in topology.domains:
        mine = [i for i in items if _may_be_in(i, domain)]
        sizes[domain.id] = {i.size for i in mine}
        for item in mine:
            p.new[item.name, domain.id] = p.model.new_int_var(
                0, item.count, f"new {item.name} {domain.id}"
            )
    placed: dict[tuple[str, int], list[Expr]] = {}
    most = largest_islands(islands)
    kind = {d.id: d.shape.accelerator for d in topology.domains}
    for room, count in rooms.items():
        across = _replicas_over_islands(p, topology, room, most.get(kind[room[0]], 0))
        _fill(p, room, count, across, sizes[room[0]], placed)
    for domain in topology.domains:
        for size in sizes[domain.id]:
            same = [p.new[i.name, domain.id] for i in items
                    if i.size == size and (i.name, domain.id) in p.new]  # fmt: skip
            over = [v for (name, at, _), v in p.whole.items()
                    if at == domain.id and _named(items, name).size == size]  # fmt: skip
            p.model.add(sum(placed.get((domain.id, size), [])) + sum(over) == sum(same))
    _count(p, topology, islands, all_of_them)
    _units(p, topology)
    return p


def largest_islands(islands: Sequence[Island]) -> dict[str, int]:
    """Return the most free devices of an island of each accelerator."""
    found: dict[str, int] = {}
    for island in islands:
        name = island.domain.shape.accelerator
        found[name] = max(found.get(name, 0), len(island.slots))
    return found


def _named(items: tuple[Item, ...], name: str) -> Item:
    return next(i for i in items if i.name == name)


def _may_be_in(item: Item, domain: Domain) -> bool:
    right = item.accelerator == domain.shape.accelerator
    near = item.regions is None or domain.region in item.regions
    return right and near and item.domain in (None, domain.id)


def _what_stays(p: Program, islands: Sequence[Island]) -> dict[Room, list[Expr]]:
    """Choose what stays in the islands of each kind; what is left of them are rooms."""
    kinds = Counter(island.kind for island in islands)
    size = {i.name: i.size for i in p.items}
    rooms: dict[Room, list[Expr]] = {}
    for kind, count in kinds.items():
        domain, devices, pools = kind
        if not pools:
            rooms.setdefault((domain, devices, False), []).append(count)
            continue
        choices = []
        for stay in _subsets(pools):
            v = p.model.new_int_var(0, count, f"stay {domain} {devices} {stay} of {pools}")
            p.stays[kind, stay] = v
            choices.append(v)
            p.kept.append(v * len(stay))
            left = devices - sum(size[pool] for pool in stay)
            rooms.setdefault((domain, left, bool(stay)), []).append(v)
        p.model.add(sum(choices) == count)
    return rooms


def _subsets(pools: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return what may stay of a multiset, the most first."""
    counts = Counter(pools)
    ways = 1
    for n in counts.values():
        ways *= n + 1
    if ways > MOST_CHOICES:
        return tuple(pools[:n] for n in range(len(pools), -1, -1))
    names = sorted(counts)
    all_ways = itertools.product(*(range(counts[n], -1, -1) for n in names))
    return tuple(
        tuple(itertools.chain.from_iterable([n] * k for n, k in zip(names, way, strict=True)))
        for way in all_ways
    )


def _replicas_over_islands(p: Program, topology: Topology, room: Room, largest: int) -> list[Expr]:
    """Where it is allowed, let a replica that is larger than any island take whole largest ones."""
    domain, devices, holds = room
    taken = []
    for item in p.items if topology.tp_may_cross else ():
        if (item.name, domain) in p.new and item.size > largest == devices and not holds:
            v = p.model.new_int_var(0, item.count, f"whole {item.name} {domain}")
            p.whole[item.name, domain, devices] = v
            taken.append(v * -(-item.size // devices))
    return taken


def _fill(
    p: Program,
    room: Room,
    count: list[Expr],
    across: list[Expr],
    sizes: set[int],
    placed: dict[tuple[str, int], list[Expr]],
) -> None:
    """Write the flow through rooms of one size: what enters is their number."""
    domain, devices, holds = room
    most = p.model.new_int_var(0, 10**6, f"rooms {room}")
    p.model.add(most == sum(count) - sum(across))
    inflow: dict[int, list[Expr]] = {0: [most]}
    outflow: dict[int, list[Expr]] = {}
    for start, end in _arcs(devices, sizes):
        v = p.model.new_int_var(0, 10**6, f"flow {room} {start} {end}")
        p.flow[room, start, end] = v
        outflow.setdefault(start, []).append(v)
        inflow.setdefault(end, []).append(v)
        placed.setdefault((domain, end - start), []).append(v)
    for position, into in inflow.items():
        if position > 0:  # what does not go on is left free
            p.model.add(sum(outflow.get(position, [])) <= sum(into))
    p.model.add(sum(outflow.get(0, [])) <= most)
    if not holds:
        p.empty.append(most - sum(outflow.get(0, [])))


def _arcs(devices: int, sizes: set[int]) -> Iterator[tuple[int, int]]:
    """Yield the steps of all fillings in order of falling size."""
    reached = {0}
    seen: set[tuple[int, int]] = set()
    for size in sorted((s for s in sizes if s <= devices), reverse=True):
        for start in range(devices - size + 1):
            if start in reached:
                reached.add(start + size)
                seen.add((start, start + size))
    yield from sorted(seen)


def _count(p: Program, topology: Topology, islands: Sequence[Island], all_of_them: bool) -> None:
    staying: dict[tuple[str, str], list[Expr]] = {}
    for (kind, stay), v in p.stays.items():
        for name, n in Counter(stay).items():
            staying.setdefault((name, kind[0]), []).append(v * n)
    for item in p.items:
        for domain in topology.domains:
            if (item.name, domain.id) in p.new:
                stays = sum(staying.get((item.name, domain.id), []))
                p.total[item.name, domain.id] = p.new[item.name, domain.id] + stays
        for domain in topology.domains if item.at and all_of_them else ():
            if (item.name, domain.id) in p.new:
                here = sum(n for where, n in item.at if where == domain.id)
                p.model.add(p.total[item.name, domain.id] == here)
        everywhere = sum(t for (name, _), t in p.total.items() if name == item.name)
        p.placed.append((item, everywhere))
        if all_of_them:
            p.model.add(everywhere == item.count)
        else:
            p.model.add(everywhere <= item.count)


def _units(p: Program, topology: Topology) -> None:
    """Tie the pools of a group: a place holds whole units only."""
    groups: dict[str, list[Item]] = {}
    for item in p.items:
        if item.group is not None and item.within != "world":
            groups.setdefault(item.group, []).append(item)
    for group, members in groups.items():
        level = members[0].within
        for place in sorted({place_at(d, level) for d in topology.domains}):
            inside = [d for d in topology.domains if place_at(d, level) == place]
            n = members[0].count // members[0].per_unit
            if level == "rack" and any(common_level(d, d) == "zone" for d in inside):
                n = 0  # racks are not told apart: nothing can be promised
            v = p.model.new_int_var(0, n, f"units {group} {place}")
            p.units[group, place] = v
            for m in members:
                here = [p.total[m.name, d.id] for d in inside if (m.name, d.id) in p.total]
                p.model.add(sum(here) == v * m.per_unit)


def spread(p: Program, topology: Topology) -> None:
    """Bound what one zone, and one rack, holds of an item by its even share and the excess."""
    excess = p.model.new_int_var(0, max((i.count for i in p.items), default=0), "excess")
    for item in p.items:
        for level in ("zone", "rack"):
            here: dict[str, list[Expr]] = {}
            for domain in topology.domains:
                if (item.name, domain.id) in p.total:
                    place = place_at(domain, level)
                    here.setdefault(place, []).append(p.total[item.name, domain.id])
            if len(here) < 2 or item.count < 2:
                continue
            p.excess = excess
            share = -(-item.count // len(here))
            for totals in here.values():
                p.model.add(sum(totals) <= share + excess)
