"""Quantities and shares: what is read, what is written, what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.units import BANDWIDTH, MEMORY, POWER, PRICE, RATE, TIME, read_share, shown

DIMENSIONS = (TIME, RATE, MEMORY, BANDWIDTH, POWER, PRICE)


@pytest.mark.parametrize(
    ("dimension", "text", "value"),
    [
        (TIME, "500 ms", 0.5),
        (TIME, "500ms", 0.5),
        (TIME, " 2 min ", 120.0),
        (TIME, "1e3 us", 1e-3),
        (RATE, "90 req/min", 1.5),
        (MEMORY, "80 GiB", 80 * 2**30),
        (MEMORY, "1,000 MB", 1e9),
        (BANDWIDTH, "400 Gb/s", 50e9),
        (POWER, "1.5 kW", 1500.0),
        (PRICE, "1 USD/s", 3600.0),
        (PRICE, "24 USD/d", 1.0),
    ],
)
def test_units_are_converted_to_the_base(dimension, text, value):
    assert dimension.read(text) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda d: d.name)
@given(value=st.floats(0, 1e300))
def test_what_is_written_reads_back_as_the_same_float(dimension, value):
    assert dimension.read(dimension.format(value)) == value


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda d: d.name)
def test_every_dimension_has_its_base_unit(dimension):
    assert dimension.factors[dimension.base] == 1.0


@pytest.mark.parametrize("text", ["5", "s", "", "5 S", "five s", "1.2.3 s", "--5 s", "1e400 s"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError, match=r"time"):
        TIME.read(text)


@pytest.mark.parametrize(
    ("value", "share"),
    [(0.95, 0.95), ("0.95", 0.95), ("95 %", 0.95), ("99.9%", 0.999), ("1e1 %", 0.1), (1, 1.0)],
)
def test_shares_are_read_bare_or_in_per_cent(value, share):
    assert read_share(value) == share


@given(st.decimals(0, 100, places=4))
def test_per_cent_are_the_nearest_float_to_the_decimal(percent):
    assert read_share(f"{percent} %") == float(percent / 100)


@given(st.floats(0, 1))
def test_a_share_written_as_a_float_reads_back_the_same(value):
    assert read_share(value) == value
    assert read_share(repr(value)) == value


@pytest.mark.parametrize("value", [95, 1.5, "95", True, None, [0.5], "95 percent", "high"])
def test_what_is_no_share_is_refused(value):
    with pytest.raises(ValueError, match=r"share|write"):
        read_share(value)


def test_long_and_huge_values_are_shortened_in_messages():
    assert len(shown("x" * 1000)) == 60
    assert shown(10**5000) == "a number beyond all measure"
    assert (shown(None), shown(True), shown({}), shown([])) == (
        "nothing",
        "true",
        "keys and values",
        "a list",
    )
