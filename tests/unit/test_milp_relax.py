"""Limits in the way, and their prices, on an instance small enough for paper."""

import dataclasses

import pytest

from planner.errors import InfeasibleError
from planner.milp import (
    Instance,
    NoFleetError,
    Price,
    choose,
    highs,
    relaxation_prices,
    resolve_prices,
    shortfalls,
    single_shortfalls,
)

BOTH = ("0", "over")


def four_units(**changes: object) -> Instance:
    """10 req/s; a unit (2 accelerators, 3 USD/h) takes 2 and all comply, or 4 and 1 complies.

    The stock of 8 holds 4 units. They offer 10 as 3 x 2 + 1 x 4, and 7 comply: 70 %.
    """
    data = {
        "W": ("chat",),
        "J": ("t",),
        "G": ("g",),
        "O": {"t": BOTH},
        "demand_rps": {"chat": 10.0},
        "promise": {"chat": 0.9},
        "load_rps": {("t", "0", "chat"): 2.0, ("t", "over", "chat"): 4.0},
        "goodput_rps": {("t", "0", "chat"): 2.0, ("t", "over", "chat"): 1.0},
        "devices": {"t": 2},
        "accelerator_of": {"t": "g"},
        "usd_per_hour": {"t": 3.0},
        "stock": {"g": 8},
    }
    return Instance(**(data | changes))  # type: ignore[arg-type]


def named(found: tuple[object, ...]) -> list[tuple[str, float]]:
    return [(s.number, round(s.needs, 4)) for s in found]  # type: ignore[attr-defined]


def test_the_least_relative_change_is_named() -> None:
    """0.9 to 0.7 is 22 %; 8 to 10 accelerators is 25 %; from 0.99 it would be 29 %."""
    with pytest.raises(NoFleetError) as caught:
        choose(four_units(), "min_cost")
    assert named(caught.value.together) == [("C3", 0.7)]
    assert named(caught.value.alone) == [("C3", 0.7), ("C6", 10.0)]
    assert "accelerators_are_held(g): limit 8 accelerators, needs 10" in str(caught.value)
    assert named(shortfalls(four_units(promise={"chat": 0.99}))) == [("C6", 10.0)]


def test_a_change_says_whether_it_is_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the answer, one that the time limit cut short is proven to be nothing."""
    proven = shortfalls(four_units())
    assert [s.least for s in proven] == [True]
    solve = highs.run

    def cut_short(*words: object) -> highs.Answer:
        return dataclasses.replace(solve(*words), status="limit")  # type: ignore[arg-type]

    monkeypatch.setattr(highs, "run", cut_short)
    (one,) = shortfalls(four_units())
    assert dataclasses.replace(one, least=True) == proven[0]
    assert not one.least
    assert str(one).endswith("or a smaller change: the time ended before that was known")


def test_promises_can_be_kept_out_of_it() -> None:
    """Without them the stock must give way; and where the budget may not, nothing helps."""
    assert named(shortfalls(four_units(), among=("C6", "C8"))) == [("C6", 10.0)]
    with pytest.raises(InfeasibleError, match="loosening C6 is not enough"):
        shortfalls(four_units(budget_usd_per_hour=12.0), among=("C6",))


def test_two_limits_that_must_give_way_together_do_not_help_alone() -> None:
    """With 12 USD/h for 4 units, neither more stock nor more money alone buys the fifth."""
    data = four_units(budget_usd_per_hour=12.0)
    assert named(single_shortfalls(data)) == [("C3", 0.7)]
    firm = dataclasses.replace(
        data, load_rps={("t", "0", "chat"): 2.0}, goodput_rps={("t", "0", "chat"): 2.0}
    )
    assert named(shortfalls(firm)) == [("C6", 10.0), ("C8", 15.0)]
    assert single_shortfalls(firm) == ()


def test_a_unit_limit_and_a_floor_give_way_too() -> None:
    firm = {"load_rps": {("t", "0", "chat"): 2.0}, "goodput_rps": {("t", "0", "chat"): 2.0}}
    assert named(shortfalls(four_units(stock={}, max_units={"t": 4}, **firm))) == [("C7", 5.0)]
    floor = four_units(stock={"g": 10}, goodput_floor_rps=12.0)
    assert named(shortfalls(floor)) == [("C9", 10.0)]
    shed = four_units(shed_limit={"chat": 0.1}, promise={"chat": 0.5}, **firm)
    assert named(single_shortfalls(shed)) == [("C6", 10.0), ("C5", 0.2)]


def test_a_zero_limit_gives_way_in_units_of_its_own() -> None:
    none = four_units(stock={"g": 0})
    assert ("C6", 10.0) in named(single_shortfalls(none))
    broke = four_units(stock={}, budget_usd_per_hour=0.0)
    assert ("C8", 15.0) in named(single_shortfalls(broke))


def test_a_workload_that_nothing_serves_is_said_to_be_so() -> None:
    data = four_units(
        W=("chat", "code"),
        demand_rps={"chat": 4.0, "code": 5.0},
        promise={"chat": 0.9, "code": 0.9},
    )
    with pytest.raises(NoFleetError, match="no mix of operating points carries more than 0"):
        choose(data, "max_goodput")
    assert ("C2", ("code",), 0.0) in [(s.number, s.index, s.needs) for s in shortfalls(data)]


def price(prices: tuple[Price, ...], number: str, *index: str) -> Price:
    (found,) = [p for p in prices if (p.number, p.index) == (number, index)]
    return found


def cheap_and_dear(**changes: object) -> Instance:
    """5 req/s of one workload; a unit carries 1. Two cheap ones at 1 USD/h, the rest at 4."""
    rates = {("cheap", "0", "chat"): 1.0, ("dear", "0", "chat"): 1.0}
    data = {
        "J": ("cheap", "dear"),
        "G": ("a", "h"),
        "O": {"cheap": ("0",), "dear": ("0",)},
        "demand_rps": {"chat": 5.0},
        "promise": {"chat": 0.5},
        "load_rps": rates,
        "goodput_rps": rates,
        "devices": {"cheap": 1, "dear": 1},
        "accelerator_of": {"cheap": "a", "dear": "h"},
        "usd_per_hour": {"cheap": 1.0, "dear": 4.0},
        "stock": {"a": 2, "h": 10},
    }
    return four_units(**(data | changes))


def test_one_more_cheap_accelerator_saves_the_difference() -> None:
    """2 x 1 + 3 x 4 = 14 USD/h; a third cheap one replaces a dear one: 3 USD/h. One more req/s
    of demand costs a dear unit, 4 USD/h; h is not scarce, and the promise does not bind."""
    data = cheap_and_dear()
    choice = choose(data, "min_cost", gap=0)
    assert choice.cost_usd_per_hour == pytest.approx(14.0)
    for prices in (relaxation_prices(data, choice), resolve_prices(data, choice)):
        assert price(prices, "C6", "a").usd_per_hour == pytest.approx(3.0)
        assert price(prices, "C6", "h").usd_per_hour == pytest.approx(0.0)
    prices = relaxation_prices(data, choice)
    assert price(prices, "C2", "chat").usd_per_hour == pytest.approx(-4.0)
    assert price(prices, "C3", "chat").usd_per_hour == pytest.approx(0.0)
    assert price(prices, "C2", "chat").method == "relaxation"
    assert price(resolve_prices(data, choice), "C6", "a").method == "re-solve"


def test_a_price_between_rough_fleets_tells_how_rough() -> None:
    """At a gap of 30 % the answers may be off by 4 USD/h or so; the truth, 3, lies within."""
    data = cheap_and_dear()
    rough = choose(data, "min_cost", gap=0.3)
    found = price(resolve_prices(data, rough, gap=0.3), "C6", "a")
    assert abs(found.objective_per_unit + 3.0) <= found.unsure_per_unit + 1e-6
    exact = price(resolve_prices(data, rough), "C6", "a")
    assert exact.objective_per_unit == pytest.approx(-3.0)
    assert exact.unsure_per_unit == pytest.approx(0.0, abs=1e-4)


def test_a_budget_has_a_price_in_goodput() -> None:
    """With 10 USD/h and everything allowed to go: 2 cheap, 2 dear, 4 req/s. A dollar more buys
    1/4 req/s; a cheap accelerator more is worth 3/4 req/s, at that rate 3 USD/h."""
    loose = {"shed_limit": {"chat": 1.0}, "promise": {"chat": 0.0}}
    data = cheap_and_dear(budget_usd_per_hour=10.0, **loose)
    choice = choose(data, "max_goodput", gap=0)
    assert choice.objective == pytest.approx(4.0)
    prices = relaxation_prices(data, choice)
    assert price(prices, "C8").objective_per_unit == pytest.approx(0.25)
    assert price(prices, "C8").usd_per_hour == pytest.approx(1.0)
    assert price(prices, "C6", "a").objective_per_unit == pytest.approx(0.75)
    assert price(prices, "C6", "a").usd_per_hour == pytest.approx(3.0)
    again = resolve_prices(data, choice)
    assert price(again, "C8").objective_per_unit == pytest.approx(0.25)
    assert price(again, "C8").usd_per_hour is None


def test_the_best_ratio_prices_in_money_too() -> None:
    """All 5 must be offered, so 14 USD/h: theta = 5/14. One more cheap accelerator saves 3 USD/h
    whatever the ratio is."""
    data = cheap_and_dear()
    choice = choose(data, "max_goodput_per_usd", gap=0)
    assert choice.objective == pytest.approx(5 / 14)
    found = price(relaxation_prices(data, choice), "C6", "a")
    assert found.usd_per_hour == pytest.approx(3.0)
    unlimited = cheap_and_dear(max_units={"cheap": 2}, stock={})
    best = choose(unlimited, "min_cost", gap=0)
    assert price(resolve_prices(unlimited, best), "C7", "cheap").usd_per_hour == pytest.approx(3.0)
