"""Rows that a failed placement returns: the fleet breaks them, no fleet with a place does."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

from planner.placement import (
    NotPlaced,
    Placement,
    Wanted,
    broken_promises,
    place,
    refusal,
)
from planner.placement.cuts import hull_cut, least_cut
from planner.placement.islands import all_islands
from planner.placement.program import items_of
from tests.topologies import domain, topology

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planner.topology import Cut

GPU = "h100-sxm"


def packs(free: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether replicas fit into islands, by trying."""
    if not sizes:
        return True
    first, *rest = sorted(sizes, reverse=True)
    for room in sorted({f for f in free if f >= first}):
        left = list(free)
        left[left.index(room)] -= first
        if packs(left, rest):
            return True
    return False


def packs_across(domains: Sequence[Sequence[int]], sizes: Sequence[int]) -> bool:
    """The same where one that is larger than any island takes whole largest ones of a domain."""
    largest = max(max(d) for d in domains)

    def tried(left: tuple[tuple[int, ...], ...], todo: tuple[int, ...]) -> bool:
        if not todo:
            return True
        first, rest = todo[0], todo[1:]
        for d, free in enumerate(left):
            if first > largest:
                many = -(-first // largest)
                if free.count(largest) < many:
                    continue
                after = list(free)
                for _ in range(many):
                    after.remove(largest)
                if tried((*left[:d], tuple(after), *left[d + 1 :]), rest):
                    return True
                continue
            for room in sorted({f for f in free if f >= first}):
                after = list(free)
                after[after.index(room)] -= first
                if tried((*left[:d], tuple(after), *left[d + 1 :]), rest):
                    return True
        return False

    return tried(tuple(tuple(d) for d in domains), tuple(sorted(sizes, reverse=True)))


def fleets(sizes: Sequence[int], devices: int) -> Iterator[dict[int, int]]:
    for counts in itertools.product(*(range(devices // s + 1) for s in sizes)):
        if sum(s * n for s, n in zip(sizes, counts, strict=True)) <= devices:
            yield dict(zip(sizes, counts, strict=True))


def each(counts: Mapping[int, int]) -> list[int]:
    return [s for s, n in counts.items() for _ in range(n)]


def keeps(cut: Cut, counts: Mapping[int, int]) -> bool:
    parts = [(GPU, s, n) for s, n in counts.items()]
    return any(b.weight_of(parts) <= b.most for b in cut.any_of)


def wanted_of(counts: Mapping[int, int]) -> list[Wanted]:
    return [Wanted(f"tp{s}", GPU, s, n) for s, n in counts.items() if n]


@pytest.mark.parametrize("batch", range(4))
def test_no_fleet_that_packs_breaks_a_row(batch: int) -> None:
    rng = np.random.default_rng([9, batch])
    seen = Counter[int]()
    for _ in range(30):
        free = tuple(int(n) for n in rng.integers(1, 9, rng.integers(1, 4)))
        sizes = sorted({int(s) for s in rng.integers(1, 8, 3)})
        counts = {s: int(rng.integers(0, 4)) for s in sizes}
        if not any(counts.values()):
            continue
        found = refusal(topology(domain("a", "r", *free)), wanted_of(counts))
        assert (found is None) == packs(free, each(counts)), (free, counts)
        if found is None:
            continue
        assert found.cuts
        for cut in found.cuts:
            seen[len(cut.any_of[0].weights) > 1] += 1
            assert not keeps(cut, counts), (free, counts, cut)
            for other in fleets((1, *sizes, 8), sum(free)):
                if packs(free, each(other)):
                    assert keeps(cut, other), (free, counts, cut, other)
    assert seen[False] + seen[True] >= 5


def test_rows_hold_where_replicas_lie_over_islands() -> None:
    rng = np.random.default_rng(12)
    refused = 0
    for _ in range(60):
        free = [tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 4))) for _ in range(2)]
        sizes = sorted({int(s) for s in rng.integers(1, 9, 3)})
        counts = {s: int(rng.integers(0, 3)) for s in sizes}
        if not any(counts.values()):
            continue
        t = topology(domain("a", "r", *free[0]), domain("b", "r", *free[1]), tp_may_cross=True)
        found = refusal(t, wanted_of(counts))
        assert (found is None) == packs_across(free, each(counts)), (free, counts)
        if found is None:
            continue
        refused += 1
        for cut in found.cuts:
            assert not keeps(cut, counts), (free, counts, cut)
            for other in fleets(sizes, sum(map(sum, free))):
                if packs_across(free, each(other)):
                    assert keeps(cut, other), (free, counts, cut, other)
    assert refused >= 10


def test_the_least_fleet_without_a_place_makes_a_row_where_no_weights_do() -> None:
    """Valid on its own, whatever the hull would have said."""
    rng = np.random.default_rng(3)
    several = 0
    for _ in range(40):
        free = tuple(int(n) for n in rng.integers(2, 9, 3))
        counts = {s: int(rng.integers(0, 4)) for s in (2, 3, 5)}
        if packs(free, each(counts)):
            continue
        t, wanted = topology(domain("a", "r", *free)), wanted_of(counts)
        items, islands = items_of(wanted), all_islands(t, wanted, ())
        cut = least_cut(
            t, items, islands,
            lambda fewer, free=free: not packs(free, each({i.size: i.count for i in fewer})),
            "no room",
        )  # fmt: skip
        several += len(cut.any_of) > 1
        assert not keeps(cut, counts)
        for other in fleets((2, 3, 4, 5), sum(free)):
            if packs(free, each(other)):
                assert keeps(cut, other), (free, counts, cut, other)
                parts = [(GPU, s, n) for s, n in other.items()]
                assert all(b.weight_of(parts) <= b.reach for b in cut.any_of)
    assert several >= 3


def test_weights_are_found_where_counting_sees_nothing() -> None:
    """Two fives and two threes on three eights less one: 16 of 23 devices, each size has room."""
    t = topology(domain("a", "r", 7, 5))
    wanted = [Wanted("q", GPU, 4, 1), Wanted("p", GPU, 2, 4)]
    cut = hull_cut(t, items_of(wanted), all_islands(t, wanted, ()), "no room")
    assert cut is not None
    (bound,) = cut.any_of
    # Islands of 7 and 5 hold pairs like 6 and 4: of twelve devices ten.
    assert bound.weight_of([(GPU, 4, 1), (GPU, 2, 3)]) <= bound.most
    assert bound.weight_of([(GPU, 4, 1), (GPU, 2, 4)]) > bound.most
    assert bound.weight_of([(GPU, 2, 5)]) <= bound.most


def test_groups_are_counted_by_name() -> None:
    """By sizes two units have room; within a rack only one has, for one rack holds no eights."""
    t = topology(domain("a", "r1", 4, 4, 4), domain("a", "r2", 8, 8))

    def units(n: int) -> list[Wanted]:
        return [
            Wanted(f"g.{size}", GPU, size, n, group="g", per_unit=1, within="rack")
            for size in (4, 8)
        ]

    assert refusal(t, units(1)) is None
    found = refusal(t, units(2))
    assert found is not None
    assert [(b.group, b.most) for cut in found.cuts for b in cut.any_of] == [("g", 1)]


def packs_in(
    free: Mapping[str, Sequence[int]], fleet: Sequence[tuple[int, frozenset[str] | None]]
) -> bool:
    """Whether replicas, each with the regions where it may be, fit into islands by region."""
    if not fleet:
        return True
    (size, regions), *rest = sorted(fleet, key=lambda one: -one[0])
    for region, islands in free.items():
        if regions is not None and region not in regions:
            continue
        for room in sorted({f for f in islands if f >= size}):
            left = list(islands)
            left[left.index(room)] -= size
            if packs_in({**free, region: left}, rest):
                return True
    return False


def test_rows_hold_where_replicas_are_bound_to_regions() -> None:
    """Some may be in one of two regions, some in the other, some in both."""
    rng = np.random.default_rng(21)
    eu, us = frozenset({"eu"}), frozenset({"us"})
    kinds = [(2, eu), (3, us), (4, None), (3, eu)]
    seen = Counter[str]()
    for _ in range(50):
        free = {r: tuple(int(n) for n in rng.integers(1, 7, 2)) for r in ("eu", "us")}
        counts = tuple(int(n) for n in rng.integers(0, 3, len(kinds)))
        t = topology(
            domain("a", "r", *free["eu"], region="eu"), domain("b", "r", *free["us"], region="us")
        )

        def fleet(many: Sequence[int]) -> list[tuple[int, frozenset[str] | None]]:
            return [kind for kind, n in zip(kinds, many, strict=True) for _ in range(n)]

        def kept(cut: Cut, many: Sequence[int]) -> bool:
            return any(
                sum(
                    n * b.weight_of([(GPU, size, 1)], None, regions)
                    for (size, regions), n in zip(kinds, many, strict=True)
                )
                <= b.most
                for b in cut.any_of
            )

        wanted = [
            Wanted(f"p{i}", GPU, size, n, regions=regions)
            for i, ((size, regions), n) in enumerate(zip(kinds, counts, strict=True))
            if n
        ]
        found = place(t, wanted) if wanted else None
        fits = packs_in(free, fleet(counts))
        assert found is None or isinstance(found, Placement) == fits, (free, counts)
        if isinstance(found, Placement):
            assert broken_promises(t, wanted, found.placed) == ()
            seen["placed"] += 1
        if not isinstance(found, NotPlaced):
            continue
        for cut in found.cuts:
            seen["refused"] += 1
            assert not kept(cut, counts), (free, counts, cut)
            for other in itertools.product(range(4), repeat=len(kinds)):
                if packs_in(free, fleet(other)):
                    assert kept(cut, other), (free, counts, cut, other)
    assert min(seen["placed"], seen["refused"]) >= 10
