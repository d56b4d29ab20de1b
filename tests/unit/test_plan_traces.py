"""A plan's pools with every step kept are the pools that its promises were simulated on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from planner.cli import main
from planner.errors import InputError
from planner.planning.replay import fleet_in
from planner.planning.study import study_of
from planner.planning.tracing import trace_plan
from planner.simulation.capacity import REPLAYING
from planner.simulation.pool import run_pool
from tests.plans import SCENARIO, infeasible, plan, pool, workload
from tests.unit.test_trace_events import check_format, spans_of

pytestmark = pytest.mark.minutes_in_plain

POOL = "h100-sxm.tp1.bf16.b2048.s64@chat"
BUSY = {
    "document": SCENARIO | {"workloads": [SCENARIO["workloads"][0] | {"lengths": {
        "prompt": {"lognormal": {"mean": 1500.0, "cv": 1.0}},
        "output": {"lognormal": {"mean": 250.0, "cv": 0.8}},
    }}]},
    "origins": {"name": "file"},
}  # fmt: skip


def hand_made(replicas: int = 2):
    return plan(
        scenario=BUSY,
        pools=[
            pool(
                id=POOL,
                tp_degree=1,
                max_num_seqs=64,
                max_num_batched_tokens=2048,
                replicas=replicas,
            )
        ],
        workloads=[workload(routing=[{"pool": POOL, "share": 1.0}])],
    )


@pytest.mark.parametrize("replicas", [2, 3])
def test_a_traced_pool_has_the_very_requests_of_the_simulation(replicas):
    """Another simulator, which knows blocks and steps, gives each request the same times."""
    made = hand_made(replicas)
    (run,) = trace_plan(made, requests=1_500, folder=Path())
    problem, fleet = fleet_in(made, None, Path())
    study = study_of(problem)
    (pool_,) = fleet.for_simulation(problem.policies.router)
    draw = study.draws.get(pool_.load_rps, 1_500, 0, REPLAYING)
    fast = run_pool(pool_.setup, draw, sum(pool_.load_rps), study.deadlines, keep=True)
    assert fast.offered.sum() == run.counted.size
    assert fast.compliant.sum() == run.met[run.counted].sum()
    ttft_s = (run.ttft[run.counted] * 1e-12).tolist()
    assert fast.latencies.ttft_s.tolist() == ttft_s
    assert run.accelerators == replicas
    assert run.usd_per_hour == pytest.approx(3.0 * replicas)


def test_the_same_seed_writes_the_same_bytes_and_only_what_is_asked(tmp_path, capsys):
    path = tmp_path / "plan.json"
    path.write_text(hand_made().model_dump_json())
    written = []
    for name in ("one.json", "two.json"):
        trace = tmp_path / name
        code = main(
            ["simulate", str(path), "--trace-out", str(trace), "--max-requests", "7", "--json"]
        )
        assert code in (0, 5), capsys.readouterr().err
        written.append(trace.read_bytes())
    assert written[0] == written[1]
    document = json.loads(written[0])
    check_format(document)
    assert len({key[1] for key in spans_of(document) if key[1]}) == 7
    marks = [e["name"] for e in document["traceEvents"] if e["ph"] == "n"]
    assert len(marks) == 14


def test_only_misses_are_written_where_only_those_are_wanted():
    (run,) = trace_plan(hand_made(), requests=1_500, folder=Path())
    missed = run.pick(10_000, only_missed=True)
    assert (
        missed == np.flatnonzero(~run.met)[np.isin(np.flatnonzero(~run.met), run.counted)].tolist()
    )
    assert run.pick(3, only_missed=False) == run.counted[:3].tolist()


def test_memory_is_bounded_by_the_tokens_of_a_run(monkeypatch):
    """Outputs of 250 tokens on average: 20,000 of them are about 80 requests."""
    monkeypatch.setattr("planner.planning.tracing.MOST_TOKENS", 20_000)
    (run,) = trace_plan(hand_made(), requests=4_000, folder=Path())
    assert run.traffic.output.sum() < 20_000
    assert 60 < run.traffic.output.size < 110


def test_the_command_diagnoses_a_plan(tmp_path, capsys):
    path = tmp_path / "plan.json"
    path.write_text(hand_made().model_dump_json())
    assert main(["diagnose", str(path), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["pools"]
    assert found["pool"] == POOL
    budget = sum(row["share"] for row in found["misses"])
    assert budget == pytest.approx(found["missed"] / found["requests"])
    assert main(["diagnose", str(path)]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 100
    assert main(["diagnose", str(path), "--ttft", "1 s"]) == 2
    assert "a plan has its own deadlines" in capsys.readouterr().err


def test_a_plan_without_pools_is_refused():
    with pytest.raises(InputError, match="no pools"):
        trace_plan(infeasible(), folder=Path())


def test_a_file_that_is_read_or_written_already_is_not_overwritten(tmp_path, capsys):
    path, link = tmp_path / "plan.json", tmp_path / "link.json"
    text = hand_made().model_dump_json()
    path.write_text(text)
    link.symlink_to(path)
    for trace in (path, link, tmp_path / ".." / tmp_path.name / "plan.json"):
        for option in ("--trace-out", "--otlp-out"):
            assert main(["simulate", str(path), option, str(trace)]) == 2
            assert "name another file" in capsys.readouterr().err
    same = str(tmp_path / "both.json")
    assert main(["simulate", str(path), "--trace-out", same, "--otlp-out", same]) == 2
    assert "name another file" in capsys.readouterr().err
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("{}")
    assert main(["plan", str(scenario), "-o", str(scenario)]) == 2
    capsys.readouterr()
    assert (path.read_text(), scenario.read_text()) == (text, "{}")
