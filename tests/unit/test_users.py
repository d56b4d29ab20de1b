"""Users who wait for their answers: Little's law, machine repairmen, and both asymptotes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from planner.problem.arrivals import PoissonArrivals, UserArrivals
from planner.problem.lengths import (
    CutLengths,
    GammaLength,
    IndependentLengths,
    LengthMarginal,
    MixedLength,
    MixedLengths,
    ParetoLength,
    UniformLength,
    ZipfLength,
    mean_output,
)
from planner.simulation.draw import Draws
from planner.simulation.effort import RunSize
from planner.simulation.fleet import FleetPool, sample_fleet
from planner.simulation.lengths import draw_lengths
from planner.simulation.pool import run_pool
from planner.simulation.users import serve_users
from tests.problems import affine_law, fixed, setup, study
from tests.queues import geometric, slots

STEP_MS, MEAN_STEPS = 1.0, 100
SERVICE_S = STEP_MS * MEAN_STEPS / 1e3


def users(count: int, think_s: float, cv: float = 1.0) -> UserArrivals:
    """Users whose load counts as if nobody ever waited."""
    each = 1 / (think_s + SERVICE_S)
    return UserArrivals(count * each, each, think_s, cv)


def waiting(*laws, lengths=None, ttft_ms=1e6):
    """A study of workloads with these arrivals; deadlines are met by all but the very late."""
    lengths = lengths or [geometric(MEAN_STEPS)] * len(laws)
    base = study(
        *lengths, ttft_ms=(ttft_ms,) * len(laws), tpot_ms=(1e5,) * len(laws),
        promise=(0.9,) * len(laws),
    )  # fmt: skip
    return replace(base, draws=Draws(tuple(lengths), 3, tuple(laws)))


def repairman(count: int, servers: int, think_s: float) -> float:
    """Throughput of M/M/c//N, requests per second: the finite-source queue in closed form."""
    r = SERVICE_S / think_s
    weight = [1.0]
    for k in range(1, count + 1):
        weight.append(weight[-1] * (count - k + 1) * r / min(k, servers))
    busy = sum(min(k, servers) * p for k, p in enumerate(weight)) / sum(weight)
    return busy / SERVICE_S


def rate_of(law: UserArrivals, pool, n: int = 60_000) -> tuple[float, float]:
    """Requests per second, counted over the middle of a run, and mean response in seconds."""
    s = waiting(law)
    draw = s.draws.get((law.rate_rps,), n, 0, 0)
    traffic, records = serve_users(pool, draw, law.rate_rps, stages=False)
    middle = slice(traffic.arrival_ps.size // 10, traffic.arrival_ps.size * 9 // 10)
    sent = traffic.arrival_ps[middle] * 1e-12
    response = (records.finish_ps[middle] - traffic.arrival_ps[middle]).mean() * 1e-12
    return (sent.size - 1) / (sent[-1] - sent[0]), response


@pytest.mark.parametrize(("count", "servers"), [(10, 1), (40, 4), (20, 8), (100, 8), (200, 8)])
def test_throughput_is_that_of_a_finite_source(count, servers):
    """Exponential thinking and service, c seats: M/M/c//N, below, at and above saturation."""
    law = users(count, 1.0)
    rate, _ = rate_of(law, slots(servers, STEP_MS))
    assert rate == pytest.approx(repairman(count, servers, 1.0), rel=0.015)


@pytest.mark.parametrize("cv", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("count", [20, 150])
def test_the_law_of_response_times_holds_for_any_thinking(count, cv):
    """N = X (R + Z), with X counted and R measured, whatever the distributions."""
    law = users(count, 1.0, cv)
    rate, response = rate_of(law, slots(8, STEP_MS))
    assert rate * (response + law.think_s) == pytest.approx(count, rel=0.02)


def test_pace_is_what_is_counted():
    """The rate that a plan states comes from Little's law; counting requests gives the same."""
    law = users(100, 1.0)
    pool = slots(8, STEP_MS)
    s = waiting(law)
    run = run_pool(pool, s.draws.get((law.rate_rps,), 60_000, 0, 0), law.rate_rps, s.deadlines)
    assert run.response_s is not None
    stated = law.rate_rps * law.pace(float(run.response_s[0]))
    assert stated == pytest.approx(rate_of(law, pool)[0], rel=0.015)
    assert stated == pytest.approx(repairman(100, 8, 1.0), rel=0.015)


def test_few_users_never_wait_and_many_saturate():
    """Both asymptotes of the response time: S for one user; N / C - Z beyond saturation."""
    pool = slots(4, STEP_MS)
    _, alone = rate_of(users(1, 1.0), pool, n=20_000)
    assert alone == pytest.approx(SERVICE_S, rel=0.02)
    rate, response = rate_of(users(400, 1.0), pool)
    assert rate == pytest.approx(4 / SERVICE_S, rel=0.01)
    assert response == pytest.approx(400 / (4 / SERVICE_S) - 1.0, rel=0.02)


def test_users_who_wait_do_not_pile_up_as_arrivals_do():
    """At 1.5 times what 8 seats carry an open queue grows without end, and a closed one stays."""
    law = users(132, 1.0)
    pool = slots(8, STEP_MS)
    closed, opened = waiting(law), waiting(PoissonArrivals(law.rate_rps))
    runs = [
        run_pool(pool, s.draws.get((1.0,), 60_000, 0, 0), law.rate_rps, s.deadlines)
        for s in (closed, opened)
    ]
    assert not runs[0].unstable
    assert runs[1].unstable


def test_very_patient_users_are_a_poisson_process():
    """With N and Z large at the same N/Z the finite source becomes M/M/c: the same attainment."""
    rate, pool = 64.0, slots(8, STEP_MS)
    count = 6_400
    law = UserArrivals(rate, rate / count, count / rate, 1.0)
    loads, size = (rate,), RunSize(60_000, 6, 1)
    found = []
    for arrivals in (law, PoissonArrivals(rate)):
        s = waiting(arrivals, ttft_ms=60)
        sample = sample_fleet(s, [FleetPool(pool, loads)], size, stream=1)
        found.append(sample.intervals()[0])
    assert abs(found[0].value - found[1].value) < found[0].half_width + found[1].half_width + 0.004


def test_a_pool_that_answers_faster_is_asked_more_often():
    """Half of the users each at 1 and at 8 seats; shares of the requests, not of the users, count.

    40 users at one seat: saturated, X = 1/S = 10 req/s. 40 at eight: X near 40 / (1 + S).
    """
    law = users(80, 1.0)
    s = waiting(law, ttft_ms=100)
    half = (law.rate_rps / 2,)
    pools = [FleetPool(slots(1, STEP_MS), half), FleetPool(slots(8, STEP_MS), half)]
    sample = sample_fleet(s, pools, RunSize(40_000, 3, 1), stream=1)
    slow, fast = repairman(40, 1, 1.0), repairman(40, 8, 1.0)
    shares = [np.mean([run.attainment[0] for run in pool]) for pool in sample.runs]
    assert shares[0] < 0.3 < 0.99 < shares[1]
    expected = (slow * shares[0] + fast * shares[1]) / (slow + fast)
    assert sample.intervals()[0].value == pytest.approx(expected, abs=0.005)
    assert law.rate_rps * sample.paces()[0] == pytest.approx(slow + fast, rel=0.02)


def test_others_are_served_beside_users_at_their_own_rate():
    """Seats for all: users at N / (Z + S), arrivals at their rate; neither hinders the other."""
    law = users(50, 1.0)
    s = waiting(law, PoissonArrivals(30.0))
    pool, loads = slots(8192, STEP_MS), (law.rate_rps, 30.0)
    draw = s.draws.get(loads, 80_000, 0, 0)
    traffic, _ = serve_users(pool, draw, sum(loads), stages=False)
    span = (traffic.arrival_ps[-1] - traffic.arrival_ps[0]) * 1e-12
    rates = np.bincount(traffic.workload) / span
    assert rates[0] == pytest.approx(50 / (1 + SERVICE_S), rel=0.02)
    assert rates[1] == pytest.approx(30.0, rel=0.02)


def test_a_share_of_the_load_is_a_share_of_the_users():
    law = users(100, 1.0)
    rate, response = rate_of(replace(law, rate_rps=law.rate_rps / 4), slots(8, STEP_MS))
    assert rate * (response + 1.0) == pytest.approx(25, rel=0.02)


def test_a_draw_of_users_has_no_arrivals_of_its_own():
    s = waiting(users(10, 1.0))
    draw = s.draws.get((1.0,), 100, 0, 0)
    assert draw.closed
    with pytest.raises(ValueError, match="users wait"):
        draw.at(1.0)


def test_same_seed_same_bytes_of_users():
    found = [
        serve_users(
            setup(affine_law(1, 10, 256), 8, replicas=2, router="least_outstanding"),
            waiting(users(30, 0.5), lengths=[fixed(100, 20)]).draws.get((1.0,), 2_000, 0, 0),
            40.0,
            stages=True,
        )
        for _ in range(2)
    ]
    assert found[0][0].arrival_ps.tobytes() == found[1][0].arrival_ps.tobytes()
    assert found[0][1].finish_ps.tobytes() == found[1][1].finish_ps.tobytes()


@pytest.mark.parametrize(
    "marginal",
    [
        LengthMarginal(300, 0.7),
        GammaLength(250, 1.5),
        ParetoLength(50, 1.4, 4_000),
        ZipfLength(10, 3_000, 1.2),
        UniformLength(20, 900),
        MixedLength((LengthMarginal(100, 0.0), UniformLength(300, 500)), (1.0, 3.0)),
    ],
)
def test_mean_outputs_are_those_of_draws(marginal):
    law = IndependentLengths(LengthMarginal(100, 0.0), marginal)
    _, output = draw_lengths(law, 200_000, np.random.default_rng(0))
    assert mean_output(law, 100_000) == pytest.approx(output.mean(), rel=0.02)
    mixed = CutLengths(MixedLengths((law, fixed(10, 50)), (1.0, 3.0)), 100_000)
    assert mean_output(mixed, 100_000) == pytest.approx((output.mean() + 150) / 4, rel=0.02)


def test_the_pace_of_a_law_is_littles():
    law = UserArrivals(5.0, 0.05, 15.0, 1.0)
    assert law.users == pytest.approx(100)
    for response in (0.0, 5.0, 60.0):
        rate = law.rate_rps * law.pace(response)
        assert rate * (response + 15.0) == pytest.approx(100)
    assert math.isclose(law.pace(5.0), 1.0)
