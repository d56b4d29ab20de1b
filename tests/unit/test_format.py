"""Numbers in the units that people read."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.reporting.format import (
    NONE,
    amount,
    change,
    count,
    rate,
    seconds,
    share,
    share_interval,
    significant,
    usd,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.48, "480 ms"),
        (0.0125, "12.5 ms"),
        (0.00042, "420 µs"),
        (1.2, "1.20 s"),
        (0.9999, "1.00 s"),
        (90, "90.0 s"),
        (600, "10.0 min"),
        (36_000, "10.0 h"),
        (0, "0 µs"),
        (None, NONE),
    ],
)
def test_seconds(value, text):
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.031, "$0.0310"),
        (0.1718, "$0.172"),
        (11.96, "$11.96"),
        (3, "$3.00"),
        (1250.4, "$1,250"),
        (0, "$0"),
        (-2.5, "-$2.50"),
        (0.9999, "$1.00"),
        (math.inf, "$∞"),
        (None, NONE),
    ],
)
def test_usd(value, text):
    assert usd(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.953, "95.3 %"),
        (1, "100.0 %"),
        (0.99996, "99.996 %"),
        (0.0002, "0.02 %"),
        (0, "0.0 %"),
        (None, NONE),
    ],
)
def test_a_share_never_hides_a_miss(value, text):
    assert share(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234, "1,234"),
        (1234567, "1,234,567"),
        (0.0312, "0.0312"),
        (9.999, "10.0"),
        (99.96, "100"),
        (1e-7, "1.00e-07"),
        (2.5e12, "2.50e+12"),
        (math.inf, "∞"),
        (math.nan, NONE),
    ],
)
def test_significant(value, text):
    assert significant(value) == text


@given(st.floats(1e-4, 1e8))
def test_three_digits_are_within_half_a_per_cent(value):
    assert float(significant(value).replace(",", "")) == pytest.approx(value, rel=0.0051)


def test_rate_and_count():
    assert rate(1.2) == "1.20 req/s"
    assert rate(None) == NONE
    assert count(1, "pool") == "1 pool"
    assert count(1200, "reply", "replies") == "1,200 replies"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (4.0, "4"),
        (12_000.0, "12,000"),
        (2.5, "2.50"),
        (1_440_000_000.3, "1,440,000,000"),
        (math.inf, "∞"),
    ],
)
def test_whole_amounts_are_written_whole(value, text):
    assert amount(value) == text


def test_an_interval_is_written_to_the_digits_that_keep_its_ends_apart_from_all():
    assert share_interval(0.97, 0.965, 0.975) == "97.0 % (96.5–97.5)"
    assert share_interval(0.9998, 0.9997, 0.9999) == "99.98 % (99.97–99.99)"
    assert share_interval(1, 1, 1) == "100.0 % (100.0–100.0)"


@pytest.mark.parametrize(
    ("difference", "text"),
    [
        (0.0, "0 %"),
        (-0.0, "0 %"),
        (0.12, "+12 %"),
        (-0.33, "-33 %"),
        (-0.0002, "-0.02 %"),
        (0.003, "+0.3 %"),
        (-0.0049, "-0.5 %"),
    ],
)
def test_a_change_is_never_less_than_its_digits_tell(difference, text):
    assert change(difference) == text


@given(st.floats(-10, 10).filter(lambda x: abs(x) > 1e-12))
def test_a_change_keeps_its_sign_and_is_never_told_as_nothing(difference):
    told = float(change(difference).removesuffix(" %").replace(",", ""))
    assert told != 0
    assert (told > 0) == (difference > 0)
    assert abs(told - 100 * difference) <= 0.5 + 1e-9
