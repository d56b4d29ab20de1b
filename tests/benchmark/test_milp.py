"""Time to a 0.1 % gap on a synthetic instance of the size that one period and domain has."""

import time

import numpy as np
import pytest

from planner.milp import Instance, choose
from planner.milp.formulation import model_of
from planner.milp.objective import Objective

SHARES = (0.25, 0.5, 0.75, 0.9, 1.0)


def fleet_problem(
    templates: int = 250, workloads: int = 20, accelerators: int = 5, seed: int = 7
) -> Instance:
    """Templates of 1 to 8 devices that serve 1 to 3 workloads at five loads each."""
    rng = np.random.default_rng(seed)
    W = tuple(f"w{i}" for i in range(workloads))
    J = tuple(f"t{i}" for i in range(templates))
    G = tuple(f"g{i}" for i in range(accelerators))
    speed = {g: float(rng.uniform(1, 6)) for g in G}
    price = {g: speed[g] * float(rng.uniform(0.8, 1.2)) for g in G}
    load, goodput, devices, of = {}, {}, {}, {}
    for i, j in enumerate(J):
        of[j], devices[j] = str(rng.choice(G)), int(2 ** rng.integers(0, 4))
        mix = rng.choice(workloads, size=rng.integers(1, 4), replace=False)
        mix = np.unique(np.append(mix[1:], i % workloads))  # every workload is served
        weight = rng.dirichlet(np.ones(len(mix)))
        capacity_rps = speed[of[j]] * devices[j] ** 0.9 * float(rng.uniform(0.7, 1.0))
        for o, share in enumerate(SHARES):
            for w, part in zip(mix, weight, strict=True):
                rate = capacity_rps * share * float(part)
                load[j, str(o), W[w]] = rate
                goodput[j, str(o), W[w]] = rate * (1 - 0.08 * share**6)
    return Instance(
        W=W,
        J=J,
        G=G,
        O={j: tuple(str(o) for o in range(len(SHARES))) for j in J},
        demand_rps={w: float(rng.uniform(20, 400)) for w in W},
        promise=dict.fromkeys(W, 0.95),
        load_rps=load,
        goodput_rps=goodput,
        devices=devices,
        accelerator_of=of,
        usd_per_hour={j: price[of[j]] * devices[j] for j in J},
        stock=dict.fromkeys(G, 600),
    )


@pytest.mark.benchmark
@pytest.mark.parametrize("objective", ["min_cost", "max_goodput", "max_goodput_per_usd"])
def test_one_period_one_domain_to_a_tenth_of_a_percent(objective: Objective) -> None:
    data = fleet_problem()
    began_s = time.perf_counter()
    model = model_of(data)
    built_s = time.perf_counter() - began_s
    began_s = time.perf_counter()
    choice = choose(data, objective, gap=1e-3, time_limit_s=60)
    solved_s = time.perf_counter() - began_s
    nonzeros = model.program.A.nnz
    print(
        f"\n{objective}: {len(model.program.rows)} rows, {len(model.program.columns)} columns, "
        f"{nonzeros} nonzeros, built in {built_s:.3f} s ({built_s / nonzeros * 1e6:.1f} us each), "
        f"{solved_s:.2f} s to a gap of {choice.gap:.2e} in {len(choice.steps)} steps"
    )
    assert choice.status == "optimal"
    assert solved_s < 10
