"""Measured requests against a plan: what was planted comes first, a true plan is not refused."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from planner.attribution.diagnosis import Due, compliant
from planner.cli import main
from planner.explanation.confirm import Confirmation, confirm
from planner.fleet import FleetPlan
from planner.measurements.measurement import Records
from planner.measurements.staged import StagedRun, read_staged
from planner.planning import plan_scenario
from planner.planning.replay import fleet_in
from planner.planning.study import study_of
from planner.planning.tracing import trace_pool
from planner.reporting.otlp import otlp_document
from planner.scenario.load import load_scenario
from planner.spec import dump_json

if TYPE_CHECKING:
    from planner.attribution.traced import TracedRun

pytestmark = pytest.mark.minutes_in_plain

SCENARIO = """\
format_version: "1.0"
name: chat
workloads:
  - id: chat
    model: llama-3.1-8b
    arrivals: {poisson: 12 req/s}
    lengths: {prompt: {lognormal: {mean: 800 tokens, cv: 0.8}},
              output: {lognormal: {mean: 200 tokens, cv: 0.8}}}
    slo: {ttft: 1 s, tpot: 40 ms, attainment: 0.95}
accelerators:
  - {id: h100-sxm, price: 3 USD/h}
policies: {tp_degrees: [1], max_num_batched_tokens: [2048], max_num_seqs: [256]}
"""
REQUESTS = 6_000


@cache
def planned() -> FleetPlan:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.yaml"
        path.write_text(SCENARIO, encoding="utf-8")
        return plan_scenario(load_scenario(path, ()))


def served(
    *,
    seed: int,
    rate: float = 1.0,
    output: float = 1.0,
    slow: float = 1.0,
    requests: int = REQUESTS,
) -> list[TracedRun]:
    """Requests at the plan's fleet, where one thing is otherwise than planned."""
    plan = planned().model_dump(mode="json")
    workload = plan["scenario"]["document"]["workloads"][0]
    workload["lengths"]["output"]["lognormal"]["mean"] = f"{200 * output} tokens"
    problem, fleet = fleet_in(FleetPlan.model_validate(plan), seed, Path())
    runs = []
    for pool, choice in zip(
        fleet.for_simulation(problem.policies.router), fleet.pools, strict=True
    ):
        law = pool.setup.law
        slower = law._replace(
            tokens_ps=np.rint(law.tokens_ps * slow).astype(np.int64),
            square_ps_2p15=round(law.square_ps_2p15 * slow),
            context_ps=round(law.context_ps * slow),
            sequence_ps=round(law.sequence_ps * slow),
            chunk_context_ps=round(law.chunk_context_ps * slow),
        )
        other = replace(
            pool,
            setup=replace(pool.setup, law=slower),
            load_rps=tuple(load * rate for load in pool.load_rps),
        )
        runs.append(trace_pool(problem, study_of(problem), other, choice, requests))
    return runs


def as_measured(run: TracedRun) -> StagedRun:
    """What a client would have noted of these requests."""
    ttft, whole = run.ttft * run.tick_s, (run.records.finish - run.traffic.arrival) * run.tick_s
    unknown = np.full(ttft.size, np.nan)
    start = (run.traffic.arrival - run.traffic.arrival[0]) * run.tick_s
    prompt, output = (np.asarray(n, float) for n in (run.traffic.prompt, run.traffic.output))
    tpot = (whole - ttft) / np.maximum(output - 1, 1)
    columns = (start, prompt, output, ttft, tpot, whole, *(4 * [unknown]))
    return StagedRun(run.name, run.name, "spans", Records(run.finished, *columns))


def spans_of(folder: Path, runs: list[TracedRun]) -> Path:
    path = folder / "spans.json"
    told = [(run, run.pick(20_000, only_missed=False)) for run in runs]
    path.write_text(json.dumps(otlp_document(told)), encoding="utf-8")
    return path


def confirmed(runs: list[TracedRun]) -> Confirmation:
    (found,) = confirm(planned(), [as_measured(run) for run in runs], None, Path())
    return found


def first(runs: list[TracedRun]) -> tuple[str | None, float]:
    found = confirmed(runs)
    differing = [d for d in found.differences if d.differs]
    return (differing[0].of, differing[0].ratio.value) if differing else (None, 1.0)


@pytest.mark.parametrize(
    ("planted", "named", "ratio"),
    [
        ({"rate": 1.25}, "rate", 1.25),
        ({"output": 1.5}, "output tokens", 1.5),
        ({"slow": 1.2}, "time per token", 1.2),
    ],
)
def test_a_planted_difference_comes_first(planted, named, ratio):
    """Steps that are a fifth longer make batches larger too, so that tokens slow by more."""
    of, found = first(served(seed=5, **planted))
    assert of == named
    if named == "time per token":
        assert ratio <= found <= 1.5 * ratio
    else:
        assert found == pytest.approx(ratio, rel=0.08)


def test_a_true_plan_differs_in_nothing_and_is_not_called_broken():
    for seed in (1, 2, 3):
        found = confirmed(served(seed=seed))
        assert found.verdict != "broken"
        assert not any(d.differs for d in found.differences)


def records(n: int, ttft_s: float) -> Records:
    one, unknown = np.ones(n), np.full(n, np.nan)
    return Records(
        np.ones(n, bool), np.arange(n) / 12, one * 800, one * 200, one * ttft_s, one * 0.01,
        one * 3, unknown, unknown, unknown, unknown,
    )  # fmt: skip


def test_a_broken_promise_ends_with_exit_code_5_and_joint_attainment_is_a_direct_count(
    tmp_path, capsys
):
    plan = tmp_path / "plan.json"
    plan.write_text(dump_json(planned()), encoding="utf-8")
    spans = spans_of(tmp_path, served(seed=7, slow=2.5, requests=1_500))
    assert main(["confirm", str(plan), str(spans), "--json"]) == 5
    (told,) = json.loads(capsys.readouterr().out)["runs"]
    runs = read_staged(spans)
    joint = np.concatenate([compliant(run, Due(1.0, 0.04))[0] for run in runs])
    assert told["attainment"] == pytest.approx(joint.mean())
    assert told["verdict"] == "broken"


def test_few_requests_do_not_decide():
    run = StagedRun("few", "", "", records(50, 0.2))
    (found,) = confirm(planned(), [run], "chat", Path())
    assert found.verdict == "undecided"
    assert (found.low, found.high) == (None, None)
    assert found.requests_needed == 1000


def test_a_workload_must_be_of_the_plan(tmp_path, capsys):
    plan = tmp_path / "plan.json"
    plan.write_text(dump_json(planned()), encoding="utf-8")
    spans = spans_of(tmp_path, served(seed=7, requests=50))
    assert main(["confirm", str(plan), str(spans), "--workload", "chatt"]) == 2
    assert "chat" in capsys.readouterr().err


def test_runs_of_a_benchmark_are_judged_one_by_one():
    """Without a miss, three bouts of a hundred may have gone unseen: 2.5 % of 12,000."""
    runs = [StagedRun(f"at {r}", f"pool {r}", "rows", records(12_000, 0.2)) for r in (1, 2)]
    found = confirm(planned(), runs, None, Path())
    assert [one.verdict for one in found] == ["kept", "kept"]


HEAD = (
    "config,model,hardware,vllm,input_toks,output_toks,arrival_s,queue_s,prefill_s,decode_s,ttft_s,"
)


@pytest.mark.parametrize(
    ("at", "tokens", "ttft_s", "code"),
    [
        (lambda i: i * 0.1, 10**9, 0.2, 0),  # longer than any memory, and than 32 bits
        (lambda i: i * 1e-9, 200, 0.2, 0),  # a billion requests a second
        (lambda i: i * 86_400.0, 200, 0.2, 0),  # one a day
        (lambda _: 1.0, 200, 0.2, 0),  # all at once
        (lambda i: 200 - i * 0.1, 200, 0.2, 0),  # the last first
        (lambda i: i * 0.1, 200, 1e9, 5),  # none in time
        (lambda i: i * 0.1, 200, None, 5),  # all failed
    ],
)
def test_extreme_measurements_are_judged_or_left_out(at, tokens, ttft_s, code, tmp_path):
    """What the fleet could not show is missing, and never a number that nobody could believe."""
    known = (0.0, ttft_s, 3.0, ttft_s, (ttft_s or 0) + 3.0) if ttft_s else ("",) * 5
    rows = (
        ",".join(map(str, ("a", "m", "H100", "0.19.0", tokens, tokens, at(i), *known)))
        for i in range(1_000)
    )
    plan, path = tmp_path / "plan.json", tmp_path / "rows.csv"
    plan.write_text(dump_json(planned()), encoding="utf-8")
    path.write_text("\n".join([HEAD + "e2e_s", *rows]) + "\n", encoding="utf-8")
    assert main(["confirm", str(plan), str(path)]) == code
    (found,) = confirm(planned(), read_staged(path), None, Path())
    for one in found.differences:
        assert np.isfinite([one.planned, one.measured, one.ratio.low, one.ratio.high]).all()
    assert ("time per token" in found.missing) == (
        tokens > 200 or ttft_s is None or at(0) == at(999)
    )
    assert found.attainment == (1.0 if ttft_s == 0.2 else 0.0)
