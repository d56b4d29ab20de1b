"""Remembered runs: the same as simulated ones, to the bit, in a study and in a plan."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import numpy as np
import pytest
from typer.testing import CliRunner

from planner.cli.app import app
from planner.kernels import plain
from planner.kernels import pool as kernel_pool
from planner.planning.answer import plan_scenario
from planner.scenario.load import load_scenario
from planner.simulation import points
from planner.simulation.capacity import margin_at, pool_capacity
from planner.simulation.effort import PLAIN_EFFORT, Effort, RunSize
from planner.simulation.fleet import FleetPool, sample_fleet
from planner.simulation.group import GroupShares
from planner.simulation.point_folder import points_kept_in
from planner.simulation.point_store import PointStore
from planner.simulation.points import measured, read_run, write_run
from planner.simulation.pool import run_pool
from planner.spec import dump_json
from tests.problems import affine_law, setup, spread, study

POOL = setup(affine_law(5, 20, 512), 16, replicas=2)
QUESTION = study(spread(200, 20, 1.0), ttft_ms=(200,), tpot_ms=(20,), promise=(0.9,))
RATE = 60.0


def draw(n=2_000):
    return QUESTION.draws.named((1.0,), n, 0, 0)


def same(one, other):
    for field in fields(one):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(mine, np.ndarray):
            assert mine.dtype == theirs.dtype
            assert np.array_equal(mine, theirs)
        else:
            assert mine == theirs
    return True


@pytest.fixture
def run():
    return run_pool(POOL, draw().drawn(), RATE, QUESTION.deadlines)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"response_s": np.array([0.1, 1 / 3])},
        {"group": GroupShares(0.1, 1 / 3, 2 / 7, (5.0, 1 / 9)), "backlog_growth": float("inf")},
    ],
)
def test_a_run_is_read_as_it_was_written(run, more):
    one = replace(run, **more)
    assert same(read_run(write_run(one)), one)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"nonsense", b'{"offered": 1}', b"\xff"])
def test_what_is_no_run_is_none(text):
    assert read_run(text) is None


def test_latencies_are_not_for_keeping(run):
    kept = run_pool(POOL, draw().drawn(), RATE, QUESTION.deadlines, keep=True)
    with pytest.raises(ValueError, match="latencies are not kept"):
        write_run(kept)


def test_a_remembered_run_is_not_simulated_and_not_drawn(tmp_path, run, monkeypatch):
    with PointStore(tmp_path) as store:
        assert same(measured(store, POOL, draw(), RATE, QUESTION.deadlines), run)
    monkeypatch.setattr(points, "run_pool", None)
    monkeypatch.setattr("planner.simulation.draw.Draws.get", None)
    with PointStore(tmp_path) as store:
        assert same(measured(store, POOL, draw(), RATE, QUESTION.deadlines), run)
        assert (store.found, store.asked) == (1, 1)


def test_a_harmed_run_is_simulated_again(tmp_path, run):
    with PointStore(tmp_path) as store:
        measured(store, POOL, draw(), RATE, QUESTION.deadlines)
        (key,) = store._fresh
        store.keep(key, b"{}")
        assert same(measured(store, POOL, draw(), RATE, QUESTION.deadlines), run)
        assert store._fresh[key] == write_run(run)


def test_both_kernels_share_their_runs(tmp_path, run, monkeypatch):
    with PointStore(tmp_path) as store:
        measured(store, POOL, draw(), RATE, QUESTION.deadlines)
        monkeypatch.setattr(kernel_pool.compiled, "COMPILED", False)
        monkeypatch.setattr(kernel_pool.compiled, "run", plain.run)
        assert same(measured(store, POOL, draw(), RATE, QUESTION.deadlines), run)
        assert store.found == 1


def test_searches_and_fleets_read_what_they_measured(tmp_path):
    def answers(asked):
        margin = margin_at(asked, POOL, draw(), RATE)
        found = pool_capacity(asked, POOL, (1.0,), RATE, PLAIN_EFFORT)
        fleet = sample_fleet(asked, [FleetPool(POOL, (RATE,))], RunSize(2_000, 3, 500), stream=1)
        return margin, found, fleet.intervals(), asked.meter.requests

    def counting(store):
        return replace(QUESTION, points=store, meter=type(QUESTION.meter)())

    without = answers(counting(None))
    with PointStore(tmp_path) as store:
        assert answers(counting(store)) == without
        simulated = store.asked - store.found
    with PointStore(tmp_path) as store:
        assert answers(counting(store)) == without
        assert store.found == store.asked >= simulated


SCENARIO = """
format_version: "1.0"
name: cached
workloads:
  - id: chat
    model: llama-3.1-8b
    arrivals: {poisson: 6 req/s}
    lengths: {prompt: {fixed: 400 tokens}, output: {fixed: 100 tokens}}
    slo: {ttft: 1 s, tpot: 50 ms, attainment: 90 %}
accelerators:
  - {id: h100-sxm, price: 2.99 USD/h}
policies: {tp_degrees: [1], max_num_batched_tokens: [2048], max_num_seqs: [64]}
"""


FEW = RunSize(1_000, 2, 200)
LITTLE = Effort(1_000, FEW, FEW, 1_000, 1_000, 4)


def test_plans_with_and_without_a_store_are_the_same_bytes(tmp_path):
    scenario, cache = tmp_path / "s.yaml", tmp_path / "cache"
    scenario.write_text(SCENARIO)
    texts, stores = [], []
    for folder in (None, cache, cache):
        with points_kept_in(folder) as store:
            texts.append(dump_json(plan_scenario(load_scenario(scenario, ()), effort=LITTLE)))
            stores.append(store)
    assert texts[0] == texts[1] == texts[2]
    assert json.loads(texts[0])["pools"]
    assert stores[2].found == stores[2].asked > 0


def capacity(scenario, *words):
    words = ["capacity", scenario, "--precision", "20%", "--json", *words]
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert found.exit_code == 0, found.output
    return found


def test_the_command_keeps_what_it_measured_where_it_is_told(tmp_path):
    scenario, cache = tmp_path / "s.yaml", tmp_path / "cache"
    scenario.write_text(SCENARIO)
    first = capacity(scenario, "--cache-dir", cache)
    assert list(cache.glob("points-*.sqlite3"))
    assert capacity(scenario, "--cache-dir", cache).stdout == first.stdout
    (tmp_path / "file").write_text("")
    for unusable in (tmp_path / "file" / "cache", tmp_path / ("long" * 100)):
        harmless = capacity(scenario, "--cache-dir", unusable)
        assert harmless.stdout == first.stdout
        assert harmless.stderr.count("\n") == 1
        assert "measured points are not kept" in harmless.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--no-cache", "--cache-dir", "x"], "--no-cache: contradicts --cache-dir"),
        (["--cache-dir", "{file}"], "is a file; name a folder"),
    ],
)
def test_cache_options_that_make_no_sense_are_refused(tmp_path, words, why):
    scenario = tmp_path / "s.yaml"
    scenario.write_text(SCENARIO)
    words = [word.format(file=scenario) for word in words]
    found = CliRunner().invoke(app, ["plan", str(scenario), *words])
    assert found.exit_code == 2
    assert why in found.stderr
