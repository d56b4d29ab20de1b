"""From counts to names: which island takes which filling, and which devices each replica."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from planner.placement.wanted import Placed
from planner.topology import place_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from planner.placement.islands import Island, Replica, Slot
    from planner.placement.program import Item, Program, Room
    from planner.placement.wanted import Wanted
    from planner.topology import Topology

Value = Callable[[Any], int]
"""What a variable came out at."""

Chosen = tuple[str, "Island", tuple["Slot", ...]]
"""Item, and devices of an island for one of it."""


def name_them(
    p: Program,
    topology: Topology,
    wanted: Sequence[Wanted],
    islands: Sequence[Island],
    value: Value,
) -> tuple[Placed, ...]:
    """Return the devices of every replica of a solved program."""
    stays: dict[Replica, tuple[str, tuple[Slot, ...]]] = {}
    rooms: dict[Room, list[tuple[Island, tuple[Slot, ...]]]] = {}
    for island, staying in _what_stays(p, islands, value):
        for replica, slots in staying:
            stays[replica] = (island.domain.id, slots)
        taken = {slot for _, slots in staying for slot in slots}
        left = tuple(slot for slot in island.slots if slot not in taken)
        room = (island.domain.id, len(left), bool(staying))
        rooms.setdefault(room, []).append((island, left))
    new: dict[tuple[str, str], deque[tuple[Slot, ...]]] = {}
    for room, places in rooms.items():
        free = deque(places)
        for (name, domain, devices), v in p.whole.items():
            if (domain, devices, False) == room:
                for _ in range(value(v)):
                    new.setdefault((name, domain), deque()).append(_across(p, name, free))
    turns = {d.id: _in_turn(p, d.id, value) for d in topology.domains}
    for room, places in rooms.items():
        used = sum(value(v) * -(-_size(p, name) // devices)
                   for (name, domain, devices), v in p.whole.items()
                   if (domain, devices, False) == room)  # fmt: skip
        for (_, left), sizes in zip(places[used:], _fillings(p, room, value), strict=False):
            at = 0
            for size in sizes:
                name = turns[room[0]][size].popleft()
                new.setdefault((name, room[0]), deque()).append(left[at : at + size])
                at += size
    return tuple(_numbered(p, topology, wanted, stays, new))


def _what_stays(
    p: Program, islands: Sequence[Island], value: Value
) -> Iterator[tuple[Island, tuple[tuple[Replica, tuple[Slot, ...]], ...]]]:
    choices: dict[object, deque[tuple[str, ...]]] = {}
    for (kind, stay), v in p.stays.items():
        choices.setdefault(kind, deque()).extend([stay] * value(v))
    for island in islands:
        if not island.existing:
            yield island, ()
            continue
        quota = Counter(choices[island.kind].popleft())
        staying = []
        for replica, slots in island.existing:
            if quota[replica[0]] > 0:
                quota[replica[0]] -= 1
                staying.append((replica, slots))
        yield island, tuple(staying)


def _size(p: Program, name: str) -> int:
    return next(i.size for i in p.items if i.name == name)


def _across(
    p: Program, name: str, free: deque[tuple[Island, tuple[Slot, ...]]]
) -> tuple[Slot, ...]:
    """Take whole islands until a replica has its devices."""
    slots: tuple[Slot, ...] = ()
    while len(slots) < _size(p, name):
        slots += free.popleft()[1]
    return slots[: _size(p, name)]


def _in_turn(p: Program, domain: str, value: Value) -> dict[int, deque[str]]:
    """Return the items of each size in turn, so that one node holds replicas of several pools."""
    counts: dict[int, list[tuple[str, int]]] = {}
    for item in p.items:
        if (item.name, domain) not in p.new:
            continue
        over = sum(value(v) for (n, d, _), v in p.whole.items() if (n, d) == (item.name, domain))
        many = value(p.new[item.name, domain]) - over
        counts.setdefault(item.size, []).append((item.name, many))
    turns = {}
    for size, pools in counts.items():
        shares = [((k + 0.5) / n, name) for name, n in pools for k in range(n)]
        turns[size] = deque(name for _, name in sorted(shares))
    return turns


def _fillings(p: Program, room: Room, value: Value) -> Iterator[list[int]]:
    """Take the flow apart into paths, each the sizes that fill one island."""
    left = {(a, b): value(v) for (r, a, b), v in p.flow.items() if r == room}
    while True:
        at, sizes = 0, []
        while steps := [b for (a, b), n in left.items() if a == at and n]:
            end = max(steps)
            left[at, end] -= 1
            sizes.append(end - at)
            at = end
        if not sizes:
            return
        yield sizes


def _numbered(
    p: Program,
    topology: Topology,
    wanted: Sequence[Wanted],
    stays: dict[Replica, tuple[str, tuple[Slot, ...]]],
    new: dict[tuple[str, str], deque[tuple[Slot, ...]]],
) -> Iterator[Placed]:
    """Give replicas their numbers: those that stay keep theirs if it is not beyond the last."""
    found: dict[str, list[tuple[int | None, str, tuple[Slot, ...]]]] = {w.pool: [] for w in wanted}
    for (pool, number), (domain, slots) in sorted(stays.items()):
        found[pool].append((number, domain, slots))
    for item in p.items:
        for place in topology.domains:
            for slots in new.get((item.name, place.id), ()):
                for pool, part in _members(item, slots):
                    found[pool].append((None, place.id, part))
    for w in wanted:
        rows = _with_numbers(w, found[w.pool])
        units = _units(topology, w, rows)
        for number, domain_id, slots in rows:
            nodes: dict[int, list[int]] = {}
            for node, device in slots:
                nodes.setdefault(node, []).append(device)
            for node, devices in nodes.items():
                yield Placed(w.pool, number, domain_id, node, tuple(devices), units.get(number))


def _members(item: Item, slots: tuple[Slot, ...]) -> Iterator[tuple[str, tuple[Slot, ...]]]:
    at = 0
    for w, many in item.members:
        for _ in range(many):
            size = item.size if len(item.members) == 1 and many == 1 else w.devices
            yield w.pool, slots[at : at + size]
            at += size


def _with_numbers(
    w: Wanted, rows: Iterable[tuple[int | None, str, tuple[Slot, ...]]]
) -> list[tuple[int, str, tuple[Slot, ...]]]:
    rows = list(rows)
    kept = {n for n, _, _ in rows if n is not None and n < w.replicas}
    free = iter(sorted(set(range(w.replicas)) - kept))
    return sorted((n if n in kept and n is not None else next(free), d, s) for n, d, s in rows)


def _units(
    topology: Topology, w: Wanted, rows: list[tuple[int, str, tuple[Slot, ...]]]
) -> dict[int, int]:
    """Return the unit of each replica: places in order, each with whole units."""
    if w.group is None:
        return {}
    if w.at:
        return _units_on_ways(w, rows)
    domains = {d.id: d for d in topology.domains}
    order = {d.id: i for i, d in enumerate(topology.domains)}
    together = w.within in ("scaleup", "node")

    def place(row: tuple[int, str, tuple[Slot, ...]]) -> tuple[object, ...]:
        number, domain, slots = row
        where = domain if together else place_at(domains[domain], w.within)
        first = min(order[d.id] for d in topology.domains
                    if (d.id if together else place_at(d, w.within)) == where)  # fmt: skip
        return (first, where, slots[0] if together else (), number)

    ranked = sorted(rows, key=place)
    return {number: i // w.per_unit for i, (number, _, _) in enumerate(ranked)}


def _units_on_ways(w: Wanted, rows: list[tuple[int, str, tuple[Slot, ...]]]) -> dict[int, int]:
    """Return the unit of each replica: units take the domains in the order wanted."""
    free: dict[str, deque[int]] = {}
    for number, domain, _ in rows:
        free.setdefault(domain, deque()).append(number)
    wanted = [domain for domain, count in w.at for _ in range(count)]
    return {free[domain].popleft(): i // w.per_unit for i, domain in enumerate(wanted)}
