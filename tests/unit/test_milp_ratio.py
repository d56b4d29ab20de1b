"""The best ratio: with its floors it serves everyone, bare it does not; bounds hold."""

import dataclasses
import itertools

import pytest

from planner.errors import InputError
from planner.milp import choose
from planner.milp.ratio import MAX_STEPS
from tests.instances import two_by_two


def test_the_bare_ratio_abandons_the_dear_class() -> None:
    """Small units serve batch at 1 req/s per USD/h; a big one at most 0.8, chat 0.79 in the mix.

    Without a promise and with everything allowed to be turned away, small units alone are best,
    and chat gets nothing.
    """
    bare = two_by_two(promise={"chat": 0.0, "batch": 0.0}, shed_limit={"chat": 1.0, "batch": 1.0})
    choice = choose(bare, "max_goodput_per_usd", gap=0)
    assert choice.objective == pytest.approx(1.0)
    assert choice.goodput_rps["chat"] == 0.0
    assert set(choice.units) == {"small"}


def test_with_floors_every_class_is_served() -> None:
    """Chat needs two big units; with both at the mix 15.8 comply for 20 USD/h, all of batch
    included, so small units can add nothing: 0.79."""
    choice = choose(two_by_two(), "max_goodput_per_usd", gap=0)
    assert choice.objective == pytest.approx(0.79)
    for w, promise in two_by_two().promise.items():
        assert choice.goodput_rps[w] >= promise * two_by_two().demand_rps[w] * (1 - 1e-6)


def test_the_cheapest_fleet_need_not_have_the_best_ratio() -> None:
    """To promise half of batch, 3 of 6: one small unit takes 6 at 3 compliant for 1 USD/h (3.0);
    paying 1.5 for a better one makes all 6 comply (4.0)."""
    rates = {("a", "0", "batch"): 6.0, ("b", "0", "batch"): 6.0}
    data = two_by_two(
        W=("batch",),
        J=("a", "b"),
        O={"a": ("0",), "b": ("0",)},
        demand_rps={"batch": 6.0},
        promise={"batch": 0.5},
        load_rps=rates,
        goodput_rps={("a", "0", "batch"): 3.0, ("b", "0", "batch"): 6.0},
        devices={"a": 1, "b": 1},
        accelerator_of={"a": "a10", "b": "h100"},
        usd_per_hour={"a": 1.0, "b": 1.5},
    )
    assert choose(data, "min_cost", gap=0).units == {"a": 1}
    best = choose(data, "max_goodput_per_usd", gap=0)
    assert (best.units, best.objective) == ({"b": 1}, pytest.approx(4.0))
    worth_less = dataclasses.replace(data, value={"batch": 0.1})
    assert choose(worth_less, "max_goodput_per_usd", gap=0).objective == pytest.approx(0.4)


@pytest.mark.parametrize("stock", [4, 8, 12, 40])
def test_theta_rises_and_the_bound_falls(stock: int) -> None:
    floors = {"promise": {"chat": 0.1, "batch": 0.3}, "shed_limit": {"chat": 0.8, "batch": 0.5}}
    data = two_by_two(stock={"h100": stock, "a10": 9}, **floors)
    choice = choose(data, "max_goodput_per_usd", gap=0)
    thetas = [step.theta for step in choice.steps]
    bounds = [step.bound for step in choice.steps]
    assert all(a <= b for a, b in itertools.pairwise(thetas))
    assert all(a >= b for a, b in itertools.pairwise(bounds))
    assert len(choice.steps) <= MAX_STEPS
    assert choice.bound == pytest.approx(choice.objective, rel=1e-6)


def test_a_fleet_that_costs_nothing_has_no_ratio() -> None:
    with pytest.raises(InputError, match="the ratio has no bound"):
        choose(two_by_two(usd_per_hour={"small": 0.0, "big": 0.0}), "max_goodput_per_usd")
