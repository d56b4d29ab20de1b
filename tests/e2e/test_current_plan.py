"""Planning from a plan: where the search begins, what moves, and which of equals is taken."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from planner.cli import main
from planner.errors import InputError
from planner.planning import plan_scenario
from planner.scenario.load import load_scenario
from planner.simulation.effort import Effort, RunSize
from planner.spec import dump_json

if TYPE_CHECKING:
    from pathlib import Path

SHORT = Effort(2_000, RunSize(6_000, 3, 1_500), RunSize(6_000, 4, 2_000), 48_000, 6_000, 4)
QUESTION = """
format_version: "1.0"
name: Two kinds of accelerators at about one price
workloads:
  - id: chat
    model: llama-3.1-8b
    precisions: [bf16]
    arrivals: {poisson: 55 req/s}
    lengths:
      prompt: {lognormal: {mean: 1200 tokens, cv: 1}}
      output: {lognormal: {mean: 250 tokens, cv: 0.8}}
    slo: {ttft: 500 ms, tpot: 30 ms, attainment: 0.9}
accelerators:
  - {id: h100-sxm, price: 3 USD/h, stock: 6}
  - {id: h200-sxm, price: 3.01 USD/h, stock: 6}
policies: {tp_degrees: [1], max_num_seqs: [256], max_num_batched_tokens: [2048]}
objective: min_cost
solver: {gap: 5 %}
"""


@pytest.fixture
def question(tmp_path) -> Path:
    file = tmp_path / "question.yaml"
    file.write_text(QUESTION)
    return file


def kinds(plan):
    return {pool.accelerator: pool.replicas for pool in plan.pools}


def test_the_current_fleet_stays_where_it_is_as_good(question, tmp_path):
    """Within 5 % either kind will do: fewest moves keeps what runs, lowest power the frugal one."""
    now = plan_scenario(
        load_scenario(question, ["accelerators.h100-sxm.price=9 USD/h"]), effort=SHORT
    )
    assert set(kinds(now)) == {"h200-sxm"}
    (tmp_path / "now.json").write_text(dump_json(now))
    settings = ["then=[fewest_moves, fewest_pools]", "current_plan=now.json"]
    kept = plan_scenario(load_scenario(question, settings), effort=SHORT)
    assert kinds(kept) == kinds(now)
    assert kept.changes == ()
    assert kept.scenario.document["current_plan"] == str(tmp_path / "now.json")
    more = plan_scenario(
        load_scenario(question, [*settings, "workloads.chat.arrivals.poisson=90 req/s"]),
        effort=SHORT,
    )
    (change,) = more.changes
    assert (change.before, change.pool) == (now.pools[0].replicas, now.pools[0].id)
    assert change.after > change.before


def test_what_is_no_plan_and_what_has_no_plan_to_count_from_are_mistakes(question, capsys):
    for setting, mistake in (
        ("then=[fewest_moves]", "then.0: moves are counted from a plan; add current_plan"),
        ("then=[fewest_pools, fewest_pools]", "then.1: fewest_pools is given twice; keep one"),
        ("then=[cheapest]", "then.0: "),
    ):
        with pytest.raises(InputError, match=mistake.split(";", maxsplit=1)[0]):
            load_scenario(question, [setting])
    assert main(["plan", str(question), "--from", str(question.parent / "none.json")]) == 2
    assert "current_plan: " in capsys.readouterr().err
    broken = question.parent / "broken.json"
    broken.write_text(json.dumps({"seed": 1}))
    assert main(["plan", str(question), "--from", str(broken)]) == 2
    assert "is this a plan?" in capsys.readouterr().err


def test_a_plan_of_any_name_is_begun_with(question, capsys):
    """Letters beyond the first 65,536 too; the file is read, and then is no plan."""
    odd = question.parent / "läuft 💥.json"
    odd.write_text("{}", encoding="utf-8")
    assert main(["plan", str(question), "--from", str(odd)]) == 2
    told = capsys.readouterr().err
    assert "is this a plan?" in told
    assert "half a character" not in told
    assert main(["plan", str(question), "--solver", "💥"]) == 2
    assert "solver '💥' is not known" in capsys.readouterr().err
