"""Pipeline stages: asked for, or taken where no tensor-parallel group of a node holds the model."""

import numpy as np
import pytest

from planner.candidates.enumerate import enumerate_builds
from planner.candidates.frontier import setup_of
from planner.candidates.physics import empty_replica
from planner.catalogue import Catalogue
from planner.curves.curve import Curve, find_curve
from planner.curves.stages import MOVED_ERROR, Hop, moved_curve, staged
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
    model: deepseek-r1
    precisions: [fp8]
    arrivals: {poisson: 5 req/s}
    lengths: {prompt: {fixed: 1000}, output: {fixed: 100}}
    slo: {ttft: 5 s, tpot: 200 ms}
accelerators:
  - {id: h100-sxm, price: 3 USD/h}
policies: {max_num_batched_tokens: [512], max_num_seqs: [64]}
"""
DENSE = ("workloads.0.model=llama-3.1-70b", "policies.tp_degrees=[4]")


def enumerated(folder, *settings: str):
    path = folder / "s.yaml"
    path.write_text(SCENARIO)
    return enumerate_builds(resolve(load_scenario(path, settings), CATALOGUE), CATALOGUE)


def built(folder, *settings: str):
    builds, _ = enumerated(folder, *settings)
    return {build.hardware: build for build in builds}


def refused(folder, *settings: str):
    _, removed = enumerated(folder, *settings)
    return {one.name: one.reason for one in removed}


def test_a_model_beyond_a_node_is_put_in_the_fewest_stages(tmp_path):
    """671 GB in 8 bits, and 80 GB a device: sixteen devices, whichever way."""
    builds = built(tmp_path)
    assert set(builds) == {"h100-sxm.tp8.pp2.fp8", "h100-sxm.tp4.pp4.fp8"}
    for build in builds.values():
        assert build.accelerators == 16
        assert build.usd_per_hour == 16 * 3
        assert build.curve.extrapolates(1, 1)
        assert "assumed" in build.curve.caveat
    room = builds["h100-sxm.tp8.pp2.fp8"].curve.room()
    assert 671e9 / 16 < room.reserve.weights_bytes < 1.1 * 671e9 / 16


@pytest.mark.parametrize(
    "settings",
    [
        ("accelerators.0.id=h200-sxm", "policies.engine=sglang"),
        ("policies.pipeline_degrees=[1]",),
        DENSE,
        ("workloads.0.model=llama-3.1-70b", "policies.tp_degrees=[1]"),
    ],
    ids=["a node holds it", "not wanted", "small", "a wider group would do"],
)
def test_elsewhere_there_are_no_stages(tmp_path, settings):
    assert not any(".pp" in name for name in built(tmp_path, *settings))


def test_why_stages_are_none_is_said(tmp_path):
    assert refused(tmp_path, "accelerators.0.stock=8")["h100-sxm.tp8.pp2.fp8"] == (
        "needs 16 accelerators; the stock is 8"
    )
    strict = refused(tmp_path, "policies.extrapolation=false")
    assert strict["h100-sxm.tp8.fp8 in stages"] == "pipeline stages were not measured"
    many = refused(
        tmp_path,
        *DENSE,
        "policies.pipeline_degrees=[1, 64]",
        "workloads.0.model=llama-3.1-8b",
        "workloads.0.precisions=[bf16]",
    )
    assert "32 layers, fewer than 64 stages" in many["h100-sxm.tp4.pp64.bf16"]


def test_asked_for_beside_the_flat_replica_or_alone(tmp_path):
    both = built(tmp_path, *DENSE, "policies.pipeline_degrees=[1, 2]")
    assert set(both) == {"h100-sxm.tp4.fp8", "h100-sxm.tp4.pp2.fp8"}
    alone = built(tmp_path, *DENSE, "policies.pipeline_degrees=[2]")
    assert set(alone) == {"h100-sxm.tp4.pp2.fp8"}
    flat, deep = both["h100-sxm.tp4.fp8"], both["h100-sxm.tp4.pp2.fp8"]
    assert deep.curve.kv_bytes_per_token == flat.curve.kv_bytes_per_token / 2
    assert deep.kv_tokens > 2 * flat.kv_tokens  # half the layers a device, and half the weights


def test_the_fullest_stage_sets_the_pace_and_hops_are_added():
    """80 layers in 3 stages: 27 set the pace; two hops of 8,192 16-bit vectors each."""
    flat = find_curve(CATALOGUE, "llama-3.1-70b", "fp8", "h100-sxm", "vllm", 4)
    assert isinstance(flat, Curve)
    deep = staged(flat, 3, Hop(100e9, 1e-5, "a wire"))
    for tokens in (1, 8192):
        hops = 2 * (1e-5 + tokens * 8192 * 2 / (0.3 * 100e9))
        expected = float(flat.step_law.tokens_s(tokens)) * 27 * 3 / 80 + hops
        assert float(deep.step_law.tokens_s(tokens)) == pytest.approx(expected)
    assert deep.accelerators == 12
    assert deep.caveat.endswith("over a wire")


@pytest.mark.parametrize("prompt", [300, 512, 1000, 2048, 5000])
def test_chunks_of_a_lone_prompt_overlap_on_the_stages(tmp_path, prompt):
    """The closed form is a flow shop's makespan; the simulation runs the chunks one by one."""
    build = built(tmp_path, *DENSE, "policies.pipeline_degrees=[2]")["h100-sxm.tp4.pp2.fp8"]
    setup = setup_of(build, 1, "round_robin")
    ones = np.ones(1, np.int32)
    traffic = Traffic(np.zeros(1, np.int64), 0 * ones, prompt * ones, ones)
    pool = Replicas(1, "round_robin", None, setup.ranks, setup.stages)
    served = serve_with_cache(setup.law, setup.limits, None, traffic, pool)
    ttft_s, _ = empty_replica(build, prompt * ones, ones)
    assert float(served.first_token_ps[0]) * 1e-12 == pytest.approx(float(ttft_s[0]), rel=1e-6)


def test_two_stages_serve_two_requests_in_the_time_of_one(tmp_path):
    """Each takes its turn on the stage that the other has left."""
    build = built(tmp_path, *DENSE, "policies.pipeline_degrees=[2]")["h100-sxm.tp4.pp2.fp8"]
    setup = setup_of(build, 1, "round_robin")
    pool = Replicas(1, "round_robin", None, 1, 2)

    def last_s(*arrivals_ps: int) -> float:
        n = len(arrivals_ps)
        many = np.ones(n, np.int32)
        traffic = Traffic(np.array(arrivals_ps, np.int64), 0 * many, 64 * many, 200 * many)
        served = serve_with_cache(setup.law, setup.limits, None, traffic, pool)
        return float(served.finish_ps.max()) * 1e-12

    step_s = float(build.curve.step_law.tokens_s(1))
    assert last_s(0, round(step_s / 2 * 1e12)) == pytest.approx(last_s(0), rel=0.02)


class WithoutH100(Catalogue):
    def laws(self, *names: str | None):
        return tuple(r for r in super().laws(*names) if r.accelerator != "h100-sxm")


def test_moved_laws_are_as_far_off_as_is_said():
    """Laws of H100, made anew of those of other accelerators, are within the stated error."""
    llm, device, others = CATALOGUE.llm("llama-3.1-70b"), CATALOGUE.accelerator("h100-sxm"), []
    for tp_degree in (2, 4, 8):
        moved = moved_curve(WithoutH100(), llm, device, ("fp8", "vllm"), tp_degree, "fp8")
        known = find_curve(CATALOGUE, llm.id, "fp8", device.id, "vllm", tp_degree)
        assert isinstance(known, Curve)
        assert moved.source.startswith("transfer from ")
        n = np.array(moved.step_law.knots[1:11])
        others.append(np.abs(moved.step_law.tokens_s(n) / known.step_law.tokens_s(n) - 1).mean())
        assert moved.relative_error.mean == MOVED_ERROR
    assert 0 < np.mean(others) <= MOVED_ERROR
