"""Weights and KV cache in formats that workloads accept: what is built, refused, and how fast."""

import math

import numpy as np
import pytest

from planner.candidates.enumerate import enumerate_builds
from planner.candidates.serve import templates_of
from planner.catalogue import Catalogue
from planner.curves.curve import Curve, curve_of, find_curve
from planner.curves.formats import MOVED_WEIGHTS, in_precision, with_kv_dtype
from planner.curves.memory import kv_bytes_per_token_per_device
from planner.errors import InputError
from planner.explanation.pattern import not_considered
from planner.planning import study_of
from planner.planning.levers import options_of
from planner.problem.resolve import resolve
from planner.scenario.load import load_scenario

CATALOGUE = Catalogue()

SCENARIO = """\
format_version: "1.0"
name: test
workloads:
  - id: chat
    model: llama-3.1-70b
    precisions: [bf16, fp8]
    kv_dtypes: [bf16, fp8]
    arrivals: {poisson: 5 req/s}
    lengths: {prompt: {fixed: 1000}, output: {fixed: 100}}
    slo: {ttft: 5 s, tpot: 200 ms}
  - id: code
    model: llama-3.1-70b
    precisions: [bf16]
    arrivals: {poisson: 5 req/s}
    lengths: {prompt: {fixed: 1000}, output: {fixed: 100}}
    slo: {ttft: 5 s, tpot: 200 ms}
accelerators:
  - {id: h100-sxm, price: 3 USD/h}
  - {id: a100-80g-sxm, price: 2 USD/h}
policies: {tp_degrees: [4], max_num_batched_tokens: [2048], max_num_seqs: [64]}
"""


def problem_of(folder, *settings: str):
    path = folder / "s.yaml"
    path.write_text(SCENARIO)
    return resolve(load_scenario(path, settings), CATALOGUE)


def enumerated(folder, *settings: str):
    builds, removed = enumerate_builds(problem_of(folder, *settings), CATALOGUE)
    return {b.hardware: b for b in builds}, {r.name: r.reason for r in removed}


def measured(model: str, precision: str, accelerator: str, tp: int) -> Curve:
    found = find_curve(CATALOGUE, model, precision, accelerator, "vllm", tp)
    assert isinstance(found, Curve)
    return found


def test_every_pair_of_formats_is_built_or_has_its_reason(tmp_path):
    builds, removed = enumerated(tmp_path)
    h100 = {f"h100-sxm.tp4.{w}.kv{kv}" for w in ("bf16", "fp8") for kv in ("bf16", "fp8")}
    assert set(builds) == h100 | {"a100-80g-sxm.tp4.bf16.kvbf16"}
    assert "no units for fp8 products" in removed["a100-80g-sxm.tp4.fp8"]
    assert "no units for fp8 products" in removed["a100-80g-sxm.tp4.bf16.kvfp8"]


def test_a_template_serves_whom_its_formats_are_good_enough_for(tmp_path):
    """Who names no KV format takes the one that was measured: 16 bits beside 16-bit weights."""
    problem = problem_of(tmp_path)
    builds, _ = enumerate_builds(problem, CATALOGUE)
    groups, _ = templates_of(problem, study_of(problem), builds)
    labels: dict[str, set[str]] = {}
    for templates in groups.values():
        for t in templates:
            labels.setdefault(t.build.hardware, set()).add(t.label)
    assert labels["h100-sxm.tp4.bf16.kvbf16"] == {"chat", "code", "chat:code"}
    for other in ("bf16.kvfp8", "fp8.kvbf16", "fp8.kvfp8"):
        assert labels[f"h100-sxm.tp4.{other}"] == {"chat"}


def test_names_are_as_ever_where_nobody_names_a_kv_format(tmp_path):
    builds, _ = enumerated(tmp_path, "workloads.chat.kv_dtypes=null")
    assert set(builds) == {"h100-sxm.tp4.bf16", "h100-sxm.tp4.fp8", "a100-80g-sxm.tp4.bf16"}
    assert builds["h100-sxm.tp4.fp8"].curve.kv_dtype == "fp8"


def test_half_the_bytes_hold_twice_the_tokens_in_the_same_memory(tmp_path):
    """The weights do not move: blocks are bytes over bytes, to one block of 16 tokens."""
    builds, _ = enumerated(tmp_path)
    for weights in ("bf16", "fp8"):
        wide = builds[f"h100-sxm.tp4.{weights}.kvbf16"].kv_tokens
        narrow = builds[f"h100-sxm.tp4.{weights}.kvfp8"].kv_tokens
        assert abs(narrow - 2 * wide) <= 2 * 16


def test_reading_the_cache_takes_what_it_took_where_it_was_measured():
    """The 8-bit law's attention and the 16-bit law's rest; one device has both laws."""
    wide = measured("llama-3.1-70b", "bf16", "h100-sxm", 4)
    narrow = measured("llama-3.1-70b", "fp8", "h100-sxm", 4)
    found = with_kv_dtype(CATALOGUE, wide, "fp8")
    assert found.kv_dtype == "fp8"
    assert found.parts == ("kvfp8",)
    assert found.step_law.step_s == wide.step_law.step_s
    assert found.step_law.c_k_s_per_token == pytest.approx(narrow.step_law.c_k_s_per_token)
    assert found.step_law.c_x_s_per_token2 == pytest.approx(narrow.step_law.c_x_s_per_token2)
    assert narrow.id in found.source
    back = with_kv_dtype(CATALOGUE, narrow, "bf16")
    assert back.step_law.c_k_s_per_token == pytest.approx(wide.step_law.c_k_s_per_token)


def test_reading_the_cache_goes_by_its_bytes_where_nobody_measured_it():
    """Llama-3.1-8B has laws in 16 bits only."""
    wide = measured("llama-3.1-8b", "bf16", "h100-sxm", 1)
    found = with_kv_dtype(CATALOGUE, wide, "fp8")
    assert found.step_law.c_k_s_per_token == wide.step_law.c_k_s_per_token / 2
    assert found.step_law.c_x_s_per_token2 == wide.step_law.c_x_s_per_token2
    assert "roofline" in found.source
    bytes_16 = kv_bytes_per_token_per_device(wide.llm, 1, "bf16")
    assert found.kv_bytes_per_token == bytes_16 / 2 == 32 * 2 * 8 * 128


def test_the_same_format_changes_the_name_alone():
    curve = measured("llama-3.1-8b", "bf16", "h100-sxm", 1)
    found = with_kv_dtype(CATALOGUE, curve, "bf16")
    assert (found.step_law, found.id, found.parts) == (curve.step_law, curve.id, ("kvbf16",))


def test_the_cost_of_reading_half_the_bytes_where_both_were_measured():
    """Docs say: 0.53 of the time at the median, not 0.5; far from it on some devices."""
    laws = {}
    for row in CATALOGUE.laws():
        if row.model in ("llama-3.1-70b", "qwen3-32b"):
            laws[row.model, row.accelerator, row.engine, row.tp_degree, row.kv_dtype] = row
    ratios = [
        laws[(*key, "fp8")].c_k_s_per_token / row.c_k_s_per_token
        for (*key, kv), row in laws.items()
        if kv == "bf16" and (*key, "fp8") in laws
    ]
    assert len(ratios) == 80
    assert float(np.median(ratios)) == pytest.approx(0.53, abs=0.01)
    assert np.quantile(ratios, [0.05, 0.95]) == pytest.approx([0.47, 0.92], abs=0.02)


def test_weights_in_another_format_move_what_depends_on_them_alone():
    wide = measured("llama-3.1-8b", "bf16", "h100-sxm", 1)
    found = in_precision(wide, "fp8")
    assert found.step_law.c_k_s_per_token == wide.step_law.c_k_s_per_token
    assert found.step_law.c_x_s_per_token2 == wide.step_law.c_x_s_per_token2
    assert found.kv_dtype == wide.kv_dtype
    for n in (1, 64, 8192):
        ratio = float(found.step_law.tokens_s(n)) / float(wide.step_law.tokens_s(n))
        assert 0.5 < ratio < 1  # half the bytes, twice the rate, and launches as before
    assert found.extrapolates(1, 1)
    assert found.relative_error.mean == MOVED_WEIGHTS.mean
    embeddings = 2 * 128_256 * 4096
    inner = 8.03e9 - embeddings
    expected = (inner + 2 * embeddings) / (2 * 8.03e9)
    assert found.row.weights_bytes / wide.row.weights_bytes == pytest.approx(expected, rel=0.01)


def test_a_moved_law_is_as_wrong_as_it_says_where_the_truth_was_measured():
    """All laws of a model that was measured in two formats; DeepSeek-R1 and V3.1 have one shape."""
    laws = {}
    for row in CATALOGUE.laws():
        model = "deepseek-r1" if row.model == "deepseek-v3.1" else row.model
        key = model, row.accelerator, row.engine, row.tp_degree, row.dp_degree, row.ep_degree
        laws[*key, row.precision] = row
    off: dict[str, list[float]] = {}
    for (*key, precision), row in laws.items():
        for other in ("bf16", "fp8", "nvfp4"):
            truth = laws.get((*key, other))
            if truth is None or other == precision:
                continue
            moved = in_precision(curve_of(CATALOGUE, row), other).step_law.step_s
            pairs = zip(row.knots, moved, truth.step_s, strict=True)
            off.setdefault(key[0], []).extend(abs(a / b - 1) for n, a, b in pairs if 8 <= n <= 8192)
    every = [x for some in off.values() for x in some]
    assert float(np.mean(every)) == pytest.approx(MOVED_WEIGHTS.mean, abs=0.006)
    assert float(np.quantile(every, 0.95)) == pytest.approx(MOVED_WEIGHTS.p95, abs=0.01)
    assert float(np.mean(off["qwen3-32b"])) == pytest.approx(0.11, abs=0.006)  # held out of the fit


def test_moved_laws_only_where_the_scenario_allows_what_was_not_measured(tmp_path):
    small = ("workloads.0.model=llama-3.1-8b", "workloads.1.model=llama-3.1-8b")
    builds, _ = enumerated(tmp_path, *small)
    assert "h100-sxm.tp4.fp8.kvbf16" in builds
    builds, removed = enumerated(tmp_path, *small, "policies.extrapolation=false")
    assert "h100-sxm.tp4.fp8.kvbf16" not in builds
    assert "no step law of llama-3.1-8b" in removed["h100-sxm.tp4.fp8"]


def test_four_bit_floats_need_units_for_them(tmp_path):
    settings = (
        "workloads.chat.precisions=[nvfp4]",
        "accelerators.1={id: b200-sxm, price: 5 USD/h}",
    )
    builds, removed = enumerated(tmp_path, *settings)
    assert "b200-sxm.tp4.nvfp4.kvbf16" in builds
    assert "no units for fp4 products" in removed["h100-sxm.tp4.nvfp4"]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("workloads.chat.kv_dtypes=[fp8, fp8]", "listed twice"),
        ("workloads.chat.kv_dtypes=[fp4]", "workloads.0.kv_dtypes.0"),
        ("workloads.chat.kv_dtypes=[]", "workloads.0.kv_dtypes"),
        ("workloads.chat.precisions=[fp9]", "is no format of weights"),
    ],
)
def test_words_that_are_no_formats_are_refused(tmp_path, setting, words):
    with pytest.raises(InputError, match=words):
        problem_of(tmp_path, setting)


def test_why_not_a_format_that_nobody_names():
    scenario = {"workloads": [{"precisions": ["bf16"], "kv_dtypes": ["bf16"]}]}
    assert not_considered("kvfp8", scenario) == (
        "no workload names fp8 in kv_dtypes; they are bf16; list it to search it"
    )
    assert not_considered("kvbf16", scenario) is None


def test_moved_weights_gain_less_than_their_bytes():
    """Launches, collectives and quantising cost what bytes do not tell: below a factor of two."""
    curve = measured("llama-3.1-8b", "bf16", "b200-sxm", 1)
    eight, four = (in_precision(curve, p).step_law.step_s[0] for p in ("fp8", "nvfp4"))
    assert curve.step_law.step_s[0] > eight > four
    assert math.log(curve.step_law.step_s[0] / eight) < math.log(2)


def test_the_other_format_of_the_cache_is_an_option_where_one_is_stated(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO)
    options = options_of(
        load_scenario(path, ("workloads.chat.kv_dtypes=[bf16]",)).scenario, CATALOGUE
    )
    (option,) = (o for o in options if o.name.endswith("kv_dtypes"))
    assert option.ways == (("fp8", ("workloads.chat.kv_dtypes=[bf16, fp8]",)),)
