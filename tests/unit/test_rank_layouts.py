"""Attention data parallel: ranks that share out requests, wherever they were measured."""

from dataclasses import replace

import numpy as np
import pytest

from planner.candidates.enumerate import enumerate_builds
from planner.candidates.frontier import setup_of
from planner.catalogue import Catalogue
from planner.problem.resolve import resolve
from planner.scenario.load import load_scenario
from planner.simulation.cached_pool import Replicas, serve_with_cache
from planner.simulation.draw import Traffic

CATALOGUE = Catalogue()

SCENARIO = """\
format_version: "1.0"
name: test
workloads:
  - id: chat
    model: deepseek-v3.1
    precisions: [nvfp4]
    arrivals: {poisson: 5 req/s}
    lengths: {prompt: {fixed: 1000}, output: {fixed: 100}}
    slo: {ttft: 2 s, tpot: 100 ms}
accelerators:
  - {id: b200-sxm, price: 5 USD/h}
policies: {max_num_batched_tokens: [2048], max_num_seqs: [64]}
"""
MEASURED = {"tp4", "tp4.ep4", "tp8", "tp8.ep8", "tp1.dp4.ep4", "tp1.dp8.ep8"}


def enumerated(folder, *settings: str):
    path = folder / "s.yaml"
    path.write_text(SCENARIO)
    return enumerate_builds(resolve(load_scenario(path, settings), CATALOGUE), CATALOGUE)


def built(folder, *settings: str):
    builds, _ = enumerated(folder, *settings)
    return {b.hardware.removeprefix("b200-sxm.").removesuffix(".nvfp4"): b for b in builds}


@pytest.mark.parametrize(
    ("choice", "found"),
    [
        ("search", MEASURED),
        ("never", {name for name in MEASURED if "dp" not in name}),
        ("always", {name for name in MEASURED if "dp" in name}),
    ],
)
def test_every_measured_layout_that_is_allowed_is_a_candidate(tmp_path, choice, found):
    assert set(built(tmp_path, f"policies.attention_dp={choice}")) == found


def test_a_replica_of_ranks_costs_all_its_devices(tmp_path):
    ranks = built(tmp_path)["tp1.dp8.ep8"]
    assert (ranks.accelerators, ranks.tp_degree) == (8, 1)
    assert ranks.usd_per_hour == 8 * 5
    _, removed = enumerated(tmp_path, "accelerators.0.stock=4")
    why = {one.name: one.reason for one in removed}
    assert why["b200-sxm.tp1.dp8.ep8.nvfp4"] == "needs 8 accelerators; the stock is 4"


def test_latent_attention_keeps_its_cache_once_by_ranks_and_on_each_device_by_slices(tmp_path):
    """A latent is no smaller on eight devices than on one, so ranks hold eight times as much but
    for the attention weights that each rank keeps whole: a log of eight B200 says 156.9 / 20.43.
    """
    builds = built(tmp_path)
    ranks, slices = builds["tp1.dp8.ep8"], builds["tp8.ep8"]
    assert ranks.curve.kv_bytes_per_token == slices.curve.kv_bytes_per_token
    assert 6.5 <= 8 * ranks.kv_tokens / slices.kv_tokens <= 8


def test_users_who_wait_are_not_served_by_ranks(tmp_path):
    users = "workloads.0.arrivals={closed_loop: {users: 20, think_time: {mean: 5 s}}}"
    _, removed = enumerated(tmp_path, users)
    why = {one.name: one.reason for one in removed}
    assert "users who wait" in why["b200-sxm.tp1.dp8.ep8.nvfp4"]


def test_ranks_with_equal_work_take_the_time_of_one_and_unequal_ones_that_of_the_longest(tmp_path):
    """Two prompts of one step each, on two ranks: both end with the longer step."""
    build = built(tmp_path)["tp1.dp4.ep4"]
    setup = setup_of(build, 1, "round_robin")
    assert (setup.ranks, setup.stages, setup.engines) == (4, 1, 4)

    def first_tokens(*prompts: int) -> list[int]:
        n = len(prompts)
        traffic = Traffic(
            np.zeros(n, np.int64),
            np.zeros(n, np.int32),
            np.array(prompts, np.int32),
            np.ones(n, np.int32),
        )
        pool = Replicas(1, "round_robin", None, setup.ranks, setup.stages)
        return serve_with_cache(
            setup.law, setup.limits, None, traffic, pool
        ).first_token_ps.tolist()

    long, short = first_tokens(2000)[0], first_tokens(500)[0]
    assert short < long
    assert first_tokens(2000, 2000, 2000, 2000) == [long] * 4
    assert first_tokens(500, 2000) == [long, long]
    assert replace(setup, replicas=40).simulated == 4  # sixteen ranks stand for the pool


def test_ranks_are_not_put_in_stages_and_the_reason_is_told(tmp_path):
    builds, removed = enumerated(tmp_path, "policies.pipeline_degrees=[1, 2]")
    why = {one.name: one.reason for one in removed}
    assert "are not simulated together" in why["b200-sxm.tp1.pp2.dp8.ep8.nvfp4"]
    assert any(b.curve.layout.dp_degree == 8 for b in builds)
    assert any(b.curve.layout.pp_degree == 2 for b in builds)
