"""A fleet's attainment weighs its pools by load, and a verdict follows from its interval."""

import numpy as np
import pytest

from planner.simulation.effort import Effort, RunSize
from planner.simulation.fleet import FleetPool, judge_fleet, sample_fleet, verdict_of
from planner.simulation.interval import Estimate, attainment_interval, t_interval
from tests.problems import affine_law, fixed, setup, study

FAST, SLOW = affine_law(10, 100, 1000), affine_law(100, 100, 1000)
"""A prompt of 100 tokens takes 20 ms on the fast one, 110 ms on the slow one."""


def effort(requests: int, limit: int) -> Effort:
    return Effort(1_000, RunSize(1_000, 2, 500), RunSize(requests, 3, 500), limit, 1_000, 2)


def test_pools_weigh_by_their_load():
    """Three quarters go to the pool that meets 50 ms, one quarter to one that never does."""
    s = study(fixed(100, 1), ttft_ms=(50,), tpot_ms=(50,), promise=(0.7,))
    pools = [FleetPool(setup(FAST, 64), (0.03,)), FleetPool(setup(SLOW, 64), (0.01,))]
    sample = sample_fleet(s, pools, RunSize(4_000, 3, 1_000), stream=2)
    assert sample.attainment().shape == (3, 1)
    assert sample.intervals()[0].value == pytest.approx(0.75, abs=0.005)
    assert s.meter.requests == 3 * (3_000 + 1_000)


def test_each_workload_has_its_own_attainment():
    """Both share a pool; prompts of 100 meet 50 ms and prompts of 900 (100 ms) do not."""
    s = study(fixed(100, 1), fixed(900, 1), ttft_ms=(50, 50), tpot_ms=(50, 50), promise=(0.7, 0.7))
    pools = [FleetPool(setup(FAST, 64), (0.01, 0.02))]
    judged = judge_fleet(s, pools, effort=effort(3_000, 3_000), stream=2)
    assert judged.intervals[0].value == pytest.approx(1.0, abs=0.01)
    assert judged.intervals[1].value == 0.0
    assert judged.verdicts == ("kept", "broken")
    assert judged.verdict == "broken"


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.95, 0.97, "kept"), (0.93, 0.949, "broken"), (0.94, 0.96, "undecided")],
)
def test_the_interval_decides(low, high, verdict):
    assert verdict_of(Estimate((low + high) / 2, low, high), 0.95) == verdict


def test_a_backlog_that_grows_breaks_the_promise_though_it_was_met_so_far():
    """One slot of 20 ms at 52 requests per second: two minutes of backlog meet a loose deadline."""
    s = study(fixed(100, 1), ttft_ms=(1e6,), tpot_ms=(1e6,), promise=(0.9,))
    pools = [FleetPool(setup(affine_law(10, 100, 100), 1), (52.0,))]
    judged = judge_fleet(s, pools, effort=effort(4_000, 8_000), stream=2)
    assert judged.intervals[0].value == 1.0
    assert judged.verdicts == ("broken",)


def test_the_run_doubles_while_undecided():
    s = study(fixed(100, 1), ttft_ms=(60,), tpot_ms=(50,), promise=(0.9,))
    pools = [FleetPool(setup(affine_law(10, 100, 100), 1), (36.0,))]
    first = sample_fleet(s, pools, RunSize(1_000, 3, 1_000), stream=2)
    promise = first.intervals()[0].value
    hard = study(fixed(100, 1), ttft_ms=(60,), tpot_ms=(50,), promise=(promise,))
    judge_fleet(hard, pools, effort=effort(1_000, 8_000), stream=2)
    assert hard.meter.requests > 3 * 1_000
    hurried = study(fixed(100, 1), ttft_ms=(60,), tpot_ms=(50,), promise=(promise,))
    found = judge_fleet(hurried, pools, effort=effort(1_000, 8_000), stream=2, over=lambda: True)
    assert hurried.meter.requests == 3 * 1_000
    assert found.verdict == "undecided"


def test_student_interval_of_three_numbers():
    """Mean 2, standard deviation 1, t(2; 0.975) = 4.3027: 2 +- 4.3027 / sqrt(3)."""
    found = t_interval([1.0, 2.0, 3.0])
    assert found.value == 2.0
    assert found.half_width == pytest.approx(4.30265 / np.sqrt(3), rel=1e-5)


def test_replications_that_all_agree_still_have_an_interval():
    """The rule of three for bouts of 100 misses: 3 * 100 / 300,000 could have been missed."""
    assert attainment_interval([1.0, 1.0, 1.0], 300_000).low == pytest.approx(0.999)
    assert attainment_interval([0.0, 0.0, 0.0], 300_000).high == pytest.approx(0.001)
    assert attainment_interval([1.0, 1.0, 1.0], 300_000).high == 1.0
