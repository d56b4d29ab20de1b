"""Two plans side by side: what differs is told once, and what is equal is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner.cli.app import run
from planner.spec import dump_json
from tests.plans import SCENARIO, infeasible, plan, pool


def fleet(replicas: int, usd_each: float = 3.0, **changes: Any) -> Any:
    """Return a plan of so many replicas of two accelerators."""
    usd = 2 * replicas * usd_each
    base = plan()
    assert base.totals is not None
    return plan(
        pools=[pool(replicas=replicas)],
        totals={
            **base.totals.model_dump(),
            "cost_usd_per_hour": usd,
            "usd_per_thousand_compliant": usd / 69.84,
            "accelerators": 2 * replicas,
        },
        supply=[{**base.supply[0].model_dump(), "count": 2 * replicas, "usd_per_hour": usd}],
        bill=[{"item": "h100-sxm, on demand", "usd_per_hour": usd}],
        **changes,
    )


def test_one_replica_more():
    found = planner.diff(fleet(2), fleet(3))
    assert [(m.pool, m.old_replicas, m.new_replicas, m.fields) for m in found.pools] == [
        ("chat-h100", 2, 3, {})
    ]
    (line,) = found.bill
    assert (line.old_count, line.new_count) == (4, 6)
    assert line.new_usd_per_hour - line.old_usd_per_hour == pytest.approx(6.0)
    assert found.question == ()
    assert not found.same


def test_a_plan_does_not_differ_from_itself():
    found = planner.diff(fleet(2), fleet(2))
    assert found.same
    assert (found.bill, found.pools, found.promises, found.question) == ((), (), (), ())


@given(st.integers(1, 9), st.integers(1, 9), st.floats(0.1, 9), st.floats(0.1, 9))
def test_lines_sum_to_the_difference_of_the_bills(a, b, usd_a, usd_b):
    old, new = fleet(a, usd_a), fleet(b, usd_b)
    found = planner.diff(old, new)
    lines = sum(line.new_usd_per_hour - line.old_usd_per_hour for line in found.bill)
    apart = new.totals.cost_usd_per_hour - old.totals.cost_usd_per_hour
    assert lines == pytest.approx(apart, abs=1e-9)


def test_what_is_not_rented_by_the_accelerator_is_a_line_of_its_own():
    dear = fleet(2)
    new = dear.model_copy(
        update={"totals": dear.totals.model_copy(update={"cost_usd_per_hour": 13.5})}
    )
    (line,) = planner.diff(dear, new).bill
    assert line.item == "everything else"
    assert line.new_usd_per_hour == pytest.approx(1.5)


def test_settings_of_a_pool_that_stays():
    new = plan(pools=[pool(max_num_seqs=64, router="round_robin")])
    (moved,) = planner.diff(plan(), new).pools
    assert moved.fields == {
        "max_num_seqs": ("256", "64"),
        "router": ("least_outstanding", "round_robin"),
    }


def test_a_pool_that_goes_and_one_that_comes():
    found = planner.diff(plan(), plan(pools=[pool(id="chat-h200", accelerator="h200-sxm")]))
    assert [(m.pool, m.old_replicas, m.new_replicas) for m in found.pools] == [
        ("chat-h100", 2, 0),
        ("chat-h200", 0, 2),
    ]


def test_questions_by_path():
    """Parts of lists go by their ids; a part that is new has no old value."""
    asked = json.loads(json.dumps(SCENARIO))
    asked["workloads"][0]["slo"]["ttft"] = "1 s"
    asked["accelerators"] = [
        {"id": "l40s", "price": "1.0 USD/h"},
        {"id": "h100-sxm", "price": "3.0 USD/h"},
        {"id": "b200-sxm", "price": "5.0 USD/h"},
    ]
    new = plan(scenario={"document": asked, "origins": {}})
    assert [(q.path, q.old, q.new) for q in planner.diff(plan(), new).question] == [
        ("workloads.chat.slo.ttft", "0.5 s", "1 s"),
        ("accelerators.b200-sxm.price", None, "5.0 USD/h"),
    ]


def test_a_plan_without_a_fleet(tmp_path, capsys):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(dump_json(plan()), encoding="utf-8")
    new.write_text(dump_json(infeasible()), encoding="utf-8")
    assert run(["diff", str(old), str(new)]) == 0
    out = capsys.readouterr().out
    assert "new.json is infeasible and holds no fleet." in out
    assert "What stands in the way of new.json" in out
    assert "218 ms for an isolated prefill" in out
    assert run(["diff", str(new), str(new), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["totals"] == []


def test_words_of_a_plan_are_no_markup(tmp_path, capsys):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(dump_json(plan()), encoding="utf-8")
    new.write_text(dump_json(plan(pools=[pool(engine="[red]x[/red]\x1b[2J")])), encoding="utf-8")
    assert run(["diff", str(old), str(new)]) == 0
    out = capsys.readouterr().out
    assert "[red]x[/red]" in out
    assert "\x1b" not in out
