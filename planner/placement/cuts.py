"""From a fleet that has no place to rows that every fleet keeps which has one.

Two kinds, the plain one first.

*Hull.* Let a replica of size s weigh π_s. An island with f free devices then holds at most K_f(π),
a knapsack, so every fleet that has a place keeps Σ_s π_s N_s ≤ Σ_islands K_f(π). The weights that a
fleet breaks by most are a linear program, whose rows are fillings of an island: those that it
breaks are found by the same knapsack (Gilmore and Gomory 1961). Counting rows are such cuts, with
weights 0 and 1.

*Least fleet.* Where no weights are broken, the fleet is made smaller as long as it still has no
place. A fleet with as many replicas of every size and above as what is left has none either: one
replica of its own can stand wherever a larger one does. So one of those counts must be smaller.

What may stand in some regions only is counted there as well, and by its regions in a least fleet.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import gcd
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.optimize import linprog

from planner.placement.short import largest_across, only_in, region_sets, room_for
from planner.topology import Bound, Cut

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from planner.placement.islands import Island
    from planner.placement.program import Item
    from planner.placement.wanted import Short
    from planner.topology import Topology

    Sizes = Mapping[int, int]
    """How many there are of each size."""

BROKEN: Final = 1e-6
"""Share of a fleet's weight beyond what there is room for from which a row counts as broken."""
DENOMINATORS: Final = 120
"""Weights are whole multiples of the largest over one of these, wherever they come out so."""
LARGEST: Final = 1024
"""Devices up to which a replica weighs what it has in a row on devices; larger ones weigh that."""
MOST_TRIES: Final = 60
"""Smaller fleets that are tried; the least one found by then makes the cut."""


def counting_cut(topology: Topology, islands: Sequence[Island], short: Short) -> Cut:
    """Return the row of what is short: replicas from a size on, or devices."""
    near = _near(islands, short.regions)
    if short.size is not None:
        weights: tuple[tuple[int, int], ...] = ((short.size, 1),)
        most = _room_for(topology, islands, near, short.accelerator, weights)
    else:
        most = sum(_free(near, short.accelerator).elements())
        weights = tuple((size, size) for size in range(1, min(most + 1, LARGEST) + 1))
    bound = Bound(most, most, short.accelerator, weights, regions=short.regions)
    return Cut((bound,), short.reason)


def _near(islands: Sequence[Island], regions: frozenset[str] | None) -> list[Island]:
    return [i for i in islands if regions is None or i.domain.region in regions]


def hull_cut(
    topology: Topology, items: Sequence[Item], islands: Sequence[Island], reason: str
) -> Cut | None:
    """Return the row that a fleet breaks by most; None if it breaks none."""
    scopes = [(g, None) for g in dict.fromkeys(i.accelerator for i in items)]
    for accelerator, regions in [
        *scopes,
        *((g, r) for g, _ in scopes for r in region_sets(items)),
    ]:
        near = _near(islands, regions)
        counts = _replicas(only_in(items, regions), accelerator)
        free = _free(near, accelerator)
        largest = max(_free(islands, accelerator), default=0)
        sizes = sorted(s for s in counts if s <= largest)
        if not sizes or not free:
            continue
        # Larger ones take whole islands: each stands where one of the largest size below could.
        asked = {s: counts[s] for s in sizes}
        asked[sizes[-1]] += sum(n for s, n in counts.items() if s > largest)
        weights = _whole(asked, _weights(asked, free))
        most = _room_for(topology, islands, near, accelerator, weights)
        if sum(_at(weights, s) * n for s, n in asked.items()) > most:
            bound = Bound(most, most, accelerator, weights, regions=regions)
            return Cut((bound,), reason)
    return None


def least_cut(
    topology: Topology,
    items: Sequence[Item],
    islands: Sequence[Island],
    fails: Callable[[tuple[Item, ...]], bool],
    reason: str,
) -> Cut:
    """Return that one of a few counts must be smaller than in the least fleet without a place.

    Args:
        topology: Where everything stands.
        items: A fleet that has no place.
        islands: All scale-up domains.
        fails: Tells of a smaller fleet whether it is proven to have no place.
        reason: What the fleet lacks.
    """
    least = _least([i for i in items if i.count], fails)
    bounds = []
    alone = [i for i in least if all(w.group is None for w, _ in i.members)]
    for accelerator, regions in dict.fromkeys((i.accelerator, i.regions) for i in alone):
        sizes = Counter[int]()
        for item in alone:
            if (item.accelerator, item.regions) == (accelerator, regions):
                sizes[item.size] += item.count
        for size in sorted(sizes):
            many = sum(n for s, n in sizes.items() if s >= size)
            weights = ((size, 1),)
            near = _near(islands, regions)
            reach = max(_room_for(topology, islands, near, accelerator, weights), many - 1)
            bounds.append(
                Bound(many - 1, reach, accelerator, weights, alone=True, regions=regions, just=True)
            )
    everything = sum(len(i.slots) for i in islands)
    for item in least:
        if item in alone:
            continue
        group = item.group or item.name
        units = item.count // item.per_unit
        known = [b for b in bounds if b.group == group]
        if not known:
            bounds.append(Bound(units - 1, max(everything, units - 1), group=group))
    return Cut(tuple(bounds), reason)


def _least(items: list[Item], fails: Callable[[tuple[Item, ...]], bool]) -> list[Item]:
    """Take away what need not be there for the fleet to have no place: pools, then replicas."""
    tries = at = 0
    while at < len(items):
        one = items[at]
        mine = [i for i in items if i is one or (one.group and i.group == one.group)]
        if mine[0] is not one:  # of a group that was looked at
            at += 1
            continue
        low, high = -1, mine[0].count // mine[0].per_unit  # units: known to fit, known to fail
        while high - low > 1 and tries < MOST_TRIES:
            middle = 0 if low < 0 else (low + high) // 2
            smaller = [replace(i, count=middle * i.per_unit) if i in mine else i for i in items]
            tries += 1
            if fails(tuple(i for i in smaller if i.count)):
                high = middle
            else:
                low = middle
        items = [replace(i, count=high * i.per_unit) if i in mine else i for i in items]
        items = [i for i in items if i.count]
        at += 1 if high else 0
    return items


def _replicas(items: Sequence[Item], accelerator: str) -> Counter[int]:
    """Count the replicas of an accelerator by size, those of groups one by one."""
    found = Counter[int]()
    for item in items:
        for w, n in item.members:
            if w.accelerator == accelerator:
                size = item.size if len(item.members) == 1 and n == 1 else w.devices
                found[size] += n * item.count
    return found


def _free(islands: Sequence[Island], accelerator: str) -> Counter[int]:
    return Counter(len(i.slots) for i in islands if i.domain.shape.accelerator == accelerator)


def _room_for(
    topology: Topology,
    islands: Sequence[Island],
    near: Sequence[Island],
    accelerator: str,
    weights: tuple[tuple[int, int], ...],
) -> int:
    """Return the most weight that those of the islands which are near hold of an accelerator.

    Where replicas may lie over islands, weights are of those that one island holds, or of one
    size that takes whole ones.
    """
    domains: dict[str, Counter[int]] = {}
    for island in near:
        if island.domain.shape.accelerator == accelerator:
            domains.setdefault(island.domain.id, Counter())[len(island.slots)] += 1
    across = largest_across(topology, islands, accelerator)
    if across is not None and weights[0][0] > across:
        size, weight = weights[0]
        return sum(room_for(free, size, across) for free in domains.values()) * weight
    return sum(
        int(_knapsack(weights, f)[0]) * n for free in domains.values() for f, n in free.items()
    )


def _knapsack(weights: Sequence[tuple[int, float]], free: int) -> tuple[float, Counter[int]]:
    """Return the most weight of replicas in an island, and those replicas."""
    best = [0.0] * (free + 1)
    last = [0] * (free + 1)
    for room in range(1, free + 1):
        best[room], last[room] = best[room - 1], 0
        for size, weight in weights:
            if size <= room and best[room - size] + weight > best[room]:
                best[room], last[room] = best[room - size] + weight, size
    held, room = Counter[int](), free
    while room > 0:
        if last[room]:
            held[last[room]] += 1
        room -= last[room] or 1
    return best[free], held


def _weights(counts: Sizes, free: Counter[int]) -> dict[int, float]:
    """Return the weights by size that a fleet breaks by most, its own weight being 1.

    A linear program over weights π and room u_f: the most of Σ c π − Σ m_f u_f, where every
    filling of an island with f free devices weighs at most u_f.
    """
    sizes, kinds = sorted(counts), sorted(free)
    n = len(sizes)
    cost = np.array([-float(counts[s]) for s in sizes] + [float(free[f]) for f in kinds])
    mass = np.array([[float(counts[s]) for s in sizes] + [0.0] * len(kinds)])
    fillings: list[list[float]] = []
    for k, f in enumerate(kinds):
        for i, s in enumerate(sizes):
            fillings.append(_row(n, len(kinds), {i: f // s}, k))
    while True:
        found = linprog(
            cost, A_ub=np.array(fillings), b_ub=np.zeros(len(fillings)),
            A_eq=mass, b_eq=np.ones(1), bounds=(0, None), method="highs",
        )  # fmt: skip
        if not found.success:
            return dict.fromkeys(sizes, 0.0)
        weights = [(s, float(x)) for s, x in zip(sizes, found.x[:n], strict=True)]
        fresh = []
        for k, f in enumerate(kinds):
            heaviest, held = _knapsack(weights, f)
            if heaviest > float(found.x[n + k]) + BROKEN / 10 / max(free.total(), 1):
                row = _row(n, len(kinds), {sizes.index(s): c for s, c in held.items()}, k)
                if row not in fillings:
                    fresh.append(row)
        if not fresh:
            return dict(weights)
        fillings += fresh


def _row(sizes: int, kinds: int, held: Mapping[int, int], kind: int) -> list[float]:
    row = [0.0] * (sizes + kinds)
    for i, many in held.items():
        row[i] = float(many)
    row[sizes + kind] = -1.0
    return row


def _whole(counts: Sizes, weights: Mapping[int, float]) -> tuple[tuple[int, int], ...]:
    """Make weights whole numbers that rise with the size; what is lost by that only weakens."""
    most = max(weights.values(), default=0.0)
    if most <= 0:
        return ((min(counts), 0),)
    shares = [(s, weights[s] / most) for s in sorted(weights)]
    scale = next(
        (d for d in range(1, DENOMINATORS + 1)
         if all(abs(d * x - round(d * x)) <= BROKEN * d for _, x in shares)),
        1000,
    )  # fmt: skip
    rising, steps = 0, []
    for size, share in shares:
        rising = max(rising, int(scale * share + (0.5 if scale <= DENOMINATORS else BROKEN)))
        steps.append((size, rising))
    common = gcd(*(w for _, w in steps)) or 1
    return tuple((size, w // common) for size, w in steps)


def _at(weights: Sequence[tuple[int, int]], size: int) -> int:
    return max((w for least, w in weights if least <= size), default=0)
