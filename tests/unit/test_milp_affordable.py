"""A unit that costs more than a whole fleet changes nothing, however much more it costs."""

import dataclasses
import math

import pytest

from planner.milp import choose
from planner.milp.affordable import without_dear
from planner.milp.formulation import model_of
from tests.instances import fleet_problem, two_by_two

PRICES = (1e3, 1e6, 1e9, 1e12, 1e100, 1e300)


def with_a_dear_twin(usd_per_hour: float):
    """Return two_by_two, and a template that serves as big does at another price."""
    data = two_by_two()
    twin = {("dear", o, w): x for (j, o, w), x in data.load_rps.items() if j == "big"}
    good = {("dear", o, w): x for (j, o, w), x in data.goodput_rps.items() if j == "big"}
    return dataclasses.replace(
        data,
        J=(*data.J, "dear"),
        O={**data.O, "dear": data.O["big"]},
        load_rps={**data.load_rps, **twin},
        goodput_rps={**data.goodput_rps, **good},
        devices={**data.devices, "dear": 4},
        accelerator_of={**data.accelerator_of, "dear": "h100"},
        usd_per_hour={**data.usd_per_hour, "dear": usd_per_hour},
    )


@pytest.mark.parametrize("usd_per_hour", PRICES)
def test_the_cheapest_fleet_and_the_best_ratio_are_those_without_it(usd_per_hour):
    """20 USD/h: two big units serve all of both, 15.8 req/s of it compliant: 0.79 a dollar."""
    data = with_a_dear_twin(usd_per_hour)
    cheapest = choose(data, "min_cost", gap=1e-4)
    assert (cheapest.objective, cheapest.status) == (pytest.approx(20.0), "optimal")
    best = choose(data, "max_goodput_per_usd", gap=1e-4)
    assert (best.objective, best.status) == (pytest.approx(0.79), "optimal")


@pytest.mark.parametrize("usd_per_hour", PRICES[:4])
def test_the_most_goodput_within_a_budget_is_that_without_it(usd_per_hour):
    budget = {"budget_usd_per_hour": 40.0}
    plain = choose(dataclasses.replace(two_by_two(), **budget), "max_goodput", gap=1e-4)
    beside = choose(
        dataclasses.replace(with_a_dear_twin(usd_per_hour), **budget), "max_goodput", gap=1e-4
    )
    assert beside.objective == pytest.approx(plain.objective, rel=1e-4)
    assert beside.cost_usd_per_hour == pytest.approx(plain.cost_usd_per_hour, rel=1e-4)


@pytest.mark.parametrize("factor", [1e3, 1e9, 1e12])
@pytest.mark.parametrize("objective", ["min_cost", "max_goodput_per_usd"])
def test_prices_of_what_nobody_buys_do_not_move_the_optimum(objective, factor):
    data = fleet_problem(demand=20.0, templates=40, workloads=5)
    plain = choose(data, objective, gap=1e-3)
    unused = [j for j in data.J if j not in plain.units][:7]
    dear = {j: data.usd_per_hour[j] * factor for j in unused}
    raised = dataclasses.replace(data, usd_per_hour={**data.usd_per_hour, **dear})
    other = choose(raised, objective, gap=1e-3)
    assert other.status == "optimal"
    assert other.objective == pytest.approx(plain.objective, rel=2.1e-3)


def test_where_no_unit_is_much_dearer_the_program_is_left_as_it_is():
    model = model_of(two_by_two())
    program = model.cost_program()
    assert without_dear(model, program, 20.0) is program
    assert without_dear(model, program, math.inf) is program
    narrower = without_dear(model, program, 0.05)
    assert [name for name, most in zip(program.columns, narrower.upper, strict=True) if most == 0][
        :2
    ] == ["n(big)", "n(small)"]


def test_a_gap_left_open_is_told_and_a_closed_one_is_not():
    choice = choose(two_by_two(), "min_cost", gap=1e-4)
    assert choice.unproven(1e-4) == ""
    wide = dataclasses.replace(choice, gap=0.05, status="feasible")
    assert wide.unproven(1e-4) == (
        "the solver proved no more than a gap of 0.05; 0.0001 was asked for"
    )
