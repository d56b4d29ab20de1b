"""Low-rank adapters: their bytes, their steps, and whom replicas that keep them serve."""

import pytest

from planner.candidates.enumerate import enumerate_builds
from planner.candidates.serve import templates_of
from planner.catalogue import Catalogue
from planner.curves.beside import adapter_bytes_per_device
from planner.curves.memory import Layout
from planner.errors import InputError
from planner.planning import study_of
from planner.problem.resolve import resolve
from planner.scenario.load import load_scenario

CATALOGUE = Catalogue()
ONE = Layout()

SCENARIO = """\
format_version: "1.0"
name: test
workloads:
  - id: base
    model: llama-3.1-8b
    arrivals: {poisson: 5 req/s}
    lengths: {prompt: {fixed: 1000}, output: {fixed: 100}}
    slo: {ttft: 5 s, tpot: 100 ms}
  - id: shops
    model: llama-3.1-8b
    adapters: {count: 20, rank: 16, targets: all, overhead: 8 %}
    arrivals: {poisson: 5 req/s}
    lengths: {prompt: {fixed: 1000}, output: {fixed: 100}}
    slo: {ttft: 5 s, tpot: 100 ms}
  - id: banks
    model: llama-3.1-8b
    adapters: {count: 4, rank: 64, targets: attention, overhead: 12 %}
    arrivals: {poisson: 5 req/s}
    lengths: {prompt: {fixed: 1000}, output: {fixed: 100}}
    slo: {ttft: 5 s, tpot: 100 ms}
accelerators:
  - {id: h100-sxm, price: 3 USD/h}
policies: {tp_degrees: [1], max_num_batched_tokens: [2048], max_num_seqs: [64]}
"""


def problem_of(folder, *settings: str):
    path = folder / "s.yaml"
    path.write_text(SCENARIO)
    return resolve(load_scenario(path, settings), CATALOGUE)


def labels(folder, *settings: str) -> dict[str, set[str]]:
    problem = problem_of(folder, *settings)
    builds, _ = enumerate_builds(problem, CATALOGUE)
    groups, _ = templates_of(problem, study_of(problem), builds)
    found: dict[str, set[str]] = {}
    for templates in groups.values():
        for t in templates:
            name = t.build.hardware.removeprefix("h100-sxm.tp1.bf16")
            found.setdefault(name, set()).add(t.label)
    return found


def test_bytes_of_an_adapter_are_those_of_its_two_matrices_for_each_of_seven():
    """Llama-3.1-8B at rank 16 on all seven: 41,943,040 parameters, as trainers print them."""
    llm = CATALOGUE.llm("llama-3.1-8b")
    query = 16 * (4096 + 32 * 128) * 2  # query and output
    key = 16 * (4096 + 8 * 128) * 2  # key and value
    inner = 16 * (4096 + 14336) * 3  # gate, up and down
    assert 32 * (query + key + inner) == 41_943_040
    assert adapter_bytes_per_device(llm, 16, ONE, inner=True) == 2 * 41_943_040
    assert adapter_bytes_per_device(llm, 16, ONE, inner=False) == 2 * 32 * (query + key)
    assert adapter_bytes_per_device(llm, 32, ONE, inner=True) == 4 * 41_943_040


def test_one_of_each_two_matrices_lies_whole_on_every_device():
    """On two devices: what is sliced halves, what is 4,096 wide and whole does not."""
    llm = CATALOGUE.llm("llama-3.1-8b")
    whole = 7 * 4096  # first of query, key, value, gate, up; second of output, down
    sliced = 2 * 4096 + 2 * 1024 + 3 * 14336
    for tp in (1, 2, 8):
        expected = 2 * 32 * 16 * (whole + sliced / tp)
        assert adapter_bytes_per_device(llm, 16, Layout(tp_degree=tp), inner=True) == expected
    halves = adapter_bytes_per_device(llm, 16, Layout(pp_degree=2), inner=True)
    assert halves == adapter_bytes_per_device(llm, 16, ONE, inner=True) / 2


def test_replicas_keep_the_adapters_of_those_they_serve_and_no_others(tmp_path):
    assert labels(tmp_path) == {
        "": {"base"},
        ".lora20x16-shops": {"shops", "base:shops"},
        ".lora4x64-banks": {"banks", "base:banks"},
        ".lora24x64": {"base:shops:banks"},
    }
    assert labels(tmp_path, "policies.sharing=shared") == {".lora24x64": {"base:shops:banks"}}
    assert labels(tmp_path, "policies.sharing=segregated") == {
        "": {"base"},
        ".lora20x16-shops": {"shops"},
        ".lora4x64-banks": {"banks"},
    }


def test_adapters_take_cache_and_time(tmp_path):
    builds, _ = enumerate_builds(problem_of(tmp_path), CATALOGUE)
    by = {b.hardware.removeprefix("h100-sxm.tp1.bf16"): b for b in builds}
    plain, kept = by[""], by[".lora20x16-shops"]
    assert kept.curve.adapters is not None
    assert kept.curve.adapters.bytes_per_device == 20 * 2 * 41_943_040
    blocks = (plain.kv_tokens - kept.kv_tokens) / 16
    block_bytes = 16 * 32 * 2 * 8 * 128 * 2
    assert blocks == pytest.approx(20 * 2 * 41_943_040 / block_bytes, abs=1)
    for n in (1, 64, 2048):
        slowed = float(kept.curve.step_law.tokens_s(n))
        assert slowed == pytest.approx(1.08 * float(plain.curve.step_law.tokens_s(n)))
    assert by[".lora24x64"].curve.adapters is not None
    assert by[".lora24x64"].curve.adapters.overhead == 0.12


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("workloads.shops.adapters.overhead=null", "overhead"),
        ("workloads.shops.adapters.count=0", "count"),
        ("workloads.shops.adapters.rank=0", "rank"),
        ("workloads.shops.adapters.targets=some", "targets"),
        ("workloads.shops.adapters.overhead=20", "20 %"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, setting, words):
    with pytest.raises(InputError, match=words) as caught:
        problem_of(tmp_path, setting)
    assert "workloads.1.adapters" in str(caught.value)


def test_adapters_of_unknown_size_are_refused(tmp_path):
    experts = ("workloads.shops.model=gpt-oss-120b", "workloads.shops.precisions=[mxfp4]")
    with pytest.raises(InputError, match="experts is not known; state attention"):
        problem_of(tmp_path, *experts)
    latent = ("workloads.shops.model=deepseek-v3.1", "workloads.shops.precisions=[nvfp4]")
    with pytest.raises(InputError, match="attention is not known"):
        problem_of(tmp_path, *latent)
