"""Overload is called by its name: verdicts on loads around capacities that are known by hand."""

from __future__ import annotations

import numpy as np
import pytest

from planner.kernels import COMPILED
from planner.simulation.capacity import coarse_capacity, precise_capacity
from planner.simulation.effort import Effort, RunSize
from planner.simulation.fleet import FleetPool, judge_fleet, sample_fleet
from planner.simulation.goodput import goodput_curve
from planner.simulation.pool import run_pool
from tests.problems import affine_law, fixed, setup, spread, study
from tests.queues import one_slot, slots

RUNS, REQUESTS = (40, 20_000) if COMPILED else (8, 8_000)
SYSTEMS = {
    # one slot of 20 ms
    "slot": (one_slot(20), fixed(10, 1), 50.0),
    # 16 slots, 10 steps of 20 ms a request
    "seats": (slots(16, 20), fixed(10, 10), 80.0),
    # a step of 20 ms computes 400 tokens: 4 prompts
    "budget": (setup(affine_law(20, 0, 400), 64), fixed(100, 1), 200.0),
    # 40 blocks hold 8 requests of 80 tokens; 10 steps of 20 ms each
    "memory": (setup(affine_law(20, 0, 4096), 64, blocks=40), fixed(70, 10), 40.0),
}


def growths(name, load):
    pool, lengths, capacity = SYSTEMS[name]
    problem = study(lengths, ttft_ms=(1e9,), tpot_ms=(1e9,), promise=(0.9,))
    return [
        run_pool(
            pool,
            problem.draws.get((1.0,), REQUESTS, r, 1),
            load * capacity,
            problem.deadlines,
        )
        for r in range(RUNS)
    ]


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("load", [0.7, 0.8, 0.9, 0.95])
def test_false_alarms_are_rare_below_the_capacity(name, load):
    """Below 5 % of runs up to 0.95 of the capacity."""
    alarms = sum(run.unstable for run in growths(name, load))
    assert alarms <= 0.05 * RUNS


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("load", [1.05, 1.1, 1.2, 1.3])
def test_overload_is_never_missed_and_grows_as_it_must(name, load):
    """No run is missed from 1.05 of the capacity on; the wait grows by load / capacity - 1."""
    runs = growths(name, load)
    assert all(run.unstable for run in runs)
    growth = [run.backlog_growth for run in runs]
    assert np.mean(growth) == pytest.approx(load - 1, abs=0.006)


@pytest.mark.parametrize("name", SYSTEMS)
def test_overload_is_never_averaged_into_a_capacity(name):
    """No deadline is ever missed within these runs, yet no more than the pool serves counts."""
    pool, lengths, capacity = SYSTEMS[name]
    problem = study(lengths, ttft_ms=(1e9,), tpot_ms=(1e9,), promise=(0.9,))
    coarse = coarse_capacity(problem, pool, (1.0,), 0.7 * capacity, REQUESTS)
    assert coarse == pytest.approx(capacity, rel=0.03)
    found = precise_capacity(
        problem, pool, (1.0,), 1.5 * capacity, requests=REQUESTS, precision=0.02
    )
    assert found.precise
    assert found.capacity_rps.value == pytest.approx(capacity, rel=0.015)


def effort(requests: int, replications: int, limit: int) -> Effort:
    size = RunSize(requests, replications, requests)
    return Effort(requests, size, size, limit, requests, replications)


def test_a_growing_backlog_breaks_a_promise_that_the_run_still_kept():
    pool, lengths, capacity = SYSTEMS["slot"]
    problem = study(lengths, ttft_ms=(1e9,), tpot_ms=(1e9,), promise=(0.9,))
    judged = judge_fleet(
        problem,
        [FleetPool(pool, (1.1 * capacity,))],
        effort=effort(5_000, 3, 10_000),
        stream=0,
    )
    assert judged.intervals[0].value == 1.0
    assert judged.verdict == "broken"


def test_a_run_lengthens_until_the_interval_is_as_narrow_as_wanted():
    """Far above the promise the verdict is early; a wanted half-width costs more requests."""
    pool, lengths, capacity = SYSTEMS["slot"]
    problem = study(lengths, ttft_ms=(80.0,), tpot_ms=(1e9,), promise=(0.5,))
    pools = [FleetPool(pool, (0.7 * capacity,))]
    run = effort(5_000, 4, 80_000)
    early = judge_fleet(problem, pools, effort=run, stream=0)
    narrow = judge_fleet(problem, pools, effort=run, stream=0, half_width=0.006)
    assert early.verdict == narrow.verdict == "kept"
    assert early.intervals[0].half_width > 0.006
    assert narrow.intervals[0].half_width <= 0.006
    assert narrow.sample.runs[0][0].offered[0] >= 2 * early.sample.runs[0][0].offered[0]


def test_goodput_curve_peaks_near_the_capacity_and_collapses_after_it():
    """One slot of 20 ms, three service times to be in time: nothing in overload is."""
    pool, lengths, capacity = SYSTEMS["slot"]
    problem = study(lengths, ttft_ms=(60.0,), tpot_ms=(1e9,), promise=(0.9,))
    found = coarse_capacity(problem, pool, (1.0,), 0.7 * capacity, 10_000)
    curve = goodput_curve(problem, pool, (1.0,), found, requests=10_000)
    assert curve.collapsed
    loads = [p.load_rps for p in curve.points]
    assert loads == sorted(loads)
    for point in curve.points:
        assert point.compliant_rps <= point.load_rps
        assert point.completed_rps <= capacity * 1.001
        if not point.unstable:
            assert point.completed_rps == pytest.approx(point.load_rps, rel=0.03)
        if point.load_rps > 1.05 * capacity:
            assert point.unstable
            assert point.completed_rps == pytest.approx(capacity, rel=0.001)
    assert curve.peak.compliant_rps >= 0.9 * found * 0.98
    assert curve.peak.load_rps < capacity


def test_pools_of_a_fleet_are_never_run_too_short():
    problem = study(spread(100, 5, 0.5), ttft_ms=(1e9,), tpot_ms=(1e9,), promise=(0.5,))
    small = FleetPool(one_slot(1), (0.001,))
    large = FleetPool(one_slot(1), (1.0,))
    sample = sample_fleet(problem, [small, large], RunSize(5_000, 2, 5_000), stream=0)
    assert sample.runs[0][0].offered[0] > 4_000
