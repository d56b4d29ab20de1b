"""Capacity tables from the command line, and the published cases where they are at hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from planner.cli import main
from planner.data import shipped
from tests.capacity_tables import write
from tests.shared import SHARED, needs_shared

CASES = sorted((SHARED / "cases" / "capacity-tables").glob("*.json"))
SCENARIO = str(shipped("scenarios") / "capacity-table.yaml")


def planned(*words, capsys):
    code = main(["plan", *map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out)


@needs_shared
@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_a_published_table_costs_its_proven_optimum_and_no_more_than_the_peer(path, capsys):
    code, plan = planned("--capacity-table", path, capsys=capsys)
    case = json.loads(path.read_text())
    assert code == 0
    cost = plan["totals"]["cost_usd_per_hour"]
    assert cost == pytest.approx(case["fractional_routing_result"]["cost"], rel=1e-6)
    assert cost <= case["peer_result"]["cost"] * (1 + 1e-9)
    alone = [x for x in case["single_gpu_cost"].values() if x is not None]
    assert cost <= min(alone) * (1 + 1e-9)


@needs_shared
def test_the_published_tables_are_there():
    assert CASES


def test_the_shipped_scenario(capsys):
    """Long requests need 4 / 2.4 = 1.67 pairs, so two; what they leave carries 0.33 x 19 = 6.33
    req/s of chat; the rest and the short ones take 5.67 / 2.5 + 24 / 10 = 4.67 small."""
    code, plan = planned(SCENARIO, capsys=capsys)
    assert code == 0
    assert {u["template"]: u["units"] for u in plan["capacity_table"]["units"]} == {
        "small": 5,
        "large-pair": 2,
    }
    assert plan["totals"]["cost_usd_per_hour"] == pytest.approx(16.0)
    assert plan["evidence"]["verified"] is False
    assert sum(line["usd_per_hour"] for line in plan["bill"]) == pytest.approx(16.0)


def test_the_table_for_people_says_what_it_rests_on(capsys):
    assert main(["plan", SCENARIO]) == 0
    out = capsys.readouterr().out
    assert "5 × small + 4 × large, $16.00 per hour" in out
    assert "measured capacity table; not simulated" in out
    assert "NOT verified: nothing was simulated" in out
    assert "small 54.2 %, large-pair 45.8 %" in out
    assert max(map(len, out.splitlines())) <= 100


def test_check_counts_what_a_table_has(capsys):
    assert main(["check", SCENARIO]) == 0
    assert capsys.readouterr().out.endswith("ok (3 buckets, 3 templates)\n")


def test_a_table_that_cannot_be_served_exits_with_3(tmp_path, capsys):
    info = {"g": {"cost": 1, "tputs": [[1, 2], [3, 0]]}}
    code, plan = planned(
        "--capacity-table", write(tmp_path / "t.json", gpu_info=info), capsys=capsys
    )
    assert code == 3
    assert plan["status"] == "infeasible"
    assert plan["infeasibility"][0]["limit"] == "in1024-out256: capacity"


def test_a_broken_table_exits_with_2_and_its_place(tmp_path, capsys):
    path = write(tmp_path / "t.json", total_request_rate=-1)
    assert main(["plan", "--capacity-table", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{path}:1:")
    assert "total_request_rate: must be above 0; got -1" in err


@pytest.mark.parametrize("words", [[], [SCENARIO, "--capacity-table", "t.json"]])
def test_a_scenario_or_a_table_but_not_both(words, capsys):
    assert main(["plan", *words]) == 2
    assert "give either FILE or --capacity-table FILE" in capsys.readouterr().err


def test_settings_reach_a_bare_table(tmp_path, capsys):
    path = write(tmp_path / "t.json")
    words = ("--capacity-table", path, "--set", "capacity_tables.rate=2.5 req/s", "--seed", "7")
    code, plan = planned(*words, capsys=capsys)
    assert (code, plan["seed"], plan["totals"]["cost_usd_per_hour"]) == (0, 7, 3.0)


def test_a_plan_is_written_read_and_explained(tmp_path, capsys):
    path = tmp_path / "plan.json"
    assert main(["plan", SCENARIO, "-o", str(path)]) == 0
    assert main(["explain", str(path), "--why-not", "small"]) == 0
    assert "small is in the plan" in capsys.readouterr().out
    assert main(["simulate", str(path)]) == 2
    assert "no curve to simulate" in capsys.readouterr().err


def test_a_table_is_planned_without_what_simulates(tmp_path):
    """Most of the second that it takes is the loading of modules: those of simulation stay out."""
    path = write(tmp_path / "t.json")
    code = (
        "import sys; from planner.cli import main; "
        f"main(['plan', '--capacity-table', {str(path)!r}]); "
        "print(' '.join(m for m in sys.modules if m.startswith('planner.')), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ}
    )
    loaded = {name.split(".")[1] for name in done.stderr.split()}
    assert loaded.isdisjoint({"simulation", "candidates", "curves", "kernels", "catalogue"})
    assert "milp" in loaded


def test_the_schema_knows_the_section(capsys):
    assert main(["schema", "table-scenario"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert "capacity_tables" in schema["required"]
    assert {"file", "rate", "buckets", "templates", "shed_limit"} == set(
        schema["$defs"]["CapacityTables"]["properties"]
    )
    assert main(["schema", "plan"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert "capacity_table" in plan["properties"]
    assert "capacity_table" not in plan["required"]  # plans of before are read as they are
