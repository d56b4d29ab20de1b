"""Terms over periods against every fleet of every period."""

import dataclasses

import pytest

from planner.errors import InfeasibleError, InputError
from planner.milp import Term, Terms, choose
from tests.brute_terms import brute_over_time, day
from tests.instances import indexed, on_terms, two_by_two


@pytest.mark.parametrize("batch", range(15))
def test_the_choice_equals_brute_force(batch: int) -> None:
    for seed in range(20 * batch, 20 * (batch + 1)):
        data = day(seed)
        best = brute_over_time(data)
        for objective in ("min_cost", "max_goodput", "max_goodput_per_usd"):
            truth = getattr(best, objective)
            if truth is None:
                with pytest.raises(InfeasibleError):
                    choose(data, objective, gap=0)
                continue
            if objective == "max_goodput_per_usd" and not best.min_cost:
                continue  # owned accelerators that cost nothing: a ratio without bound
            found = choose(data, objective, gap=0)
            assert found.objective == pytest.approx(truth, rel=1e-6, abs=1e-9), (seed, objective)
            assert found.status == "optimal", (seed, objective)
            assert sum(found.bill.values()) == pytest.approx(found.cost_usd_per_hour)


def test_a_day_on_terms_by_hand() -> None:
    """By day two big units (8 h100) for 16 h, by night one (4) for 8 h.

    Four are owned (2 USD/h). Of four more, each costs 1.5 USD/h by the year, around the clock;
    2.5 x 16.5/24 = 1.72 on demand, half an hour of starting among it; 16.5/24 = 0.69 as spot, of
    which there may be a quarter of 8. So two by the year and two spot.
    """
    data = dataclasses.replace(two_by_two(stock={"a10": 0}), terms=on_terms(ramp={}))
    data = dataclasses.replace(indexed(data), D=("",), homes={}, stock_in={})
    found = choose(data, "min_cost", gap=0)
    assert found.cost_usd_per_hour == pytest.approx(2 + 2 * 1.5 + 2 * 16.5 / 24)
    assert found.bill["starting"] == pytest.approx(2 * 0.5 / 24)
    assert found.held == {("h100", "owned", ""): 4, ("h100", "year", ""): 2}
    no_spot = dataclasses.replace(data, terms=on_terms(ramp={}, spot_share={"h100": 0.0}))
    year = choose(no_spot, "min_cost", gap=0)
    assert year.cost_usd_per_hour == pytest.approx(2 + 6)
    assert year.held["h100", "year", ""] == 4
    slow = dataclasses.replace(data, terms=on_terms(ramp={"h100": 3}))
    assert choose(slow, "min_cost", gap=0).units_in["big", "", "night"] == 2


def test_a_unit_of_two_accelerators_holds_both_on_their_terms() -> None:
    """A pair holds 4 h100 and 2 a10 and serves 8 chat: two of them by day, one by night.

    An h100 costs 1 USD/h by the year and 2.4 by the hour, where one is started for half an hour:
    by the year all eight are cheaper (16.5 / 24 of 2.4 is 1.65). An a10 costs 1.5 by the year and
    1.2 by the hour without a start: by the hour all are (16 / 24 of 1.2 is 0.8).
    """
    base = two_by_two(
        beside={("big", "a10"): 2},
        demand_rps={"chat": 15.0, "batch": 1.0},
        promise={"chat": 0.95, "batch": 0.0},
        shed_limit={"batch": 1.0},
        max_units={"small": 0},
    )
    terms = Terms(
        {
            ("h100", "year"): Term("reserved", 1.0),
            ("h100", "hour"): Term("on-demand", 2.4),
            ("a10", "year"): Term("reserved", 1.5),
            ("a10", "hour"): Term("on-demand", 1.2),
        },
        start_hours={"h100": 0.5},
    )
    data = dataclasses.replace(
        base,
        T=("day", "night"),
        hours={"day": 16.0, "night": 8.0},
        demand_in={("chat", "night"): 7.0, ("batch", "day"): 0.0, ("batch", "night"): 0.0},
        terms=terms,
    )
    found = choose(data, "min_cost", gap=0)
    assert found.units_in == {("big", "", "day"): 2, ("big", "", "night"): 1}
    assert found.held == {("h100", "year", ""): 8}
    assert found.hired == {("a10", "hour", "", "day"): 4, ("a10", "hour", "", "night"): 2}
    assert found.cost_usd_per_hour == pytest.approx(8 * 1.0 + 1.2 * (4 * 16 + 2 * 8) / 24)
    # Where only h100 by the hour can be had, the second pair's four are paid while they start.
    hired = dataclasses.replace(
        terms, of={i: t for i, t in terms.of.items() if i != ("h100", "year")}
    )
    found = choose(dataclasses.replace(data, terms=hired), "min_cost", gap=0)
    assert found.bill["starting"] == pytest.approx(4 * 0.5 * 2.4 / 24)
    # A pair has two a10, so that with a ramp of one none can go by night.
    slow = dataclasses.replace(data, terms=dataclasses.replace(terms, ramp={"a10": 1}))
    assert choose(slow, "min_cost", gap=0).units_in["big", "", "night"] == 2


def test_terms_for_one_accelerator_of_a_unit_only_are_refused() -> None:
    terms = Terms({("h100", "hour"): Term("on-demand", 2.4)})
    with pytest.raises(InputError, match=r"beside\[big,a10\]: give terms to every accelerator"):
        two_by_two(beside={("big", "a10"): 2}, terms=terms)


def test_a_stock_that_is_too_small_is_named() -> None:
    few = {
        ("h100", "owned"): Term("owned", 0.0, 4),
        ("h100", "on-demand"): Term("on-demand", 2.5, 3),
    }
    terms = on_terms(of=few, ramp={}, spot_share={}, start_hours={})
    data = dataclasses.replace(two_by_two(), terms=terms)
    with pytest.raises(InfeasibleError, match=r"\(h100,on-demand\): limit 3 .*needs 4"):
        choose(data, "min_cost")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"of": {("b200", "year"): Term("reserved", 1.0)}}, "no such accelerator"),
        ({"of": {("h100", "own"): Term("owned", 1.0)}}, "say how many are owned"),
        ({"of": {("h100", "year"): Term("reserved", -1.0)}}, "the price must be finite"),
        ({"of": {("h100", "year"): Term("reserved", 1.0, -1)}}, "the stock must be a whole"),
        ({"of": {("h100", "od"): Term("on-demand", 1.0, least_hours=-1.0)}}, "least_hours"),
        ({"spot_share": {"a10": 0.5}}, "this accelerator has no terms"),
        ({"spot_share": {"h100": 1.5}}, r"spot_share\[h100\]"),
        ({"start_hours": {"h100": 9.0}}, "more than the shortest span of 8 h"),
        ({"cycle": ("day", "day")}, "must name every period"),
    ],
)
def test_a_mistake_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        dataclasses.replace(indexed(two_by_two()), terms=on_terms(**change))
