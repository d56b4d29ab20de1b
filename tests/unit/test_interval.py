"""Intervals: Student's by hand, shares inside [0, 1], wider where a run tells little."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logit

from planner.simulation.interval import BOUT, attainment_interval, t_interval

shares = st.lists(st.floats(0, 1), min_size=2, max_size=12)


def test_student_interval_of_three_samples():
    """Mean 2, standard deviation 1; the 97.5 % quantile of t with 2 degrees is 4.30265."""
    found = t_interval([1.0, 2.0, 3.0])
    assert found.value == 2.0
    assert found.half_width == pytest.approx(4.30265 / math.sqrt(3), rel=1e-5)


def test_interval_of_a_share_is_symmetric_in_its_log_odds():
    found = attainment_interval([0.90, 0.92, 0.91, 0.93], 400_000)
    assert found.value == pytest.approx(0.915)
    assert logit(found.value) - logit(found.low) == pytest.approx(
        logit(found.high) - logit(found.value)
    )
    assert found.value - found.low > found.high - found.value


def test_narrow_spread_gives_the_students_interval():
    samples = [0.9001, 0.8999, 0.9002, 0.8998]
    found, plain = attainment_interval(samples, 10**7), t_interval(samples)
    assert found.low == pytest.approx(plain.low, abs=1e-6)
    assert found.high == pytest.approx(plain.high, abs=1e-6)


def test_no_miss_at_all_leaves_three_bouts_in_doubt():
    found = attainment_interval([1.0] * 8, 100_000)
    assert found.value == found.high == 1.0
    assert found.low == pytest.approx(1 - 3 * BOUT / 100_000)


def test_misses_of_one_replication_alone_are_not_trusted():
    """One of eight replications has all the misses, 800 of its 10,000: a bout is large.

    The spread of the counts over their mean is 800 requests a bout; three more would be 2,400 of
    80,000, that is 0.03, below the mean at least.
    """
    found = attainment_interval([1.0] * 7 + [0.92], 80_000)
    assert found.value == pytest.approx(0.99)
    assert found.low <= 0.96
    assert found.low < attainment_interval([0.99] * 7 + [0.989999], 80_000).low


@given(shares, st.integers(2, 10**7))
def test_interval_of_a_share_lies_in_zero_one_and_holds_its_value(samples, requests):
    found = attainment_interval(samples, requests)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high


@given(shares, st.integers(100, 10**6))
def test_more_requests_never_widen_the_interval(samples, requests):
    few, many = attainment_interval(samples, requests), attainment_interval(samples, 10 * requests)
    assert many.half_width <= few.half_width + 1e-12
