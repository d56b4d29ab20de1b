"""Capacity tables made by hand or at random, and a second route to their best fleet."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linprog

if TYPE_CHECKING:
    from pathlib import Path

HAND: dict[str, Any] = {
    "gpu_info": {
        "big": {"cost": 3.0, "tputs": [[12, 6], [4, 2]]},
        "small": {"cost": 1.0, "tputs": [[5, 2], [1, 0]]},
    },
    "workload_distribution": [[0.5, 0.2], [0.1, 0.2]],
    "total_request_rate": 10,
    "grid": {"output_tokens": [64, 256], "input_tokens": [128, 1024]},
}
"""Demand 5, 2, 1, 2 req/s. In big units 5/12 + 2/6 + 1/4 + 2/2 = 2: two big do it, for 6 USD/h.
The last bucket takes one whole big, and with only one the rest takes 1 + 1 + 1 = 3 small: the
same 6 USD/h."""


def write(path: Path, **changes: Any) -> Path:
    """Write the table above with some keys changed; None takes a key out."""
    table = {key: value for key, value in (HAND | changes).items() if value is not None}
    path.write_text(json.dumps(table))
    return path


def random_table(seed: int) -> dict[str, Any]:
    """At most 3 accelerators and 6 buckets; every other one in whole numbers, where ties abound."""
    rng = np.random.default_rng(seed)
    whole, shape = bool(seed % 2), (int(rng.integers(1, 4)), int(rng.integers(1, 3)))
    accelerators = {}
    for name in ("a", "b", "c")[: rng.integers(1, 4)]:
        rates = rng.integers(1, 9, shape) if whole else rng.uniform(0.5, 8, shape)
        rates = np.where(rng.random(shape) < 0.2, 0, rates)
        cost = float(rng.integers(1, 5)) if whole else float(rng.uniform(0.5, 4))
        accelerators[name] = {"cost": cost, "tputs": rates.tolist()}
    shares = rng.dirichlet(np.ones(shape[0] * shape[1])).reshape(shape)
    shares[rng.random(shape) < 0.2] = 0.0
    if not shares.any():
        shares[0, 0] = 1.0
    return {
        "gpu_info": accelerators,
        "workload_distribution": (shares / shares.sum()).tolist(),
        "total_request_rate": float(rng.integers(1, 8)),
    }


def best_by_trying(table: dict[str, Any], stock: int, shed: float = 0.0) -> float | None:
    """The least cost of any fleet of at most ``stock`` of each accelerator; None if none serves.

    Every fleet is tried; by a linear program of its own over rates, not over operating points.
    """
    rates = {name: np.ravel(g["tputs"]).astype(float) for name, g in table["gpu_info"].items()}
    demand = np.ravel(table["workload_distribution"]) * table["total_request_rate"]
    costs = [g["cost"] for g in table["gpu_info"].values()]
    best = None
    for fleet in itertools.product(range(stock + 1), repeat=len(rates)):
        cost = float(np.dot(fleet, costs))
        if (best is None or cost < best) and serves(list(rates.values()), demand, fleet, shed):
            best = cost
    return best


def serves(
    rates: list[np.ndarray], demand: np.ndarray, fleet: tuple[int, ...], shed: float
) -> bool:
    """Tell whether rates r (accelerator, bucket) exist with sum r / capacity <= units."""
    count, buckets = len(rates), len(demand)
    time = np.zeros((count, count * buckets))
    total = np.zeros((buckets, count * buckets))
    upper = np.zeros(count * buckets)
    for g, capacity in enumerate(rates):
        for b in range(buckets):
            column = g * buckets + b
            total[b, column] = 1.0
            if capacity[b] > 0:
                time[g, column] = 1 / capacity[b]
                upper[column] = demand[b]
    found = linprog(
        np.zeros(count * buckets),
        A_ub=np.vstack([time, -total]),
        b_ub=np.concatenate([np.array(fleet) + 1e-9, -(1 - shed) * demand]),
        bounds=np.column_stack([np.zeros_like(upper), upper]),
        method="highs",
    )
    return found.status == 0
