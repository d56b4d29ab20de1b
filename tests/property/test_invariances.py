"""What cannot matter to a fleet does not: units, names, and how the demand is cut into pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.planning import plan_question, plan_scenario
from planner.scenario.load import load_question, load_scenario, question_of_table
from tests.capacity_tables import random_table
from tests.fuzz.readers import SEEDS

SEEDS_OF_TABLES = range(12)
GAP = 1e-6


def cost(folder, table: dict[str, Any]) -> float | None:
    """Cost of the best fleet of a table in USD/h, proven to the gap; None where there is none."""
    path = folder / "table.json"
    path.write_text(json.dumps(table))
    plan = plan_question(question_of_table(path, [f"solver.gap={GAP}"]))
    if plan.status == "infeasible":
        return None
    assert plan.status == "optimal"
    return plan.totals.cost_usd_per_hour


def same(one: float | None, two: float | None, times: float = 1.0) -> None:
    assert (one is None) == (two is None)
    if one is not None:
        assert two == pytest.approx(times * one, rel=3 * GAP)


@pytest.mark.parametrize("seed", SEEDS_OF_TABLES)
def test_what_cannot_matter_to_a_table_does_not(seed, tmp_path):
    table = random_table(seed)
    info, shares = table["gpu_info"], table["workload_distribution"]
    known = cost(tmp_path, table)

    renamed = {f"z{len(info) - i}": info[name] for i, name in enumerate(info)}
    same(known, cost(tmp_path, table | {"gpu_info": renamed}))

    dearer = {name: one | {"cost": 7 * one["cost"]} for name, one in info.items()}
    same(known, cost(tmp_path, table | {"gpu_info": dearer}), 7)

    times = {
        name: one | {"tputs": [[60 * rate for rate in row] for row in one["tputs"]]}
        for name, one in info.items()
    }
    by_minute = {"gpu_info": times, "total_request_rate": 60 * table["total_request_rate"]}
    same(known, cost(tmp_path, table | by_minute))

    halves = {
        "gpu_info": {
            name: one | {"tputs": [row for row in one["tputs"] for _ in range(2)]}
            for name, one in info.items()
        },
        "workload_distribution": [[s / 2 for s in row] for row in shares for _ in range(2)],
    }
    cut = {key: value for key, value in table.items() if key != "grid"} | halves
    same(known, cost(tmp_path, cut))


@pytest.mark.parametrize("seed", SEEDS_OF_TABLES)
def test_more_demand_never_costs_less_and_twice_as_much_at_most_twice(seed, tmp_path):
    """Two of the fleet serve twice the demand."""
    table = random_table(seed)
    known = cost(tmp_path, table)
    twice = cost(tmp_path, table | {"total_request_rate": 2 * table["total_request_rate"]})
    assert (known is None) == (twice is None)
    if known is not None:
        assert known * (1 - 3 * GAP) <= twice <= 2 * known * (1 + 3 * GAP)


def test_units_of_the_values_of_a_table_scenario_do_not_matter(tmp_path):
    text = (SEEDS / "inline.yaml").read_text()
    other = text.replace("40 req/s", "2400 req/min").replace("60 %", "0.6").replace("40 %", "0.4")
    assert other != text
    costs = []
    for i, one in enumerate((text, other)):
        path = tmp_path / f"{i}.yaml"
        path.write_text(one)
        costs.append(plan_question(load_question(path)).totals.cost_usd_per_hour)
    assert costs[0] == costs[1]


@pytest.mark.minutes_in_plain
def test_units_do_not_matter_to_a_simulated_plan(tmp_path):
    """The same draws, so the same fleet, figures and evidence to the last digit."""
    text = (SEEDS / "small.yaml").read_text()
    other = text.replace("12 req/s", "720 req/min").replace("ttft: 1 s, tpot: 40 ms", TIMES)
    assert other.count("720") == other.count(TIMES) == 1
    plans = []
    for i, one in enumerate((text, other)):
        path = tmp_path / f"{i}.yaml"
        path.write_text(one)
        plans.append(plan_scenario(load_scenario(path, ())))
    one, two = plans
    assert (one.totals, one.pools, one.workloads) == (two.totals, two.pools, two.workloads)
    assert one.evidence == two.evidence


TIMES = "ttft: 1000 ms, tpot: 0.04 s"
