"""Planning from a plan: where the search begins, what moves, and which of equals is taken."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from planner.cli import main
from planner.errors import InputError
from planner.planning import plan_scenario
from planner.planning.levers import levers_of
from planner.problem.current import units_of
from planner.scenario.load import load_scenario
from planner.simulation.effort import Effort, RunSize
from planner.spec import dump_json
from tests.plans import plan as hand_made_plan
from tests.plans import pool as hand_made_pool

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


def test_no_more_replicas_move_than_may_and_each_is_paid(question, tmp_path):
    """Three H200 run; three H100 are a dollar cheaper each. Swapping one is a stop and a start."""
    exact = ["solver.gap=0.5 %"]
    now = plan_scenario(
        load_scenario(question, ["accelerators.h100-sxm.price=9 USD/h", *exact]), effort=SHORT
    )
    assert kinds(now) == {"h200-sxm": 3}
    (tmp_path / "now.json").write_text(dump_json(now))
    then = [*exact, "current_plan=now.json", "accelerators.h200-sxm.price=4 USD/h"]

    def planned(*settings):
        return plan_scenario(load_scenario(question, [*then, *settings]), effort=SHORT)

    few = planned("limits.moves=2")
    assert kinds(few) == {"h100-sxm": 1, "h200-sxm": 2}
    assert sum(change.moves for change in few.changes) == 2
    (limit,) = (one for one in few.limits if one.name == "moves")
    assert (limit.used, limit.limit) == (2, 2)
    (said,) = (d for d in few.decisions if d.question.startswith("how many replicas are started"))
    assert said.numbers["moves_if_free"] > 2  # by coarse measurements, of two or three swaps
    assert said.numbers["usd_per_hour_if_free"] < few.totals.cost_usd_per_hour
    (which,) = (d for d in few.decisions if d.question == "which accelerator")
    assert "h100-sxm alone serves it in no number within limits.moves" in which.because

    paid = planned("move_cost={price: 200 USD, over: 720 h}")  # 1.67 USD/h to save 3
    assert kinds(paid) == {"h100-sxm": 3}
    (line,) = (x for x in paid.bill if "started or stopped" in x.item)
    assert line.usd_per_hour == pytest.approx(6 * 200 / 720)
    assert paid.totals.cost_usd_per_hour == pytest.approx(sum(x.usd_per_hour for x in paid.bill))
    assert paid.totals.cost_usd_per_hour == pytest.approx(9 + 6 * 200 / 720)
    stays = planned("move_cost={price: 400 USD, over: 720 h}")  # 3.33 USD/h to save 3
    assert kinds(stays) == {"h200-sxm": 3}
    assert stays.changes == ()


def test_too_few_moves_are_told_with_how_many_more_do(question, tmp_path):
    """One replica runs; the load takes three. One is stopped where its kind is offered no more."""
    runs = hand_made_pool(id="h100-sxm.tp1.bf16.b2048.s256@chat", replicas=1)
    (tmp_path / "one.json").write_text(dump_json(hand_made_plan(pools=[runs])))

    def planned(*settings):
        changes = ["current_plan=one.json", *settings]
        return plan_scenario(load_scenario(question, changes), effort=SHORT)

    short = planned("limits.moves=1")
    assert short.status == "infeasible"
    (reason,) = short.infeasibility
    assert (reason.limit, reason.remedy) == ("limits.moves", "limits.moves of 2, 1 more, alone")
    enough = planned("limits.moves=2", "accelerators.h200-sxm.stock=1")
    assert enough.evidence.verified
    assert kinds(enough)["h100-sxm"] >= 1
    (which,) = (d for d in enough.decisions if d.question == "which accelerator")
    assert "h200-sxm alone serves it in no number" in which.because
    assert "limits.moves" not in which.because  # nor would it if all might move: its stock is one
    other = "accelerators=[{id: h200-sxm, price: 3.01 USD/h}]"
    (reason,) = planned("limits.moves=3", other).infeasibility
    assert reason.needs == "4 units started or stopped"
    asked = load_scenario(question, ["current_plan=one.json", "limits.moves=1"])
    (lever,) = (one for one in levers_of(asked.scenario) if one.path == "limits.moves")
    assert lever.setting(2) == "limits.moves=2"


def test_moves_are_counted_from_a_fleet_only(question, tmp_path, capsys):
    (tmp_path / "none.json").write_text(dump_json(hand_made_plan(status="infeasible", pools=[])))
    asked = ["--from", str(tmp_path / "none.json"), "--set", "limits.moves=1"]
    assert main(["plan", str(question), *asked]) == 2
    assert "has no fleet from which moves could be counted" in capsys.readouterr().err
    hourly = "traffic={adapt: hourly, profiles: [{weekday: [1" + ", 1" * 23 + "]}]}"
    (tmp_path / "some.json").write_text(dump_json(hand_made_plan()))
    asked = ["--from", str(tmp_path / "some.json"), "--set", "limits.moves=1", "--set", hourly]
    assert main(["plan", str(question), *asked]) == 2
    assert "starts and stops replicas every hour" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"replicas": 10**30}, "pools.0.replicas: "),
        ({"replicas": 10**400}, "pools.0.replicas: "),
        ({"groups": -5}, "pools.0.groups: "),
        ({"replicas": 100_001}, "more than 100,000 replicas, beyond which moves are not counted"),
    ],
)
def test_fleets_beyond_all_counting_are_mistakes(question, capsys, changes, words):
    many = question.parent / "many.json"
    plan = json.loads(dump_json(hand_made_plan()))
    plan["pools"][0] |= changes
    many.write_text(json.dumps(plan))
    asked = ["--from", str(many), "--set", "limits.moves=6"]
    assert main(["plan", str(question), *asked]) == 2
    assert words in capsys.readouterr().err


def test_a_pool_that_is_listed_twice_has_the_units_of_both():
    pools = [hand_made_pool(replicas=2), hand_made_pool(replicas=3)]
    assert units_of(hand_made_plan(pools=pools)) == (("chat-h100", 5),)


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
