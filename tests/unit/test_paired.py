"""Common random numbers: the difference of two setups is known better than either."""

from __future__ import annotations

import pytest

from planner.kernels import COMPILED
from planner.simulation.paired import paired_difference
from tests.problems import affine_law, fixed, setup, spread, study
from tests.queues import md1_wait_cdf, one_slot

REPLICATIONS, REQUESTS = (8, 20_000) if COMPILED else (6, 6_000)


def test_paired_interval_is_much_narrower_than_that_of_independent_runs():
    """Two chunk budgets of one replica near its capacity: luck moves both alike."""
    law_a, law_b = affine_law(6, 25, 2048, 49_000), affine_law(6, 25.2, 2048, 49_000)
    problem = study(spread(400, 40, 0.8), ttft_ms=(100,), tpot_ms=(19.5,), promise=(0.9,))
    (found,) = paired_difference(
        problem,
        setup(law_a, 64),
        setup(law_b, 64),
        (50.0,),
        requests=REQUESTS,
        replications=REPLICATIONS,
        stream=0,
    )
    apart = (found.one.half_width**2 + found.other.half_width**2) ** 0.5
    assert found.difference.half_width < 0.25 * apart
    assert found.difference.value == pytest.approx(found.one.value - found.other.value)
    assert found.difference.low > 0  # the faster law is better, beyond doubt


def test_difference_of_two_md1_queues_holds_the_closed_form():
    """Services of 20.0 and 20.4 ms at 35 req/s, deadline 60 ms."""
    problem = study(fixed(10, 1), ttft_ms=(60.0,), tpot_ms=(1e9,), promise=(0.9,))

    def attained(service_ms):
        return md1_wait_cdf(35e-3 * service_ms, 60 / service_ms - 1)

    (found,) = paired_difference(
        problem,
        one_slot(20.0),
        one_slot(20.4),
        (35.0,),
        requests=REQUESTS,
        replications=REPLICATIONS,
        stream=0,
    )
    truth = attained(20.0) - attained(20.4)
    assert found.difference.low <= truth <= found.difference.high


def test_a_setup_does_not_differ_from_itself():
    problem = study(fixed(10, 1), ttft_ms=(60.0,), tpot_ms=(1e9,), promise=(0.9,))
    (found,) = paired_difference(
        problem, one_slot(20), one_slot(20), (35.0,), requests=5_000, replications=2, stream=0
    )
    assert found.difference.value == found.difference.half_width == 0.0
