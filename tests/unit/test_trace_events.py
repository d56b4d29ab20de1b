"""Traces are what the trace-event format and OTLP say; spans nest and sum to the time there is."""

from __future__ import annotations

import json
from collections import defaultdict
from decimal import Decimal

import numpy as np
import pytest

from planner.attribution.traced import TracedRun, no_deadline
from planner.cli import main
from planner.kernels.engine import FATES, simulate_fleet
from planner.kernels.stepwise import Colocated
from planner.measurements.read import read_measurements
from planner.problem.demand import read_trace
from planner.reporting.otlp import otlp_document
from planner.reporting.trace_events import trace_document
from tests.fleets import Case, random_case

STAGES = {"queue", "prefill", "kv_transfer", "handoff", "decode", "preempted"}
NAMES_OF_M = {"process_name", "process_sort_index", "process_labels", "thread_name"}


def run_of(case: Case, first_by: int = 2**62) -> TracedRun:
    records = simulate_fleet(*case, stages=True, keep_steps=True)
    n = case.traffic.arrival.size
    return TracedRun(
        "pool",
        1e-6,
        case.traffic,
        case.setup,
        records,
        ("a", "b"),
        (np.arange(n) % 2).astype(np.int32),
        ("m", "m"),
        np.full(n, first_by),
        no_deadline(n),
        no_deadline(n),
        no_deadline(n),
        np.arange(n),
    )


def check_format(document: dict) -> None:
    """The JSON object form of the trace-event format, as its public description has it."""
    assert isinstance(document["traceEvents"], list)
    assert document["displayTimeUnit"] in ("ms", "ns")
    for event in document["traceEvents"]:
        assert event["ph"] in set("BEXiIbneCMsft")
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert isinstance(event["ts"], int | float)
        assert event["ts"] >= 0
        if event["ph"] in "bne":
            assert isinstance(event["cat"], str)
            (scope,) = event["id2"]
            assert scope in ("local", "global")
            assert isinstance(event["id2"][scope], str)
        elif event["ph"] == "X":
            assert event["dur"] >= 0
        elif event["ph"] == "C":
            assert event["args"]
            assert all(isinstance(v, int | float) for v in event["args"].values())
        elif event["ph"] == "M":
            assert event["name"] in NAMES_OF_M
            assert len(event["args"]) == 1


def spans_of(document: dict) -> dict[tuple[int, str], list[tuple[int, str, Decimal, Decimal]]]:
    """Match begins and ends as a stack per process and id: (depth, name, start, end)."""
    stacks, found = defaultdict(list), defaultdict(list)
    for event in document["traceEvents"]:
        key = event["pid"], event.get("id2", {}).get("local")
        if event["ph"] == "b":
            stacks[key].append((event["name"], Decimal(str(event["ts"]))))
        elif event["ph"] == "e":
            name, start = stacks[key].pop()
            assert name == event["name"]
            found[key].append((len(stacks[key]), name, start, Decimal(str(event["ts"]))))
    assert not any(stacks.values())
    return found


@pytest.mark.parametrize("seed", range(91_000, 91_040))
def test_a_trace_is_well_formed_and_its_spans_nest_and_sum(seed):
    run = run_of(random_case(seed))
    document = json.loads(json.dumps(trace_document([(run, list(map(int, run.counted)))])))
    check_format(document)
    by_request = defaultdict(list)
    for (_, local), spans in spans_of(document).items():
        by_request[int(local, 16)] += spans
    done = np.flatnonzero(run.records.fate == FATES.index("finished"))
    assert sorted(by_request) == done.tolist()
    for rank, spans in by_request.items():
        (whole,) = [span for span in spans if span[1].endswith(f" {rank}")]
        stages = [span for span in spans if span[1] in STAGES]
        assert whole[3] - whole[2] == int(run.records.finish[rank] - run.traffic.arrival[rank])
        assert sum(end - start for _, _, start, end in stages) == whole[3] - whole[2]
        for _, _, start, end in spans:
            assert whole[2] <= start <= end <= whole[3]
        gaps = [span for span in spans if span[1] == "gap"]
        for _, _, start, end in gaps:
            assert any(a <= start and end <= b for _, n, a, b in stages if n == "decode")


def test_processes_are_replicas_and_counters_count():
    """By hand: two requests at once on one seat; the second waits while the first runs."""
    from planner.kernels.engine import Traffic
    from planner.kernels.stepwise import EngineOptions, affine

    two = np.array([0, 0]), np.array([4, 3], np.int32), np.array([2, 1], np.int32)
    setup = Colocated(EngineOptions(1, 100, block_size=2), affine(10, 1), 1)
    run = run_of(Case(Traffic(*two), setup), first_by=20)
    document = trace_document([(run, [0, 1])])
    check_format(document)
    events = document["traceEvents"]
    names = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert names == ["pool replica 0"]
    counts = defaultdict(list)
    for event in events:
        if event["ph"] == "C":
            counts[event["name"]].append((event["ts"], *event["args"].values()))
    # prefill of 4 ends at 14, its one decode at 25, then the other's prefill ends at 38
    assert counts["running"] == [(14.0, 1), (25.0, 0), (38.0, 0)]
    assert counts["waiting"] == [(14.0, 1), (25.0, 1), (38.0, 0)]
    assert counts["KV tokens"] == [(14.0, 4), (25.0, 0), (38.0, 0)]
    marks = [e["name"] for e in events if e["ph"] == "n"]
    assert marks == ["TTFT deadline kept", "TTFT deadline missed"]
    assert run.pick(5, only_missed=True) == [1]
    assert run.pick(1, only_missed=False) == [0]


def test_the_link_of_a_group_is_counted():
    from planner.kernels.engine import Traffic
    from planner.kernels.stepwise import Disaggregated, EngineOptions, LinkOptions, affine

    engine, law = EngineOptions(8, 100, block_size=2), affine(10, 1)
    two = np.array([0, 0]), np.array([4, 4], np.int32), np.array([3, 1], np.int32)
    setup = Disaggregated(engine, law, engine, law, LinkOptions(2, 3), hop=1)
    run = run_of(Case(Traffic(*two), setup))
    events = trace_document([(run, [0, 1])])["traceEvents"]
    link = [(e["ts"], *e["args"].values()) for e in events if e["name"] == "transfers on the link"]
    # the first reads 19..30; the link is free for the second at 27, which reads till 38
    assert link == [(19.0, 1), (27.0, 2), (30.0, 1), (38.0, 0)]
    transfers = [e for e in events if e["name"] == "kv_transfer"]
    assert [(e["ph"], e["ts"]) for e in transfers] == [("b", 19), ("e", 30), ("b", 19), ("e", 38)]
    assert {e["pid"] for e in transfers} == {2}


@pytest.mark.parametrize("seed", range(92_000, 92_012))
def test_spans_of_a_simulation_are_read_back(tmp_path, seed):
    """Times in nanoseconds, so to a billionth; what did not finish counts as failed."""
    run = run_of(random_case(seed))
    path = tmp_path / "spans.json"
    path.write_text(json.dumps(otlp_document([(run, list(map(int, run.counted)))])))
    trace = read_trace(path)
    order = np.argsort(run.traffic.arrival, kind="stable")
    assert trace.prompt.tolist() == run.traffic.prompt[order].tolist()
    assert trace.failed.tolist() == (~run.finished[order]).tolist()
    if not run.finished.any():
        return
    (measured,) = read_measurements(path)
    records = measured.records
    done = np.flatnonzero(run.finished)
    rest = (run.records.finish - run.records.first_token)[done] * 1e-6
    assert (~records.completed).sum() == (~run.finished).sum()
    ttft, tpot = records.ttft_s[records.completed], records.tpot_s[records.completed]
    assert sorted(ttft) == pytest.approx(sorted(run.ttft[done] * 1e-6), abs=1e-9)
    steps = np.maximum(run.records.tokens[done] - 1, 1)
    assert sorted(tpot) == pytest.approx(sorted(rest / steps), abs=1e-9)


def test_the_command_writes_both_and_refuses_what_goes_nowhere(tmp_path, capsys):
    case = {
        "name": "two",
        "topology": "single",
        "unit": "us",
        "law": {"a": 10, "b": 1},
        "engine": {"max_num_seqs": 4, "max_num_batched_tokens": 64},
        "requests": [
            {"id": 1, "arrival": 0, "prompt": 4, "output": 3, "deadline": 5},
            {"id": 2, "arrival": 1, "prompt": 4, "output": 3},
        ],
    }
    path, trace, spans = (tmp_path / name for name in ("case.json", "trace.json", "spans.json"))
    path.write_text(json.dumps(case))
    words = ["simulate", "--engine-case", str(path), "--trace-out", str(trace), "--only-missed"]
    code = main([*words, "--otlp-out", str(spans)])
    assert code == 0, capsys.readouterr().err
    check_format(json.loads(trace.read_text()))
    assert len(json.loads(spans.read_text())["resourceSpans"][0]["scopeSpans"][0]["spans"]) == 3
    assert main(["simulate", "--engine-case", str(path), "--only-missed"]) == 2
    assert main(["simulate", "--engine-case", str(path), "--trace-out", "x.html"]) == 2
    assert "let the name end in .json" in capsys.readouterr().err
