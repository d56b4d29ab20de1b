"""Logs of engines tell why requests waited, and that they tell no single requests."""

from __future__ import annotations

import json

import pytest

from planner.attribution.log_diagnosis import diagnose_log
from planner.cli import main
from planner.measurements.engine_log import is_engine_log, read_engine_log
from tests.shared import SHARED, needs_shared

TIMES = SHARED / "data" / "step-profiles" / "gt_vllm_timeseries_llmservingsim.csv"


def line(running, waiting, kv, engine="000"):
    return (
        f"INFO 06-12 10:00:00 [loggers.py:116] Engine {engine}: Avg prompt throughput: 1234.5"
        f" tokens/s, Avg generation throughput: 56.7 tokens/s, Running: {running} reqs, Waiting:"
        f" {waiting} reqs, GPU KV cache usage: {kv}%, Prefix cache hit rate: 12.3%\n"
    )


def test_lines_of_engines_are_told_apart_and_others_passed_over(tmp_path):
    path = tmp_path / "engine.log"
    path.write_text(
        "INFO starting up\n"
        + line(10, 0, 50.0)
        + line(3, 0, 5.5, "001")
        + "WARNING Sequence group 3 is preempted by PreemptionMode.RECOMPUTE mode\n"
        + line(20, 4, 99.9)
        + line(20, 2, 97.0)
        + line(20, 1, 60.0)
    )
    assert is_engine_log(path)
    first, second = map(diagnose_log, read_engine_log(path))
    assert (first.engine, first.samples, first.preemptions) == ("engine 0", 4, 1)
    assert (first.waiting_share, first.waiting_full_share) == (0.75, 0.5)
    assert first.waiting_seats_share == 0.25
    assert (first.suspect, first.most_waiting) == ("kv_block_wait", 4)
    assert first.prefix_hit_rate == pytest.approx(0.123)
    assert (second.samples, second.suspect) == (1, "nothing waits")
    assert any("single requests" in what for what in first.missing)


def test_waiting_with_room_for_more_is_no_matter_of_memory(tmp_path):
    path = tmp_path / "engine.log"
    path.write_text(line(64, 9, 30.0) * 3)
    (found,) = map(diagnose_log, read_engine_log(path))
    assert (found.suspect, found.waiting_seats_share) == ("queue", 1.0)


@needs_shared
def test_a_real_engine_short_of_memory_is_found():
    """An RTX 4090 with 2,588 blocks, known to have preempted; elsewhere KV was not recorded."""
    found = {one.engine: one for one in map(diagnose_log, read_engine_log(TIMES))}
    short = found["RTX4090/Llama-3.1-8B"]
    assert (short.suspect, short.kv_recorded) == ("kv_block_wait", True)
    others = [one for name, one in found.items() if name != "RTX4090/Llama-3.1-8B"]
    assert others
    assert not any(one.kv_recorded for one in others)
    assert {one.suspect for one in others} <= {"not told", "nothing waits"}


def test_the_command_tells_a_log_and_refuses_deadlines(tmp_path, capsys):
    path = tmp_path / "engine.log"
    path.write_text(line(64, 9, 30.0))
    assert main(["diagnose", str(path)]) == 0
    out = capsys.readouterr().out
    assert "not in the data: times of single requests" in out
    assert max(map(len, out.splitlines())) <= 100
    assert main(["diagnose", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["engines"][0]["suspect"] == "queue"
    assert main(["diagnose", str(path), "--ttft", "1 s"]) == 2
    assert "an engine's log tells none" in capsys.readouterr().err
