"""Periods and domains: what nothing ties together is as good as one program each."""

import dataclasses

import numpy as np
import pytest

from planner.errors import InfeasibleError, InputError
from planner.milp import Instance, choose
from tests.brute import brute_force
from tests.instances import indexed, two_by_two
from tests.property.test_milp import tiny


def over_a_day(seed: int) -> tuple[Instance, list[Instance]]:
    """A random instance over two or three periods, and each period as an instance of its own."""
    rng = np.random.default_rng([seed, 2])
    base = dataclasses.replace(tiny(seed), budget_usd_per_hour=None)
    periods = ("morning", "noon", "night")[: rng.integers(2, 4)]
    level = {t: float(rng.choice([0.25, 0.5, 1.0])) for t in periods}
    demand = {(w, t): base.demand_rps[w] * level[t] for w in base.W for t in periods}
    hours = {t: float(rng.integers(1, 9)) for t in periods}
    alone = [
        dataclasses.replace(base, demand_rps={w: demand[w, t] for w in base.W}) for t in periods
    ]
    return dataclasses.replace(base, T=periods, hours=hours, demand_in=demand), alone


@pytest.mark.parametrize("batch", range(6))
def test_periods_that_nothing_ties_cost_and_serve_the_mean_of_their_own_best(batch: int) -> None:
    for seed in range(20 * batch, 20 * (batch + 1)):
        data, alone = over_a_day(seed)
        best = [brute_force(one) for one in alone]
        for objective in ("min_cost", "max_goodput"):
            values = [getattr(b, objective) for b in best]
            if None in values:
                with pytest.raises(InfeasibleError):
                    choose(data, objective, gap=0)
                continue
            mean = sum(h * v for h, v in zip(data.hours.values(), values, strict=True))
            mean /= sum(data.hours.values())
            found = choose(data, objective, gap=0)
            assert found.objective == pytest.approx(mean, rel=1e-6, abs=1e-9), (seed, objective)


def test_domains_without_limits_of_their_own_change_nothing() -> None:
    for seed in range(60):
        plain = tiny(seed)
        split = dataclasses.replace(plain, D=("east", "west"))
        for objective in ("min_cost", "max_goodput", "max_goodput_per_usd"):
            try:
                best = choose(plain, objective, gap=0)
            except InfeasibleError:
                with pytest.raises(InfeasibleError):
                    choose(split, objective, gap=0)
                continue
            found = choose(split, objective, gap=0)
            assert found.objective == pytest.approx(best.objective, rel=1e-6), (seed, objective)
            in_all = sum(n for (j, _, _), n in found.units_in.items())
            assert in_all == sum(found.units.values())


def test_a_day_by_hand() -> None:
    """By day two big units at 20 USD/h; by night one at 10. 16 h and 8 h: 16.67 USD/h in the mean.

    Eight h100 in the west hold two big units at most; the east holds what it must.
    """
    data = indexed(two_by_two(stock={"h100": 8, "a10": 6}))
    found = choose(data, "min_cost", gap=0)
    assert found.cost_usd_per_hour == pytest.approx((16 * 20 + 8 * 10) / 24)
    by_period = {
        t: sum(n for (j, _, of), n in found.units_in.items() if of == t and j == "big")
        for t in data.T
    }
    assert by_period == {"day": 2, "night": 1}
    assert found.units == {"big": 2}
    assert found.goodput_rps["batch"] == pytest.approx(6 * 16 / 24)
    none_west = dataclasses.replace(data, stock_in={("h100", "west"): 0, ("h100", "east"): 4})
    with pytest.raises(InfeasibleError, match=r"\(h100,east,day\): limit 4 .*needs 8"):
        choose(none_west, "min_cost")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"T": ()}, "T: is empty"),
        ({"T": ("", "night")}, "T: an id is empty"),
        ({"T": ("east", "night")}, "'east' is in both"),
        ({"hours": {"dusk": 1.0}}, r"hours\[dusk\]: no such period"),
        ({"hours": {"day": 0.0}}, r"hours\[day\]: must be finite and above 0"),
        ({"demand_in": {("chat", "dusk"): 1.0}}, r"demand_in\[chat,dusk\]: no such"),
        ({"demand_in": {("chat", "day"): -1.0}}, r"demand_in\[chat,day\]: .* at least 0"),
        ({"homes": {"b200": ("east",)}}, r"homes\[b200\]: no such accelerator"),
        ({"homes": {"h100": ("north",)}}, r"homes\[h100\]: 'north' is not in D"),
        ({"stock_in": {("h100", "north"): 1}}, r"stock_in\[h100,north\]: no such"),
        ({"stock_in": {("h100", "west"): 1.5}}, r"stock_in\[h100,west\]: must be a whole"),
    ],
)
def test_a_mistake_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        dataclasses.replace(indexed(two_by_two()), **change)  # type: ignore[arg-type]
