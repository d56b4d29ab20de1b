"""A plan on nodes: placed by promise, drawn, and moved as little as may be."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from planner.cli import main
from planner.data import shipped
from planner.fleet import read_plan
from planner.placement import Placed, Wanted, broken_promises

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = shipped("scenarios") / "two-zones.yaml"


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    assert main(["plan", str(SCENARIO), "-o", str(path)]) == 0
    return path


def rows(plan) -> list[Placed]:
    numbers = {d.node_name(n): n for d in plan.topology.domains for n in range(d.nodes)}
    return [
        Placed(r.pool, r.replica, r.domain, numbers[r.node], r.devices, r.unit)
        for r in plan.placement
    ]


def test_every_replica_of_the_plan_has_devices_of_its_own(plan_file: Path) -> None:
    plan = read_plan(plan_file)
    wanted = [Wanted(p.id, p.accelerator, p.tp_degree, p.replicas) for p in plan.pools]
    assert broken_promises(plan.topology, wanted, rows(plan)) == ()
    assert plan.totals.nodes == len({r.node for r in plan.placement})
    assert [w.network_s for w in plan.workloads] == [0.025, 0.0]
    assert any("PCIe is assumed" in note for note in plan.evidence.notes)
    assert any("25 ms of every TTFT" in note for note in plan.evidence.notes)


def test_a_placement_is_drawn(
    plan_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert main(["explain", str(plan_file), "--draw", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    plan = json.loads(plan_file.read_text(encoding="utf-8"))
    assert text.count("replica ") >= len(plan["placement"])
    assert "Zone eu/eu-a" in text
    capsys.readouterr()
    assert main(["explain", str(plan_file), "--draw", str(tmp_path / "page.png")]) == 2
    assert "a page ends in .html" in capsys.readouterr().err
    del plan["topology"]
    plan["placement"] = []
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps(plan), encoding="utf-8")
    assert main(["explain", str(bare), "--draw", str(page)]) == 2
    assert "the plan has no placement" in capsys.readouterr().err


def test_what_runs_stays_where_it_is(
    plan_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = tmp_path / "again.json"
    smaller = ["--set", "topology.nodes.0.racks=1"]
    assert main(["plan", str(SCENARIO), *smaller, "-o", str(again)]) == 0
    moved = tmp_path / "moved.json"
    assert main(["plan", str(SCENARIO), "--from", str(again), "-o", str(moved)]) == 0
    capsys.readouterr()
    assert set(rows(read_plan(again))) == set(rows(read_plan(moved)))
    decision = next(d for d in read_plan(moved).decisions if d.question == "what has to move?")
    assert decision.numbers == {"moved": 0.0}
    assert set(rows(read_plan(again))) != set(rows(read_plan(plan_file)))


@pytest.mark.parametrize(
    ("part", "changes", "told"),
    [
        ("placement", {"pool": "é"}, "placement.0.pool: no pool is called 'é'"),
        ("placement", {"domain": "x"}, "placement.0.domain: no domain is called 'x'"),
        ("placement", {"node": "eu.n9999999999"}, "placement.0.node: "),
        ("placement", {"devices": [8]}, "placement.0.devices: "),
        ("placement", {"devices": [-1]}, "placement.0.devices: "),
    ],
)
def test_a_placement_on_what_is_not_there_is_no_plan(
    part: str,
    changes: dict[str, object],
    told: str,
    plan_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = json.loads(plan_file.read_text(encoding="utf-8"))
    plan[part][0].update(changes)
    broken = tmp_path / "plan.json"
    broken.write_text(json.dumps(plan), encoding="utf-8")
    assert main(["explain", str(broken), "--draw", str(tmp_path / "page.html")]) == 2
    place, _, what = capsys.readouterr().err.partition(": ")
    assert place.startswith(f"{broken}:1:")  # the document is one line
    assert what.startswith(told)


def test_a_topology_of_a_plan_is_bounded_and_unambiguous(
    plan_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = plan_file.read_text(encoding="utf-8")
    broken = tmp_path / "plan.json"
    page = ["explain", str(broken), "--draw", str(tmp_path / "page.html")]
    plan = json.loads(text)
    plan["topology"]["domains"][0]["groups"][0]["nodes"] = 10**9
    broken.write_text(json.dumps(plan), encoding="utf-8")
    assert main(page) == 2
    assert "topology.domains.0.groups.0.nodes" in capsys.readouterr().err
    plan = json.loads(text)
    plan["topology"]["domains"].append(plan["topology"]["domains"][0])
    broken.write_text(json.dumps(plan), encoding="utf-8")
    assert main(page) == 2
    assert "topology.domains: two domains have the same id" in capsys.readouterr().err
    plan["topology"] = None
    broken.write_text(json.dumps(plan), encoding="utf-8")
    assert main(page) == 2
    assert "placement: names devices, but the plan has no topology" in capsys.readouterr().err
