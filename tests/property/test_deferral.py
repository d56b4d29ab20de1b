"""Deferrable work against brute force: every loan is tried, and a fluid queue is run by itself."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from planner.errors import InfeasibleError, InputError
from planner.milp import Deferral, Instance, choose
from tests.instances import day_and_night, two_by_two

CYCLES = 8
"""Cycles until a fluid queue that can be stable is periodic."""


def longest_wait(rate: list[float], capacity: list[float]) -> float:
    """Longest wait, in slots, in a fluid queue that works while something waits; inf if it grows.

    Exact: both cumulative curves are piecewise linear; the horizontal distance between them is
    largest at a corner of either.
    """
    t, q = [0.0], 0.0
    came, done = [0.0], [0.0]
    backlogs = []
    for a, c in zip(rate * CYCLES, capacity * CYCLES, strict=True):
        left = 1.0
        if q > 0 and c > a and q / (c - a) < 1:  # the queue runs empty within the slot
            drain = q / (c - a)
            t.append(t[-1] + drain)
            came.append(came[-1] + a * drain)
            done.append(came[-1])
            q, left = 0.0, 1 - drain
        served = c if q > 0 else min(a, c)
        q = max(q + (a - served) * left, 0.0)
        t.append(t[-1] + left)
        came.append(came[-1] + a * left)
        done.append(came[-1] - q)
        backlogs.append(q)
    n = len(rate)
    if backlogs[-1] > backlogs[-1 - n] + 1e-9:
        return float("inf")
    # Work at a level came when the curve of arrivals reached it, and was done likewise; what
    # came in the cycle before the last but one is judged, as all of it is done by the end.
    per_cycle = sum(rate)
    low, high = per_cycle * (CYCLES - 3), per_cycle * (CYCLES - 2)
    worst = 0.0
    for corner in {*came, *done}:
        for level in (corner, corner + 1e-7):  # a step of either curve: both of its sides
            if low <= level <= high:
                wait = time_of(t, done, level) - time_of(t, came, level)
                worst = max(worst, wait)
    return worst


def time_of(t: list[float], curve: list[float], level: float) -> float:
    """When a curve that never falls first reaches a level."""
    i = next(i for i, x in enumerate(curve) if x >= level - 1e-12)
    if i == 0 or curve[i] == curve[i - 1]:
        return t[i]
    return t[i - 1] + (t[i] - t[i - 1]) * min((level - curve[i - 1]) / (curve[i] - curve[i - 1]), 1)


def tiny(seed: int) -> Instance:
    """One interactive workload on one or two templates, one deferrable one, up to five slots."""
    rng = np.random.default_rng(seed)
    j_ids = ("a", "b")[: rng.integers(1, 3)]
    slots = tuple("vwxyz"[: rng.integers(2, 6)])
    work = Deferral(
        B=("index",),
        T=("t0", "t1"),
        S=slots,
        period_of={k: ("t0", "t1")[int(rng.integers(0, 2))] for k in slots},
        arriving={("index", k): float(rng.integers(0, 5)) for k in slots[1:]}
        | {("index", slots[0]): float(rng.integers(1, 5))},
        slots_to_wait={"index": int(rng.integers(1, len(slots) + 2))},
        slot_s=1.0,
        lent_rps={(j, "index"): float(rng.integers(1, 4)) for j in j_ids},
        kept={(j, t): int(rng.integers(0, 3)) for j in j_ids for t in ("t0", "t1")},
    )
    return Instance(
        W=("chat",),
        J=j_ids,
        G=("g",),
        O=dict.fromkeys(j_ids, ("0",)),
        demand_rps={"chat": float(rng.integers(1, 7))},
        promise={"chat": 0.9},
        load_rps={(j, "0", "chat"): 2.0 for j in j_ids},
        goodput_rps={(j, "0", "chat"): 2.0 for j in j_ids},
        devices=dict.fromkeys(j_ids, 1),
        accelerator_of=dict.fromkeys(j_ids, "g"),
        usd_per_hour={j: float(rng.integers(1, 5)) for j in j_ids},
        stock={"g": 5},
        min_units={j_ids[0]: 1} if rng.random() < 0.3 else {},
        deferral=work,
    )


def can_lend(data: Instance, n: tuple[int, ...]) -> bool:
    """Whether these units carry the load, and some loan of them does the work in its window."""
    work = data.deferral
    if 2.0 * sum(n) < data.demand_rps["chat"] - 1e-9:
        return False
    loans = itertools.product(*(range(count + 1) for count in n))
    for choice in itertools.product(list(loans), repeat=len(work.T)):
        lent = dict(zip(work.T, choice, strict=True))
        if any(
            lent[t][i] + work.kept.get((j, t), 0) > n[i]
            for i, j in enumerate(data.J)
            for t in work.T
        ):
            continue
        capacity = [
            sum(
                work.lent_rps[j, "index"] * lent[work.period_of[k]][i] for i, j in enumerate(data.J)
            )
            for k in work.S
        ]
        rate = [work.arriving.get(("index", k), 0.0) for k in work.S]
        if longest_wait(rate, capacity) <= work.slots_to_wait["index"] + 1e-5:
            return True
    return False


def cheapest(data: Instance) -> float | None:
    best = None
    for n in itertools.product(*(range(6) for _ in data.J)):
        enough = all(c >= data.min_units.get(j, 0) for j, c in zip(data.J, n, strict=True))
        cost = sum(data.usd_per_hour[j] * c for j, c in zip(data.J, n, strict=True))
        if sum(n) > 5 or not enough or (best is not None and cost >= best):
            continue
        if can_lend(data, n):
            best = cost
    return best


@pytest.mark.parametrize("block", range(4))
def test_the_cheapest_fleet_equals_brute_force(block: int) -> None:
    for seed in range(25 * block, 25 * (block + 1)):
        data = tiny(seed)
        expected = cheapest(data)
        if expected is None:
            with pytest.raises(InfeasibleError):
                choose(data, "min_cost", gap=0.0)
            continue
        found = choose(data, "min_cost", gap=0.0)
        assert found.cost_usd_per_hour == pytest.approx(expected), seed


def test_the_valley_carries_what_the_peak_has_no_room_for() -> None:
    """18 requests a day at 3.6 a slot and unit take five units lent, by day and night together.

    By day n - 2 can be lent, by night n - 1: three units lend 1 + 2 = 3, too few; four 2 + 3 = 5.
    """
    data = two_by_two(deferral=day_and_night())
    found = choose(data, "min_cost", gap=0.0)
    assert found.units["big"] == 4
    lent = {t: n for (_, _, t), n in found.lent.items()}
    assert 3.6 * sum(lent.values()) >= 18 - 1e-6
    assert sum(found.deferred.values()) == pytest.approx(18.0)
    alone = choose(two_by_two(), "min_cost", gap=0.0)
    assert found.cost_usd_per_hour > alone.cost_usd_per_hour


def test_a_longer_window_never_costs_more() -> None:
    for seed in range(40):
        data, before = tiny(seed), float("inf")
        for slots in range(1, 7):
            work = dataclasses.replace(data.deferral, slots_to_wait={"index": slots})
            try:
                cost = choose(
                    dataclasses.replace(data, deferral=work), "min_cost", gap=0.0
                ).cost_usd_per_hour
            except InfeasibleError:
                cost = float("inf")
            assert cost <= before + 1e-6
            before = cost


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slot_s": 0.0}, "length above 0"),
        ({"period_of": {"noon": "day"}}, "period_of\\[midnight\\]"),
        ({"arriving": {("index", "noon"): -1.0}}, "arriving\\[index,noon\\]"),
        ({"arriving": {}}, "nothing comes"),
        ({"slots_to_wait": {}}, "at least 1"),
        ({"lent_rps": {("huge", "index"): 1.0}}, "lent_rps\\[huge,index\\]"),
        ({"kept": {("big", "dusk"): 1}}, "kept\\[big,dusk\\]"),
    ],
)
def test_broken_deferrals_are_told(change: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        two_by_two(deferral=day_and_night(**change))


def test_nothing_is_lent_where_nothing_may_wait() -> None:
    found = choose(two_by_two(), "min_cost")
    assert (found.lent, found.deferred, found.waiting) == ({}, {}, {})
