"""Prices of the relaxation: by hand, against the solver's own reduced costs, and as bounds."""

import dataclasses

import pytest

from planner.errors import InfeasibleError
from planner.milp import Instance, choose
from planner.milp.formulation import model_of
from planner.milp.objective import Objective
from planner.milp.pricing import improvement_on, relaxation_of
from tests.instances import two_by_two

OBJECTIVES: tuple[Objective, ...] = ("min_cost", "max_goodput", "max_goodput_per_usd")


def one_kind(**changes: object) -> Instance:
    """Demand 10 req/s at 90 %; a unit of `good` carries 4 (all compliant) for 2 USD/h."""
    data = {
        "W": ("chat",),
        "J": ("good",),
        "G": ("a10",),
        "O": {"good": ("0",)},
        "demand_rps": {"chat": 10.0},
        "promise": {"chat": 0.9},
        "load_rps": {("good", "0", "chat"): 4.0},
        "goodput_rps": {("good", "0", "chat"): 4.0},
        "devices": {"good": 1},
        "accelerator_of": {"good": "a10"},
        "usd_per_hour": {"good": 2.0},
    }
    return Instance(**(data | changes))  # type: ignore[arg-type]


def losses(data: Instance, objective: Objective) -> dict[str, float]:
    prices = relaxation_of(data, objective).prices
    found = {}
    for j in data.J:
        points = [
            (
                {w: data.load_rps.get((j, o, w), 0.0) for w in data.W},
                {w: data.goodput_rps.get((j, o, w), 0.0) for w in data.W},
            )
            for o in data.O[j]
        ]
        cost = prices.cost(data.usd_per_hour[j], data.devices[j], data.accelerator_of[j])
        found[j] = prices.loss(cost, points)
    return found


def test_prices_of_one_kind_by_hand() -> None:
    """2.5 units for 5 USD/h: a req/s is worth half a dollar, so a rival breaks even at that."""
    found = relaxation_of(one_kind(), "min_cost")
    assert found.value == pytest.approx(5.0)
    prices = found.prices
    assert prices.load["chat"] + prices.goodput["chat"] == pytest.approx(0.5)
    assert prices.loss(3.0, [({"chat": 6.0}, {"chat": 6.0})]) == pytest.approx(0.0)
    assert prices.loss(3.0, [({"chat": 8.0}, {"chat": 8.0})]) == pytest.approx(-1.0)
    # A unit that could carry 40 req/s finds 10: it is worth no more than all demand.
    assert prices.loss(3.0, [({"chat": 40.0}, {"chat": 40.0})]) == pytest.approx(-2.0)


def test_best_ratio_of_fractions_by_hand() -> None:
    found = relaxation_of(one_kind(), "max_goodput_per_usd")
    assert found.value == pytest.approx(10 / 5)


def test_a_stock_that_binds_has_a_price() -> None:
    """Two units of the cheap kind at most: the rest is carried at 1 USD/h a req/s by the dear."""
    data = one_kind(
        J=("good", "dear"),
        G=("a10", "h100"),
        O={"good": ("0",), "dear": ("0",)},
        load_rps={("good", "0", "chat"): 4.0, ("dear", "0", "chat"): 4.0},
        goodput_rps={("good", "0", "chat"): 4.0, ("dear", "0", "chat"): 4.0},
        devices={"good": 1, "dear": 1},
        accelerator_of={"good": "a10", "dear": "h100"},
        usd_per_hour={"good": 2.0, "dear": 4.0},
        stock={"a10": 2},
    )
    found = relaxation_of(data, "min_cost")
    assert found.value == pytest.approx(2 * 2 + 0.5 * 4)
    assert found.prices.device["a10"] == pytest.approx(2.0)
    assert found.prices.device["h100"] == 0
    assert found.used == {"good", "dear"}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_no_template_of_an_optimal_relaxation_gains_and_those_used_lose_nothing(
    objective: Objective,
) -> None:
    data = two_by_two(budget_usd_per_hour=60.0, stock={"h100": 20})
    found = losses(data, objective)
    used = relaxation_of(data, objective).used
    assert all(loss >= -1e-6 for loss in found.values())
    assert all(found[j] == pytest.approx(0.0, abs=1e-6) for j in used)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_relaxation_is_no_worse_than_whole_units(objective: Objective) -> None:
    data = two_by_two(budget_usd_per_hour=60.0)
    whole = choose(data, objective, gap=1e-6).objective
    relaxed = relaxation_of(data, objective).value
    better = relaxed <= whole if objective == "min_cost" else relaxed >= whole - 1e-9
    assert better


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_improvement_is_found_just_where_there_is_one(objective: Objective) -> None:
    data = two_by_two(budget_usd_per_hour=60.0)
    best = choose(data, objective, gap=1e-6).objective
    worse, better = (1.01, 0.99) if objective == "min_cost" else (0.99, 1.01)
    found = improvement_on(data, objective, worse * best, 10.0, near=0.001)
    assert found.used
    none = improvement_on(data, objective, better * best, 10.0, near=0.001)
    assert not none.used
    assert none.proven


def test_a_loss_bounds_what_a_unit_makes_a_fleet_cost() -> None:
    """A fleet that is made to hold a unit costs the relaxation's value and its loss at least."""
    data = two_by_two()
    value, found = relaxation_of(data, "min_cost").value, losses(data, "min_cost")
    for j in data.J:
        held = dataclasses.replace(data, min_units={j: 1})
        assert choose(held, "min_cost", gap=1e-6).objective >= value + found[j] - 1e-6


def test_fractions_that_cannot_keep_a_promise_are_told() -> None:
    data = one_kind(goodput_rps={("good", "0", "chat"): 3.0})
    assert model_of(data).program.rows
    with pytest.raises(InfeasibleError, match="fractions"):
        relaxation_of(data, "min_cost")
