"""Two fleets by what a compliant request costs; every number here is worked out by hand."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.explanation.compare import Row, compare_rows, read_row
from planner.spec import dump_json
from tests.plans import infeasible, plan


def row(name: str, rate_rps: float, attainment: float, usd_per_second: float) -> Row:
    return Row(
        name=name,
        rate_rps=rate_rps,
        attainment=attainment,
        cost_usd_per_hour=3600 * usd_per_second,
    )


def test_the_founding_example():
    """1000 at 98 % is 980 compliant, 1.0204 USD a thousand; 1200 at 70 % is 840, 1.1905."""
    result = compare_rows(row("one", 1000, 0.98, 1), row("two", 1200, 0.70, 1))
    assert result.winner == "one"
    assert result.one.goodput_rps == pytest.approx(980, rel=1e-12)
    assert result.two.goodput_rps == pytest.approx(840, rel=1e-12)
    assert result.one.usd_per_thousand_compliant == pytest.approx(1000 / 980, rel=1e-12)
    assert result.two.usd_per_thousand_compliant == pytest.approx(1000 / 840, rel=1e-12)
    assert result.loser_premium == pytest.approx(1 / 6, rel=1e-12)
    assert result.attainment_ratio == pytest.approx(70 / 98, rel=1e-12)
    assert result.break_even_ratio == pytest.approx(5 / 6, rel=1e-12)
    assert result.raw_throughput_ratio == pytest.approx(1.2, rel=1e-12)
    assert result.because == (
        "a compliant request of two is 17 % dearer, although its raw throughput is 20 % higher"
    )


def test_the_founding_example_at_a_lower_price_of_two():
    """At 0.80 USD/s the break-even is (1000/1200)(0.8/1) = 2/3 < 0.714: two wins."""
    result = compare_rows(row("one", 1000, 0.98, 1), row("two", 1200, 0.70, 0.8))
    assert result.winner == "two"
    assert result.break_even_ratio == pytest.approx(2 / 3, rel=1e-12)
    assert result.loser_premium == pytest.approx((1 / 0.98) / (0.8 / 0.84) - 1, rel=1e-12)


def test_what_would_flip_the_founding_example():
    """Two needs 980 compliant: 980/1200 of its rate, 1400 req/s at 70 %, or 840/980 of the cost."""
    result = compare_rows(row("one", 1000, 0.98, 1), row("two", 1200, 0.70, 1))
    needed = {flip.quantity: flip.needed for flip in result.flips}
    assert needed == {
        "attainment": pytest.approx(980 / 1200),
        "rate_rps": pytest.approx(1400),
        "cost_usd_per_hour": pytest.approx(3600 * 840 / 980),
    }


def test_an_attainment_above_all_does_not_flip():
    """One would need 1050 compliant of 1000."""
    result = compare_rows(row("one", 1000, 0.98, 1), row("two", 1200, 0.70, 0.8))
    flip = next(flip for flip in result.flips if flip.quantity == "attainment")
    assert flip.needed is None
    assert "105 %" in flip.sentence


rows = st.builds(
    row,
    st.just("x"),
    st.floats(1e-3, 1e6),
    st.floats(1e-3, 1),
    st.floats(1e-6, 1e3),
)


@given(rows, rows)
def test_the_rule_and_the_costs_agree(one, two):
    """Two loses exactly while s2/s1 is below the break-even ratio."""
    result = compare_rows(one, two)
    assert result.attainment_ratio is not None
    assert result.break_even_ratio is not None
    ratio, level = result.attainment_ratio, result.break_even_ratio
    expected = "neither"
    if abs(ratio - level) > 1e-8 * level:
        expected = "one" if ratio < level else "two"
    assert result.winner == expected or abs(ratio - level) <= 1e-8 * level


@given(rows, rows)
def test_changing_sides_changes_the_names_only(one, two):
    ahead, back = compare_rows(one, two), compare_rows(two, one)
    swapped = {"one": "two", "two": "one", "neither": "neither"}
    assert back.winner == swapped[ahead.winner]
    assert back.loser_premium == ahead.loser_premium


@given(rows, rows)
def test_every_flip_draws_level(one, two):
    result = compare_rows(one, two)
    loser, name = (two, "two") if result.winner == "one" else (one, "one")
    for flip in result.flips:
        if flip.needed is None or flip.needed == 0:
            continue
        mended = loser.model_copy(update={flip.quantity: flip.needed})
        pair = (one, mended) if name == "two" else (mended, two)
        level = compare_rows(*pair)
        assert level.one.usd_per_thousand_compliant == pytest.approx(
            level.two.usd_per_thousand_compliant, rel=1e-9
        )


EDGES = (0.0, 1e-300, 1.0, 1e300)


@pytest.mark.parametrize("rate_rps", EDGES)
@pytest.mark.parametrize("attainment", [0.0, 1e-300, 1.0])
@pytest.mark.parametrize("cost", EDGES)
def test_the_edges_give_a_document_without_nan(rate_rps, attainment, cost):
    edge = Row(name="edge", rate_rps=rate_rps, attainment=attainment, cost_usd_per_hour=cost)
    plain = row("plain", 10, 0.9, 1)
    for pair in itertools.permutations((edge, plain)):
        dump_json(compare_rows(*pair))  # refuses NaN and infinity
    dump_json(compare_rows(edge, edge))


def test_no_compliant_request_loses_at_any_price():
    result = compare_rows(row("a", 10, 0.5, 1), row("b", 10, 0, 0.001))
    assert result.winner == "one"
    assert result.two.usd_per_thousand_compliant is None
    assert result.loser_premium is None
    assert result.because == "b serves no compliant request at any price"


def test_a_free_fleet_wins_and_has_no_bound_per_dollar():
    result = compare_rows(row("a", 10, 0.5, 1), row("b", 10, 0.1, 0))
    assert result.winner == "two"
    assert result.two.usd_per_thousand_compliant == 0
    assert result.two.compliant_requests_per_usd is None
    assert result.because == "compliant requests of b cost nothing"


def test_neither_wins_without_a_compliant_request():
    result = compare_rows(row("a", 0, 0.5, 1), row("b", 10, 0, 1))
    assert (result.winner, result.because) == (
        "neither",
        "neither fleet serves a compliant request",
    )


def test_mfu_decides_nothing():
    one = row("one", 1000, 0.98, 1)
    busy = row("two", 1200, 0.70, 1).model_copy(update={"mfu": 0.9})
    assert compare_rows(one, busy).winner == "one"


def test_a_row_in_words():
    """120 req/min are 2 req/s; 0.5 USD/s are 1800 USD/h; 0.1 per cent stays exact."""
    read = read_row("name=big box, rate=120 req/min,attainment=99.9 %,cost=0.5 USD/s,mfu=0.4", "x")
    assert read == Row(
        name="big box", rate_rps=2.0, attainment=0.999, cost_usd_per_hour=1800.0, mfu=0.4
    )


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("rate=1,attainment=0.5", "one: cost is missing; write rate=…,attainment=…,cost=…"),
        ("rate=1,attainment=0.5,cost=1", "one: cost: expected a price with its unit"),
        ("rate=1,attainment=98,cost=1 USD/s", "one: attainment: 98 is more than all; write 0.98"),
        ("rate=1,attainment=120 %,cost=1 USD/s", "one: attainment is 1.2; it must be between"),
        ("rate=-1,attainment=0.5,cost=1 USD/s", "one: rate is -1; it must be 0 or more"),
        ("rate=nan,attainment=0.5,cost=1 USD/s", "one: rate: 'nan' is not finite"),
        ("rate=1 m/s,attainment=0.5,cost=1 USD/s", "one: rate: 'm/s' is no unit of rate"),
        ("rate=1,attainment=0.5,cost=-1 USD/s", "one: cost is -3600; it must be 0 or more"),
        ("rate=1,rate=2,attainment=0.5,cost=1 USD/s", "one: rate is given twice; keep one"),
        ("rate=1,attainmnt=0.5,cost=1 USD/s", "one: 'attainmnt': unknown key; did you mean"),
        ("rate=1,attainment,cost=1 USD/s", "one: 'attainment': write it as key=value"),
        ("rate=1,attainment=0.5,cost=1 USD/s,mfu=7 %%", "one: mfu: expected a share"),
    ],
)
def test_a_row_that_cannot_be_used(text, mistake):
    with pytest.raises(InputError) as error:
        compare_rows(read_row(text, "one"), row("two", 1, 1, 1))
    assert str(error.value).startswith(mistake)


def test_a_plan_is_a_row(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(dump_json(plan()))
    assert read_row(str(path), "one") == Row(
        name="plan.json", rate_rps=20.0, attainment=0.97, cost_usd_per_hour=12.0, mfu=0.31
    )


def test_a_plan_without_a_fleet_cannot_be_compared(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(dump_json(infeasible()))
    with pytest.raises(InputError, match="the plan is infeasible and holds no fleet to compare"):
        read_row(str(path), "one")
