"""Ranges of prices, forced templates and reduced costs against every fleet there is."""

import dataclasses

import pytest

from planner.errors import InfeasibleError
from planner.milp import choose, price_range, reduced_costs, with_one
from planner.milp.clock import Deadline
from tests.brute import brute_force, cost_of, fleets, goodput_of
from tests.instances import two_by_two
from tests.property.test_milp import tiny

SEEDS = range(40)


def unbounded(seed):
    """A tiny instance without a budget, which would change what may be had with the price."""
    return dataclasses.replace(tiny(seed), budget_usd_per_hour=None)


def at_price(data, g, change):
    usd = {
        j: c + change * data.devices[j] * (data.accelerator_of[j] == g)
        for j, c in data.usd_per_hour.items()
    }
    return dataclasses.replace(data, usd_per_hour=usd)


def every_fleet(data):
    return [(n, g) for n in fleets(data) if sum(n) and (g := goodput_of(data, n)) is not None]


def score(data, n, goodput, objective):
    cost = cost_of(data, n)
    return -cost if objective == "min_cost" else goodput / cost


@pytest.mark.parametrize("objective", ["min_cost", "max_goodput_per_usd"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_plan_is_the_best_within_its_range_and_not_beyond(seed, objective):
    data = unbounded(seed)
    try:
        choice = choose(data, objective, gap=1e-7)
    except InfeasibleError:
        assert brute_force(data).min_cost is None
        return
    known = every_fleet(data)
    own = tuple(choice.units.get(j, 0) for j in data.J)
    if not sum(own):
        return
    own_goodput = goodput_of(data, own)
    for g in {data.accelerator_of[j] for j in data.J}:
        # Prices per device: each template of g then costs its devices more or less.
        now = min(c / data.devices[j] for j, c in data.usd_per_hour.items())
        found = price_range(data, choice, g, now, Deadline.after(60), 1e-6)

        def margin(price, g=g, now=now):
            """By how much the plan is better than any other fleet at a price; below zero if not."""
            there = at_price(data, g, price - now)
            ours = score(there, own, own_goodput, objective)
            rest = max(score(there, n, goodput, objective) for n, goodput in known)
            return (ours - rest) / abs(ours)

        assert found.low <= now * (1 + 1e-9)
        assert found.high >= now * (1 - 1e-9)
        low, high = max(found.low, now * 1e-3), min(found.high, now * 100)
        for part in (0.001, 0.3, 0.6, 0.999):
            assert margin(low + part * (high - low)) >= -1e-5
        if found.below:
            assert margin(found.low - 0.01 * now) < 0
        if found.above:
            assert margin(found.high + 0.01 * now) < 0


@pytest.mark.parametrize("seed", SEEDS)
def test_the_fleet_with_one_is_the_best_that_has_one_and_enters_at_its_price(seed):
    data = unbounded(seed)
    try:
        choice = choose(data, "min_cost", gap=1e-7)
    except InfeasibleError:
        return
    known = every_fleet(data)
    beyond = reduced_costs(data, choice)
    for k, j in enumerate(data.J):
        assert beyond[j] >= 0
        holding = [n for n, _ in known if n[k]]
        forced = with_one(data, choice, j, 60)
        if not holding:
            assert forced is None
            continue
        least = min(cost_of(data, n) for n in holding)
        assert forced.choice.cost_usd_per_hour == pytest.approx(least, rel=1e-4)
        enters = max(
            (choice.cost_usd_per_hour - cost_of(data, n)) / n[k] + data.usd_per_hour[j]
            for n in holding
        )
        if enters > 1e-6:
            assert forced.enters_at_usd_per_hour == pytest.approx(enters, rel=1e-3, abs=1e-3)


def test_a_unit_costs_beyond_its_worth_what_the_duals_say():
    """Small carries batch at 1 USD per req/s, big at 10/8; so big's worth on batch is 8."""
    data = two_by_two(
        W=("batch",),
        demand_rps={"batch": 80.0},
        promise={"batch": 0.5},
        load_rps={("small", "0", "batch"): 1.0, ("big", "batch", "batch"): 8.0},
        goodput_rps={("small", "0", "batch"): 1.0, ("big", "batch", "batch"): 8.0},
        O={"small": ("0",), "big": ("batch",)},
    )
    choice = choose(data, "min_cost", gap=1e-7)
    assert choice.units == {"small": 80}
    assert reduced_costs(data, choice) == pytest.approx({"small": 0.0, "big": 2.0})
