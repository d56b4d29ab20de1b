"""Priority scheduling in a pool: whom it helps, and that nothing is lost."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from planner.kernels import simulate_pool
from planner.simulation.cached_pool import Replicas, serve_with_cache
from planner.simulation.capacity import coarse_capacity
from tests.problems import affine_law, setup, spread, study

LAW = affine_law(5, 30, 1024, context_ps=50_000)
INTERACTIVE, BATCH = spread(200, 60, 1.0), spread(2_000, 100, 0.6)
RATES = (8.0, 4.0)
BOTH = study(INTERACTIVE, BATCH, ttft_ms=(400, 60_000), tpot_ms=(60, 500), promise=(0.95, 0.9))


def pools(**changes):
    fcfs = setup(
        LAW, 24, **{"blocks": 1_500, "replicas": 2, "router": "least_outstanding"} | changes
    )
    return fcfs, dataclasses.replace(fcfs, priority=(0, 1))


def by_engine(pool, traffic):
    return serve_with_cache(
        pool.law,
        pool.limits,
        None,
        traffic,
        Replicas(pool.replicas, pool.router, pool.priority),
    )


def test_equal_priorities_are_first_come_first_served_to_the_bit():
    fcfs, _ = pools(blocks=700)
    traffic = BOTH.draws.get(RATES, 3_000, 0, 0).at(20.0)
    equal = by_engine(dataclasses.replace(fcfs, priority=(3, 3)), traffic)
    requests = traffic.arrival_ps, traffic.prompt, traffic.output
    pool = simulate_pool(
        fcfs.law, fcfs.limits, *requests, replicas=2, router=fcfs.router, gaps=True
    )
    assert pool.preemptions.max() > 0
    assert (pool.first_scheduled_ps == equal.first_scheduled_ps).all()
    assert (pool.first_token_ps == equal.first_token_ps).all()
    assert (pool.finish_ps == equal.finish_ps).all()
    assert (pool.gaps.longest_ps() == equal.longest_gap_ps).all()


def test_priority_brings_the_urgent_forward_and_loses_nobody():
    traffic = BOTH.draws.get(RATES, 6_000, 0, 0).at(36.0)
    urgent = traffic.workload == 0
    served = [by_engine(pool, traffic) for pool in pools()]
    wait = [(s.first_token_ps - traffic.arrival_ps) * 1e-12 for s in served]
    assert np.quantile(wait[1][urgent], 0.95) < 0.5 * np.quantile(wait[0][urgent], 0.95)
    assert wait[1][~urgent].mean() > wait[0][~urgent].mean()  # somebody pays for it
    for one in served:
        assert (one.finish_ps >= one.first_token_ps).all()
        assert (one.first_token_ps > traffic.arrival_ps).all()
    # Each is served whole, by the same engines: all is done at about the same time.
    assert served[1].finish_ps.max() == pytest.approx(served[0].finish_ps.max(), rel=0.02)


@pytest.mark.minutes_in_plain
def test_the_interactive_class_is_worth_more_capacity_under_priority():
    fcfs, priority = pools(replicas=1)
    found = [coarse_capacity(BOTH, pool, RATES, 6.0, 20_000) for pool in (fcfs, priority)]
    assert found[1] > 1.1 * found[0]
