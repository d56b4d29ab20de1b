"""The procurement frontier: the most goodput at each of many budgets, a second way to the ratio."""

from __future__ import annotations

import dataclasses

import numpy as np

from planner.errors import InfeasibleError
from planner.milp import Choice, Instance, choose
from tests.instances import fleet_problem

BUDGETS = 50


def shedding_problem(seed: int, templates: int = 10, workloads: int = 3) -> Instance:
    """A fleet whose best ratio is not at its cheapest: promises are low, and load may be shed."""
    rng = np.random.default_rng([seed, 50])
    data = fleet_problem(float(rng.uniform(0.02, 0.2)), templates, workloads, 3, seed)
    alone = {f"only-{w}": w for w in data.W}  # so that some fleet keeps every promise
    rate = {(j, "0", w): float(rng.uniform(2, 8)) for j, w in alone.items()}
    return dataclasses.replace(
        data,
        J=(*data.J, *alone),
        O={**data.O, **dict.fromkeys(alone, ("0",))},
        load_rps={**data.load_rps, **rate},
        goodput_rps={**data.goodput_rps, **{k: 0.97 * x for k, x in rate.items()}},
        devices={**data.devices, **dict.fromkeys(alone, 1)},
        accelerator_of={**data.accelerator_of, **dict.fromkeys(alone, data.G[0])},
        usd_per_hour={**data.usd_per_hour, **{j: float(rng.uniform(2, 8)) for j in alone}},
        promise={w: float(rng.choice([0.3, 0.5, 0.7, 0.9])) for w in data.W},
        shed_limit={w: float(rng.choice([0.0, 0.1, 0.3])) for w in data.W},
        value={w: float(rng.choice([1.0, 1.0, 2.0, 5.0])) for w in data.W},
        stock={},
    )


def best_of_budgets(data: Instance, gap: float) -> tuple[Choice, float]:
    """The best ratio among fleets of the most goodput, and by which share others fall short of it.

    Budgets run evenly from what the cheapest fleet costs to what the most goodput at all costs.
    """
    least = choose(data, "min_cost", gap=gap).cost_usd_per_hour
    most = choose(data, "max_goodput", gap=gap).cost_usd_per_hour
    found = []
    for budget in np.linspace(least, max(most, least) * 1.0001, BUDGETS):
        try:
            bounded = dataclasses.replace(data, budget_usd_per_hour=float(budget))
            found.append(choose(bounded, "max_goodput", gap=gap))
        except InfeasibleError:  # a budget a rounding below the cheapest fleet
            continue
    ratios = [one.objective / one.cost_usd_per_hour for one in found]
    return found[int(np.argmax(ratios))], 1 - min(ratios) / max(ratios)
