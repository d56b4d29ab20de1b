"""Laws of plans by measured capacities: they equal brute force, and more never hurts."""

from __future__ import annotations

import json

import numpy as np
import pytest

import planner
from planner.milp import choose
from planner.planning.table_program import TableProgram
from planner.problem.tables import resolve_tables
from tests.capacity_tables import best_by_trying, random_table

STOCK = 4


def plan_of(table, path, *settings):
    path.write_text(json.dumps(table))
    return planner.plan(planner.load_table(path, settings))


def with_stock(table) -> str:
    """An offer of every accelerator at the table's price, four of each."""
    offers = [
        f"{{id: {name}, price: {g['cost']!r} USD/h, stock: {STOCK}}}"
        for name, g in table["gpu_info"].items()
    ]
    return f"accelerators=[{', '.join(offers)}]"


@pytest.mark.parametrize("seed", range(120))
def test_the_cost_equals_that_of_the_best_fleet_of_all(seed, tmp_path):
    table = random_table(seed)
    plan = plan_of(table, tmp_path / "t.json", with_stock(table))
    best = best_by_trying(table, STOCK)
    if best is None:
        assert plan.status == "infeasible"
        assert plan.infeasibility
    else:
        assert plan.status == "optimal"
        assert plan.totals.cost_usd_per_hour == pytest.approx(best, rel=1e-6)
        assert plan.objective.bound == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("seed", range(0, 40, 2))
def test_with_shedding_too(seed, tmp_path):
    table = random_table(seed)
    settings = (with_stock(table), "capacity_tables.shed_limit=25 %")
    plan = plan_of(table, tmp_path / "t.json", *settings)
    best = best_by_trying(table, STOCK, shed=0.25)
    if best is None:
        assert plan.status == "infeasible"
    else:
        assert plan.totals.cost_usd_per_hour == pytest.approx(best, rel=1e-6)
        assert plan.totals.attainment >= 0.75 - 1e-6


def is_served(seed: int) -> bool:
    """Tell whether every bucket with demand has an accelerator, so that there is a program."""
    table = random_table(seed)
    able = [np.asarray(g["tputs"]) > 0 for g in table["gpu_info"].values()]
    return bool(np.all(np.any(able, axis=0) | (np.asarray(table["workload_distribution"]) == 0)))


@pytest.mark.parametrize("seed", list(filter(is_served, range(30))))
def test_another_solver_finds_the_same_cost(seed, tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps(random_table(seed)))
    instance = TableProgram.of(resolve_tables(planner.load_table(path))).instance
    ours, theirs = (
        choose(instance, "min_cost", gap=1e-6, solver=name).cost_usd_per_hour
        for name in ("highs", "PULP_CBC_CMD")
    )
    assert ours == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize("seed", range(30))
def test_the_books_close(seed, tmp_path):
    """Shares, busy units, supply, bill and totals are several routes to the same numbers."""
    plan = plan_of(random_table(seed), tmp_path / "t.json")
    if plan.totals is None:
        return
    fleet, cost = plan.capacity_table, plan.totals.cost_usd_per_hour
    assert sum(line.usd_per_hour for line in plan.bill) == pytest.approx(cost)
    assert sum(line.usd_per_hour for line in plan.supply) == pytest.approx(cost)
    assert sum(u.usd_per_hour for u in fleet.units) == pytest.approx(cost)
    assert sum(line.count for line in plan.supply) == plan.totals.accelerators
    busy = dict.fromkeys((u.template for u in fleet.units), 0.0)
    for bucket in fleet.buckets:
        assert sum(r.share for r in bucket.routing) == pytest.approx(1.0, rel=1e-12)
        assert sum(r.rate_rps for r in bucket.routing) == pytest.approx(bucket.offered_rps)
        for r in bucket.routing:
            assert r.busy_units == pytest.approx(r.rate_rps / r.capacity_rps)
            busy[r.template] += r.busy_units
    for u in fleet.units:
        assert u.busy_units == pytest.approx(busy[u.template])
        assert u.busy_units <= u.units * (1 + 2e-6)


@pytest.mark.parametrize("seed", range(20))
def test_where_all_is_served_the_three_objectives_agree_on_the_cost(seed, tmp_path):
    table, path = random_table(seed), tmp_path / "t.json"
    cheapest = plan_of(table, path)
    for objective in ("max_goodput", "max_goodput_per_usd"):
        plan = plan_of(table, path, f"objective={objective}")
        assert plan.status == cheapest.status
        if cheapest.totals is not None:
            cost = cheapest.totals.cost_usd_per_hour
            assert plan.totals.cost_usd_per_hour == pytest.approx(cost, rel=2e-6)


@pytest.mark.parametrize("seed", range(0, 30, 3))
def test_half_the_load_never_costs_more_and_no_price_or_rate_changes_the_scale(seed, tmp_path):
    table, path = random_table(seed), tmp_path / "t.json"
    whole = plan_of(table, path)
    if whole.totals is None:
        return
    half = plan_of(table | {"total_request_rate": table["total_request_rate"] / 2}, path)
    assert half.totals.cost_usd_per_hour <= whole.totals.cost_usd_per_hour * (1 + 1e-6)
    faster = {
        name: {"cost": g["cost"] * 7, "tputs": [[1e4 * x for x in row] for row in g["tputs"]]}
        for name, g in table["gpu_info"].items()
    }
    rate = table["total_request_rate"] * 1e4
    scaled = plan_of(table | {"gpu_info": faster, "total_request_rate": rate}, path)
    cost = whole.totals.cost_usd_per_hour
    assert scaled.totals.cost_usd_per_hour == pytest.approx(7 * cost, rel=1e-5)


def test_same_seed_same_bytes(tmp_path):
    table, path = random_table(8), tmp_path / "t.json"
    assert plan_of(table, path) == plan_of(table, path)


@pytest.mark.parametrize("seed", range(0, 40, 2))
def test_only_the_ratio_of_demand_and_capacity_counts_in_any_bucket(seed, tmp_path):
    """Each bucket's demand and capacities are multiplied by a factor of its own, 1e-6 to 1e6."""
    table, path = random_table(seed), tmp_path / "t.json"
    plain = plan_of(table, path)
    shares = np.asarray(table["workload_distribution"])
    factor = 10 ** np.random.default_rng([seed, 1]).uniform(-6, 6, shares.shape)
    demand = shares * table["total_request_rate"] * factor
    stretched = {
        name: g | {"tputs": (np.asarray(g["tputs"]) * factor).tolist()}
        for name, g in table["gpu_info"].items()
    }
    changed = {
        "gpu_info": stretched,
        "workload_distribution": (demand / demand.sum()).tolist(),
        "total_request_rate": float(demand.sum()),
    }
    plan = plan_of(changed, path)
    assert plan.status == plain.status
    if plain.totals is not None:
        assert plan.totals.cost_usd_per_hour == pytest.approx(
            plain.totals.cost_usd_per_hour, rel=1e-6
        )
