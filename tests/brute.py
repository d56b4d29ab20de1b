"""A second route to the best fleet: try every fleet, and run each by its own linear program.

Shares no code with planner/milp: the rows are written again, as matrices, from the page.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from planner.milp import Instance


@dataclass(frozen=True)
class Best:
    """The best value of each objective; None where no fleet is possible."""

    min_cost: float | None = None
    max_goodput: float | None = None
    max_goodput_per_usd: float | None = None
    cost_of_max_goodput: float | None = None


def fleets(data: Instance) -> Iterator[tuple[int, ...]]:
    """Every number of units within stock, unit limits and budget."""
    most = [
        min(data.stock[data.accelerator_of[j]] // data.devices[j], data.max_units.get(j, 10**6))
        for j in data.J
    ]
    for n in itertools.product(*(range(m + 1) for m in most)):
        used = dict.fromkeys(data.G, 0)
        for j, count in zip(data.J, n, strict=True):
            used[data.accelerator_of[j]] += data.devices[j] * count
        within = all(used[g] <= data.stock[g] for g in data.G)
        budget = data.budget_usd_per_hour
        if within and (budget is None or cost_of(data, n) <= budget + 1e-9):
            yield n


def cost_of(data: Instance, n: tuple[int, ...]) -> float:
    return sum(data.usd_per_hour[j] * count for j, count in zip(data.J, n, strict=True))


def goodput_of(data: Instance, n: tuple[int, ...]) -> float | None:
    """The highest weighted goodput of a fleet that keeps every promise; None if none does."""
    points = [(j, o) for j in data.J for o in data.O[j]]
    shape = (len(data.W), len(points))
    load, goodput = np.zeros(shape), np.zeros(shape)
    for a, w in enumerate(data.W):
        for b, (j, o) in enumerate(points):
            load[a, b] = data.load_rps.get((j, o, w), 0.0)
            goodput[a, b] = data.goodput_rps.get((j, o, w), 0.0)
    demand = np.array([data.demand_rps[w] for w in data.W])
    promise = np.array([data.promise[w] for w in data.W])
    worth = np.array([data.value.get(w, 1.0) for w in data.W])
    shed = np.array([data.shed_limit.get(w, 0.0) for w in data.W])
    # Idle time is what the weights of a template leave of its units.
    member = np.array([[float(j == of) for of, _ in points] for j in data.J])
    share = load / demand[:, None]
    rows = np.vstack([member, -goodput / demand[:, None], share, -share])
    scale = abs(rows).max(axis=0)  # each weight is counted in its largest share, whatever its rates
    gain = (worth @ goodput) / scale
    unit = gain.max() or 1.0
    result = linprog(
        -gain / unit,
        A_ub=rows / scale,
        b_ub=np.concatenate([n, -promise, np.ones(len(data.W)), shed - 1]),
        bounds=(0, None),
        method="highs",
    )
    return -float(result.fun) * unit if result.status == 0 else None


def brute_force(data: Instance) -> Best:
    costs, goodputs, ratios = [], [], []
    for n in fleets(data):
        goodput = goodput_of(data, n)
        if goodput is not None:
            cost = cost_of(data, n)
            costs.append(cost)
            goodputs.append(goodput)
            ratios.append(goodput / cost if cost else 0.0)
    if not costs:
        return Best()
    most = max(goodputs)
    full = [c for c, g in zip(costs, goodputs, strict=True) if g >= most * (1 - 1e-9)]
    return Best(min(costs), most, max(ratios), min(full))
