"""Which replicas can be built and whom they serve; everything left out has its reason."""

import pytest

from planner.candidates.enumerate import enumerate_builds
from planner.candidates.screen import screen
from planner.candidates.serve import templates_of
from planner.catalogue import Catalogue
from planner.planning import study_of
from planner.problem.resolve import Problem, resolve
from planner.scenario.load import load_scenario
from planner.simulation.effort import default_effort

CATALOGUE = Catalogue()

SCENARIO = """\
format_version: "1.0"
name: test
workloads:
  - id: chat
    model: llama-3.1-70b
    precisions: [bf16, fp8]
    arrivals: {poisson: 5 req/s}
    lengths: {prompt: {fixed: 1000}, output: {fixed: 100}}
    slo: {ttft: 2 s, tpot: 100 ms}
  - id: batch
    model: llama-3.1-70b
    precisions: [fp8]
    arrivals: {poisson: 1 req/s}
    lengths: {prompt: {fixed: 30000}, output: {fixed: 100}}
    slo: {ttft: 60 s, tpot: 1 s}
accelerators:
  - {id: h100-sxm, price: 3 USD/h}
  - {id: a100-80g-sxm, price: 2 USD/h, stock: 4}
  - {id: l40s, price: 1 USD/h}
"""


def problem_of(folder, *settings: str) -> Problem:
    path = folder / "s.yaml"
    path.write_text(SCENARIO)
    return resolve(load_scenario(path, settings), CATALOGUE)


def reasons(folder, *settings: str) -> dict[str, str]:
    _, removed = enumerate_builds(problem_of(folder, *settings), CATALOGUE)
    return {r.name: r.reason for r in removed}


def test_every_hardware_is_built_or_has_its_reason(tmp_path):
    problem = problem_of(tmp_path)
    builds, removed = enumerate_builds(problem, CATALOGUE)
    named = {build.hardware for build in builds} | {
        ".".join(r.name.split(".")[:3]) for r in removed
    }
    assert named == {
        f"{g}.tp{tp}.{precision}"
        for g in ("h100-sxm", "a100-80g-sxm", "l40s")
        for tp in (1, 2, 4, 8)
        for precision in ("bf16", "fp8")
    }


def test_weights_that_exceed_a_device_are_named_with_bytes(tmp_path):
    """70.55e9 parameters at 2 bytes are 131 GiB; at tp 2 half of it, beyond an L40S' 40 GiB."""
    why = reasons(tmp_path)
    assert why["l40s.tp1.bf16"].startswith("llama-3.1-70b does not fit: weights need 131.")
    assert why["l40s.tp2.bf16"].startswith("llama-3.1-70b does not fit: weights need 65.")


def test_stock_below_the_degree_is_named(tmp_path):
    assert reasons(tmp_path)["a100-80g-sxm.tp8.bf16"] == "needs 8 accelerators; the stock is 4"


def test_no_curve_says_what_there_is(tmp_path):
    assert "no step law" in reasons(tmp_path)["a100-80g-sxm.tp4.fp8"]


def test_more_sequences_than_tokens_is_no_policy(tmp_path):
    settings = ("policies.max_num_batched_tokens=[64]", "policies.max_num_seqs=[64,256]")
    assert reasons(tmp_path, *settings)["h100-sxm.tp4.fp8.b64.s256"] == (
        "max_num_seqs 256 is above max_num_batched_tokens 64"
    )


def test_beyond_a_curves_range_only_where_the_scenario_allows_it(tmp_path):
    far = ("workloads.chat.lengths.prompt.fixed=131000", "workloads.chat.lengths.output.fixed=72")
    assert "h100-sxm.tp8.fp8" not in reasons(tmp_path, *far)
    shown = reasons(
        tmp_path, "policies.extrapolation=false", "policies.max_num_batched_tokens=[131072]"
    )
    assert shown["h100-sxm.tp8.fp8"].startswith("its curve holds to")


def groups(folder, *settings: str) -> dict[str, set[str]]:
    """Labels by hardware."""
    problem = problem_of(folder, *settings)
    builds, _ = enumerate_builds(problem, CATALOGUE)
    templates, _ = templates_of(problem, study_of(problem), builds)
    found: dict[str, set[str]] = {}
    for some in templates.values():
        for t in some:
            found.setdefault(t.build.hardware, set()).add(t.label)
    return found


def test_a_build_serves_each_workload_alone_and_all_together(tmp_path):
    found = groups(tmp_path)
    assert found["h100-sxm.tp4.fp8"] == {"chat", "batch", "chat:batch"}
    assert found["h100-sxm.tp4.bf16"] == {"chat"}  # batch accepts fp8 only


@pytest.mark.parametrize(
    ("sharing", "labels"), [("shared", {"chat:batch"}), ("segregated", {"chat", "batch"})]
)
def test_sharing_can_be_fixed(tmp_path, sharing, labels):
    assert groups(tmp_path, f"policies.sharing={sharing}")["h100-sxm.tp4.fp8"] == labels


def test_no_room_for_a_request_and_no_time_for_it_are_barriers(tmp_path):
    problem = problem_of(tmp_path, "workloads.chat.slo.tpot=10 ms")
    builds, _ = enumerate_builds(problem, CATALOGUE)
    _, barriers = templates_of(problem, study_of(problem), builds)
    found = {(b.build.hardware, b.kind): b.removed.reason for b in barriers}
    assert (
        "the longest request of batch (30,100 tokens) does not fit"
        in (found["l40s.tp2.fp8", "memory"])
    )
    slow = found["h100-sxm.tp2.bf16", "deadline"]
    assert "even in an empty replica only 0.0% of chat meet all deadlines" in slow
    assert "more replicas cannot help" in slow


class StopError(Exception):
    """The time is over."""


def test_the_clock_is_asked_before_each_build_and_each_template(tmp_path):
    """Thousands of candidates must not outlast a time limit."""
    problem = problem_of(tmp_path)
    builds, _ = enumerate_builds(problem, CATALOGUE)
    study = study_of(problem)
    asked = []
    groups, _ = templates_of(problem, study, builds, lambda: asked.append(1))
    assert len(asked) == len(builds)

    def stop() -> None:
        raise StopError

    with pytest.raises(StopError):
        templates_of(problem, study, builds, stop)
    (templates, *_) = groups.values()
    before = study.meter.requests
    with pytest.raises(StopError):
        screen(study, templates, [0.1, 1.0], "least_outstanding", default_effort(), stop)
    assert study.meter.requests == before
