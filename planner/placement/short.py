"""Which capacity is too small, as rows that every placement keeps."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from planner.placement.wanted import Short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.placement.islands import Island
    from planner.placement.program import Item
    from planner.topology import Topology


MOST_SETS: Final = 60
"""Sets of regions that are looked at."""


def shorts_of(
    topology: Topology, items: tuple[Item, ...], islands: Sequence[Island]
) -> tuple[Short, ...]:
    """Return the counting rows that are broken, the plainest first.

    For any accelerator, set of domains and size s: of items of s devices or more an island with f
    free ones holds at most floor(f / s); and all items together need no more devices than are free.
    Domain by domain for what must be there, and over all domains.
    """
    found: list[Short] = []
    free_in: dict[str, Counter[int]] = {}
    for island in islands:
        free_in.setdefault(island.domain.id, Counter())[len(island.slots)] += 1
    for accelerator in dict.fromkeys(i.accelerator for i in items):
        across = largest_across(topology, islands, accelerator)
        mine = [i for i in items if i.accelerator == accelerator and i.count]
        domains = tuple(d.id for d in topology.domains if d.shape.accelerator == accelerator)
        scopes = [(domains, mine)]
        if len(domains) > 1:
            scopes += [((d,), [i for i in mine if i.domain == d]) for d in domains]
        for scope, here in scopes:
            free = [free_in[d] for d in scope if d in free_in]
            found += _rows(accelerator, scope, here, free, across)
        for regions in region_sets(mine):
            near = [d for d in topology.domains if d.shape.accelerator == accelerator]
            scope = tuple(d.id for d in near if d.region in regions)
            free = [free_in[d] for d in scope if d in free_in]
            rows = _rows(accelerator, scope, only_in(mine, regions), free, across, regions)
            found += [replace(row, regions=regions) for row in rows]
    return tuple(found)


def region_sets(items: Sequence[Item]) -> tuple[frozenset[str], ...]:
    """Return the sets of regions in which items may stand, and their unions, smallest first."""
    found: set[frozenset[str]] = set()
    for own in dict.fromkeys(i.regions for i in items if i.regions is not None):
        if len(found) < MOST_SETS:
            found |= {own, *(own | other for other in found)}
    return tuple(sorted(found, key=lambda s: (len(s), sorted(s))))


def only_in(items: Sequence[Item], regions: frozenset[str] | None) -> list[Item]:
    """Return the items that may stand nowhere but in some regions; all where None."""
    if regions is None:
        return list(items)
    return [i for i in items if i.regions is not None and i.regions <= regions]


def _rows(
    accelerator: str,
    domains: tuple[str, ...],
    items: Sequence[Item],
    free: Sequence[Counter[int]],
    across: int | None,
    regions: frozenset[str] | None = None,
) -> Iterator[Short]:
    where = domains[0] if len(domains) == 1 else f"{len(domains)} domains"
    if regions is not None:
        where = " and ".join(sorted(regions))
    needs = sum(i.size * i.count for i in items)
    devices = sum(f * n for domain in free for f, n in domain.items())
    if needs > devices:
        weights = tuple((w.pool, w.devices) for i in items for w, _ in i.members)
        reason = f"{needs} devices of {accelerator} are wanted in {where}, and {devices} are free"
        yield Short(accelerator, domains, weights, devices, needs, reason)
        return
    for size in sorted({i.size for i in items}, reverse=True):
        large = [i for i in items if i.size >= size]
        has = sum(room_for(domain, size, across) for domain in free)
        wants = sum(i.count for i in large)
        if wants > has:
            sizes = {i.size for i in large}
            at_least = f"{size} devices" if len(sizes) == 1 else f"{size} or more devices"
            reason = (
                f"{wants} replicas of {at_least} are wanted in {where}, and its scale-up domains"
                f" of {accelerator} have room for {has}"
            )
            weights = tuple((w.pool, 1) for i in large for w, _ in i.members[:1])
            yield Short(accelerator, domains, weights, has, wants, reason, size)
            return


def largest_across(topology: Topology, islands: Sequence[Island], accelerator: str) -> int | None:
    """Return the devices of the islands that larger replicas take whole; None if none may."""
    if not topology.tp_may_cross:
        return None
    sizes = (len(i.slots) for i in islands if i.domain.shape.accelerator == accelerator)
    return max(sizes, default=None)


def room_for(free: Counter[int], size: int, across: int | None) -> int:
    """Return how many replicas of a size, or of larger ones, the islands of a domain hold.

    Args:
        free: How many islands have so many free devices.
        size: Devices of a replica.
        across: Free devices of the largest islands of all, where larger replicas take whole ones.
    """
    if across is not None and size > across:
        return free[across] // -(-size // across)
    return sum(f // size * n for f, n in free.items())


def packing_short(
    topology: Topology, items: tuple[Item, ...], left: Sequence[tuple[Item, int]]
) -> tuple[Short, ...]:
    """Return the row of what was proven: no more devices of these items can be in use together.

    The most devices that can be used by at most these counts is no row for other counts, so it is
    given only as what is short: weights are devices, and ``has`` is what could be placed.
    """
    short = {i.accelerator for i, n in left if n}
    found = []
    for accelerator in sorted(short):
        mine = [(i, n) for i, n in left if i.accelerator == accelerator]
        needs = sum(i.size * i.count for i, _ in mine)
        has = needs - sum(i.size * n for i, n in mine)
        told = ", ".join(f"{n} of {i.count} x {i.name} ({i.size} devices)" for i, n in mine if n)
        found.append(
            Short(
                accelerator,
                tuple(d.id for d in topology.domains if d.shape.accelerator == accelerator),
                tuple((w.pool, w.devices) for i, _ in mine for w, _ in i.members),
                has,
                needs,
                f"on {accelerator} there is no room for {told} beside the rest",
            )
        )
    return tuple(found)
