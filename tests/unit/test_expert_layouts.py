"""Whole experts on each rank, or slices of all: both are candidates where both were measured."""

import pytest

from planner.candidates.enumerate import enumerate_builds
from planner.catalogue import Catalogue
from planner.problem.resolve import resolve
from planner.scenario.load import load_scenario

CATALOGUE = Catalogue()

SCENARIO = """\
format_version: "1.0"
name: test
workloads:
  - id: chat
    model: gpt-oss-120b
    precisions: [mxfp4]
    arrivals: {poisson: 5 req/s}
    lengths: {prompt: {fixed: 1000}, output: {fixed: 100}}
    slo: {ttft: 2 s, tpot: 100 ms}
accelerators:
  - {id: h100-sxm, price: 3 USD/h}
"""


def enumerated(folder, *settings: str):
    path = folder / "s.yaml"
    path.write_text(SCENARIO)
    return enumerate_builds(resolve(load_scenario(path, settings), CATALOGUE), CATALOGUE)


def layouts(folder, *settings: str) -> set[str]:
    builds, _ = enumerated(folder, *settings)
    return {build.hardware.removeprefix("h100-sxm.").removesuffix(".mxfp4") for build in builds}


@pytest.mark.parametrize(
    ("choice", "found"),
    [
        ("search", {"tp1", "tp2", "tp2.ep2", "tp4", "tp4.ep4", "tp8", "tp8.ep8"}),
        ("never", {"tp1", "tp2", "tp4", "tp8"}),
        ("always", {"tp1", "tp2.ep2", "tp4.ep4", "tp8.ep8"}),
    ],
)
def test_every_measured_layout_that_is_allowed_is_a_candidate(tmp_path, choice, found):
    """The step laws of gpt-oss-120b on H100 with vLLM; one device has nothing to lay out."""
    assert layouts(tmp_path, f"policies.expert_parallel={choice}") == found


def test_each_candidate_runs_on_the_law_of_its_own_layout(tmp_path):
    builds, _ = enumerated(tmp_path)
    assert len({build.id for build in builds}) == len(builds)
    for build in builds:
        law = CATALOGUE.law(build.curve.id)
        assert (law.tp_degree, law.accelerators) == (build.tp_degree, build.tp_degree)
        assert f".ep{law.ep_degree}." in build.id or law.ep_degree == 1


def test_a_layout_without_step_times_is_refused_by_name(tmp_path):
    """With TensorRT-LLM this model was measured with whole experts only."""
    builds, removed = enumerated(
        tmp_path, "policies.engine=trtllm", "policies.expert_parallel=never"
    )
    assert not builds
    why = {one.name: one.reason for one in removed}["h100-sxm.tp2.ep2.mxfp4"]
    assert why.startswith("policies.expert_parallel is never, and there are gpt-oss-120b.")
