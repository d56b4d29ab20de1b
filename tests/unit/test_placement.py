"""Placements against a checker that shares nothing with the program, and against brute force."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from planner.placement import NotPlaced, Placed, Placement, Wanted, broken_promises, place
from planner.placement.enough import enough
from planner.placement.program import items_of
from tests.topologies import domain, shape, topology


def placed(t, wanted, existing=()) -> Placement:
    found = place(t, wanted, existing)
    assert isinstance(found, Placement), found
    assert broken_promises(t, wanted, found.placed) == ()
    return found


def fewest_opened(free: tuple[int, ...], sizes: tuple[int, ...]) -> int | None:
    """The fewest nodes that hold all sizes, by trying every choice; None if none holds them."""
    best = None
    for choice in itertools.product(range(len(free)), repeat=len(sizes)):
        used = Counter()
        for node, size in zip(choice, sizes, strict=True):
            used[node] += size
        if all(n <= free[node] for node, n in used.items()):
            best = min(len(used), best or len(used))
    return best


def test_odd_degrees_are_packed_as_well_as_by_brute_force() -> None:
    rng = np.random.default_rng(4)
    seen = Counter()
    for _ in range(60):
        free = tuple(int(n) for n in rng.integers(2, 9, rng.integers(1, 5)))
        counts = {s: int(rng.integers(0, 3)) for s in (3, 6, 2, 1)}
        sizes = tuple(s for s, n in counts.items() for _ in range(n))
        if not sizes or len(sizes) > 6:
            continue
        wanted = [Wanted(f"tp{s}", "h100-sxm", s, n) for s, n in counts.items() if n]
        t = topology(domain("a", "r", *free))
        best, found = fewest_opened(free, sizes), place(t, wanted)
        seen[best is None] += 1
        if best is None:
            assert isinstance(found, NotPlaced)
            assert found.proven
        else:
            assert isinstance(found, Placement)
            assert (found.opened, found.proven) == (best, True)
            assert broken_promises(t, wanted, found.placed) == ()
    assert min(seen[True], seen[False]) >= 10


def test_replicas_are_spread_evenly_over_zones_and_racks() -> None:
    t = topology(
        domain("a", "r1", 8, 8),
        domain("a", "r2", 8, 8),
        domain("b", "r1", 8, 8),
        domain("b", "r2", 8, 8),
    )
    found = placed(t, [Wanted("p", "h100-sxm", 4, 8)])
    assert Counter(row.domain for row in found.placed) == {d.id: 2 for d in t.domains}


def test_a_unit_lies_within_what_was_promised() -> None:
    t = topology(domain("a", "r1", 8, 8), domain("a", "r2", 8, 4), domain("b", "r1", 8, 8, 8))
    pair = [
        Wanted("p", "h100-sxm", 4, 4, group="g", per_unit=2, within="rack"),
        Wanted("d", "h100-sxm", 8, 2, group="g", per_unit=1, within="rack"),
    ]
    found = placed(t, pair)
    for unit in (0, 1):
        assert len({row.domain for row in found.placed if row.unit == unit}) == 1
    near = [
        Wanted("p", "h100-sxm", 2, 6, group="g", per_unit=2, within="scaleup"),
        Wanted("d", "h100-sxm", 4, 3, group="g", per_unit=1, within="scaleup"),
    ]
    for unit in (0, 1, 2):
        rows = [row for row in placed(t, near).placed if row.unit == unit]
        assert len({(row.domain, row.node) for row in rows}) == 1


def test_racks_that_are_not_told_apart_promise_nothing_within_a_rack() -> None:
    t = topology(domain("a", None, 8, 8))
    pair = [
        Wanted("p", "h100-sxm", 8, 1, group="g", within="rack"),
        Wanted("d", "h100-sxm", 8, 1, group="g", within="rack"),
    ]
    assert isinstance(place(t, pair), NotPlaced)


def test_what_runs_stays_where_it_is() -> None:
    t = topology(domain("a", "r1", 8, 8), domain("b", "r1", 8, 8))
    first = placed(t, [Wanted("p", "h100-sxm", 2, 5), Wanted("q", "h100-sxm", 4, 2)])
    more = [Wanted("p", "h100-sxm", 2, 7), Wanted("q", "h100-sxm", 4, 2)]
    second = placed(t, more, first.placed)
    assert second.moved == 0
    assert set(first.placed) <= set(second.placed)
    fewer = placed(t, [Wanted("p", "h100-sxm", 2, 3)], first.placed)
    places = {(r.domain, r.node, r.devices) for r in first.placed if r.pool == "p"}
    assert fewer.moved == 0
    assert {(r.domain, r.node, r.devices) for r in fewer.placed} <= places


def test_only_what_must_make_room_moves() -> None:
    t = topology(domain("a", "r", 8, 8))
    existing = [
        Placed("p", 0, "a.r.h100-sxm", 0, (0, 1)),
        Placed("p", 1, "a.r.h100-sxm", 1, (4, 5)),
        Placed("p", 2, "a.r.h100-sxm", 1, (6, 7)),
    ]
    found = placed(t, [Wanted("p", "h100-sxm", 2, 3), Wanted("q", "h100-sxm", 8, 1)], existing)
    assert found.moved == 1
    assert {row.replica for row in found.placed if row in existing} == {1, 2}


def test_a_rack_wide_domain_holds_what_no_node_holds() -> None:
    rack = shape("gb200-nvl72", devices=4, joined=16)
    t = topology(domain("a", "r", 4, 4, 4, 4, of=rack))
    found = placed(t, [Wanted("p", "gb200-nvl72", 8, 2)])
    assert Counter(row.replica for row in found.placed) == {0: 2, 1: 2}
    assert isinstance(place(t, [Wanted("p", "gb200-nvl72", 12, 2)]), NotPlaced)


def test_a_replica_crosses_scale_up_domains_only_where_that_is_allowed() -> None:
    nodes = domain("a", "r", 8, 8, 8)
    want = [Wanted("p", "h100-sxm", 16, 1), Wanted("q", "h100-sxm", 4, 2)]
    assert isinstance(place(topology(nodes), want), NotPlaced)
    found = placed(topology(nodes, tp_may_cross=True), want)
    assert len({row.node for row in found.placed if row.pool == "p"}) == 2


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (
            [Wanted("p", "h100-sxm", 1, 13)],
            "13 devices of h100-sxm are wanted in a.r.h100-sxm, and 12 are free",
        ),
        (
            [Wanted("p", "h100-sxm", 6, 2)],
            "2 replicas of 6 devices are wanted in a.r.h100-sxm, and its scale-up domains of"
            " h100-sxm have room for 1",
        ),
        (
            [Wanted("p", "h100-sxm", 3, 3), Wanted("q", "h100-sxm", 1, 3), Wanted("r", "l4", 1, 1)],
            "1 devices of l4 are wanted in 0 domains, and 0 are free",
        ),
        (
            [Wanted("p", "h100-sxm", 2, 4), Wanted("q", "h100-sxm", 4, 1)],
            "on h100-sxm there is no room for",
        ),
    ],
)
def test_what_is_short_is_named(wanted: list[Wanted], reason: str) -> None:
    found = place(topology(domain("a", "r", 7, 5)), wanted)
    assert isinstance(found, NotPlaced)
    assert found.proven
    assert found.shorts[0].reason.startswith(reason)
    assert found.shorts[0].needs > found.shorts[0].has


def test_the_checker_sees_every_kind_of_broken_promise() -> None:
    t = topology(domain("a", "r", 8, 4), domain("b", "r", 8))
    at = "a.r.h100-sxm"
    wanted = [Wanted("p", "h100-sxm", 2, 1, domain=at)]

    def told(*rows: Placed) -> str:
        return " ".join(broken_promises(t, wanted, rows))

    assert told(Placed("p", 0, at, 0, (0, 1))) == ""
    assert "wanted" in told()
    assert "not wanted" in told(Placed("p", 0, at, 0, (0, 1)), Placed("q", 0, at, 0, (4,)))
    assert "not free" in told(Placed("p", 0, at, 1, (0, 1)))
    assert "not free" in told(Placed("p", 0, at, 2, (0, 1)))
    assert "other than 2" in told(Placed("p", 0, at, 0, (0, 1, 2)))
    assert "promised" in told(Placed("p", 0, "b.r.h100-sxm", 0, (0, 1)))
    assert "one device" in told(Placed("p", 0, at, 0, (0, 0)))
    assert "2 scale-up" in told(Placed("p", 0, at, 0, (0,)), Placed("p", 0, at, 1, (4,)))
    assert "no domain" in told(Placed("p", 0, "c", 0, (0, 1)))
    group = [Wanted(n, "h100-sxm", 8, 1, group="g", within="zone") for n in ("p", "d")]
    rows = [Placed("p", 0, at, 0, tuple(range(8)), 0),
            Placed("d", 0, "b.r.h100-sxm", 0, tuple(range(8)), 0)]  # fmt: skip
    assert "meets in a region" in " ".join(broken_promises(t, group, rows))


def test_the_same_question_has_the_same_answer() -> None:
    t = topology(domain("a", "r", 8, 7, 5), domain("b", "r", 8, 8))
    wanted = [Wanted(f"p{s}", "h100-sxm", s, 2) for s in (1, 2, 3, 4)]
    assert place(t, wanted) == place(t, wanted)


def test_of_many_racks_alike_as_many_are_looked_at_as_there_are_replicas() -> None:
    """Racks that hold something, or that something must be in, are like no other."""
    wanted = [
        Wanted("a", "h100-sxm", 4, 3),
        Wanted("b", "h100-sxm", 8, 2),
        Wanted("c", "h100-sxm", 8, 1, domain="z.r777.h100-sxm"),
    ]
    racks = [domain("z", f"r{n}", 8) for n in range(3_000)]
    t = topology(*racks, domain("y", "r0", 8, 8))
    runs = Placed("b", 0, "z.r2999.h100-sxm", 0, tuple(range(8)))
    left = enough(t, items_of(wanted), [runs.domain])
    assert [d.id for d in left.domains] == [
        *(d.id for d in racks[:6]), "z.r777.h100-sxm", runs.domain, "y.r0.h100-sxm"
    ]  # fmt: skip
    found = placed(t, wanted, [runs])
    assert (found.proven, found.moved, found.opened) == (True, 0, 6)
    assert runs in found.placed
    held = Counter((row.pool, row.domain) for row in found.placed)
    assert max(held.values()) == 1


def test_leaving_racks_out_changes_no_goal() -> None:
    """With as many racks as replicas nothing is left out; with twice as many goals stay reached."""
    for n in range(1, 5):
        wanted = [Wanted("a", "h100-sxm", 3, n), Wanted("b", "h100-sxm", 5, 1)]
        for racks in (n + 1, 2 * n + 2):
            t = topology(*(domain("z", f"r{i}", 8) for i in range(racks)))
            found = placed(t, wanted)
            assert (found.opened, found.proven) == (max(n, 1), True)
            assert set(Counter((r.pool, r.domain) for r in found.placed).values()) == {1}
