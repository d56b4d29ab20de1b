"""P(promise kept): closed forms of one queue and of normal variables."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

from planner.curves.doubt import step_sigma
from planner.planning.chances import demand_multiples, kept_shares, lattice
from planner.planning.margins import LEAST, MOST, SPREAD, Margin, last_kept, margins_of
from planner.problem.arrivals import PoissonArrivals
from planner.simulation.draw import Draws
from planner.simulation.effort import Effort, RunSize
from planner.simulation.fleet import FleetPool
from tests.problems import fixed, study
from tests.queues import md1_wait_cdf, one_slot

SIZE = RunSize(150_000, 4, 1)
EFFORT = Effort(1_000, SIZE, SIZE, 1_000, 1_000, 1)


def curve_off_by(mean: float):
    return SimpleNamespace(relative_error=SimpleNamespace(mean=mean))


@pytest.mark.minutes_in_plain
def test_a_queue_with_one_server_bears_what_theory_says_at_every_step_time():
    """Within 2 %: P(wait <= t) of M/D/1 with a service of k x 10 ms falls to the promise there."""
    rate, late_ms, error = 60.0, 12.0, 0.1
    promise = md1_wait_cdf(0.65, late_ms / 10)
    base = study(fixed(1, 1), ttft_ms=(10 + late_ms,), tpot_ms=(1e6,), promise=(promise,))
    base = replace(base, draws=Draws(base.draws.laws, 3, (PoissonArrivals(rate),)))
    demand = SimpleNamespace(id="w", slo=SimpleNamespace(attainment=promise), rate_rps=rate)
    problem = SimpleNamespace(
        asked=(SimpleNamespace(parts=(0,), demand=demand),),
        policies=SimpleNamespace(router="round_robin"),
        robust=None,
        slower_by=0.0,
    )
    build = SimpleNamespace(curve=curve_off_by(error), group=None)
    fleet = SimpleNamespace(
        pools=(SimpleNamespace(template=SimpleNamespace(build=build)),),
        for_simulation=lambda _: [FleetPool(one_slot(10), (rate,))],
    )
    (margin,) = margins_of(problem, base, fleet, EFFORT)
    assert margin.deviations == (-SPREAD, 0.0, SPREAD)
    for z, bears in zip(margin.deviations, margin.bears, strict=True):
        service_ms = 10 * math.exp(z * step_sigma(build.curve))
        left = (10 + late_ms) / service_ms - 1  # the deadline is on wait and service
        load = brentq(lambda x, t=left: md1_wait_cdf(x, t) - promise, 0.05, 0.99)
        assert bears == pytest.approx(load * 1000 / service_ms / rate, rel=0.02)


def test_the_standard_deviation_is_that_whose_mean_absolute_value_is_the_stated_error():
    z = np.random.default_rng(1).standard_normal(400_000)
    sigma = step_sigma(curve_off_by(0.04))
    assert np.abs(sigma * z).mean() == pytest.approx(0.04, rel=0.01)
    assert step_sigma(curve_off_by(0.04), 0.08) == pytest.approx(2 * sigma)


@pytest.mark.parametrize("cv", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("at_zero", [0.9, 1.0, 1.2])
def test_the_chance_is_that_of_two_normal_variables(at_zero, cv):
    """A log-linear margin and a lognormal demand: their log difference is normal."""
    slope = 0.08
    zs = (-SPREAD, 0.0, SPREAD)
    margin = Margin("w", zs, tuple(at_zero * math.exp(-slope * z) for z in zs))
    sigma = math.sqrt(math.log1p(cv * cv))
    wanted = ndtr((math.log(at_zero) + sigma**2 / 2) / math.hypot(sigma, slope))
    (found,), together = kept_shares([margin], cv)
    assert found == pytest.approx(wanted, abs=0.003)
    assert together == found


def test_the_demand_has_mean_one_and_its_variation():
    m = demand_multiples(lattice()[1], 0.25)
    assert m.mean() == pytest.approx(1, abs=0.002)
    assert m.std() == pytest.approx(0.25, rel=0.02)


def test_all_promises_are_kept_no_more_often_than_one():
    zs = (-SPREAD, 0.0, SPREAD)
    one, other = Margin("a", zs, (1.3, 1.1, 0.9)), Margin("b", zs, (1.1, 1.1, 1.1))
    each, together = kept_shares([one, other], 0.1)
    assert together <= min(each)


def test_nothing_is_borne_from_where_no_demand_keeps_the_promise():
    margin = Margin("w", (-1.5, 0.0, 1.5), (1.4, 1.1, 0.0))
    assert margin.at(np.array([0.0]))[0] == pytest.approx(1.1)
    assert margin.at(np.array([0.01, 3.0])).tolist() == [0.0, 0.0]
    never = Margin("w", (-1.5, 0.0, 1.5), (0.0, 0.0, 0.0))
    assert never.at(np.array([-3.0]))[0] == 0.0


@pytest.mark.parametrize("last", [0, LEAST, 57, 100, 101, 250, MOST])
@pytest.mark.parametrize("near", [1, 60, 100, 400])
def test_the_last_per_cent_that_keeps_is_found(last, near):
    tried = []

    def keeps(percent):
        tried.append(percent)
        return percent <= last

    assert last_kept(keeps, near) == last
    assert all(LEAST <= p <= MOST for p in tried)
    assert len(tried) == len(set(tried)) or len(tried) < 20
