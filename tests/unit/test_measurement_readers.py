"""Every reader against small files whose answers are worked out by hand, in our units."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from planner.errors import InputError
from planner.measurements.measurement import Arrivals, Given, Histogram, statistics_of
from planner.measurements.read import FORMATS, read_measurements, sniff

DATA = Path(__file__).parents[1] / "data" / "measurements"
CHECKS = ("checks.py", "books.py")
SERVED = ("engine", "engine_version", "accelerator", "tp_degree", "precision")

SNIFFED = {
    "vllm.json": "vllm bench serve",
    "vllm-detailed.json": "vllm bench serve",
    "vllm-detailed-old.json": "vllm bench serve",
    "sweep": "vllm bench sweep",
    "sweep/summary.csv": "vllm bench serve",
    "sglang.jsonl": "sglang bench_serving",
    "guidellm.json": "guidellm",
    "aiperf": "aiperf or genai-perf folder",
    "aiperf/profile_export_aiperf.json": "aiperf or genai-perf",
    "aiperf/profile_export.jsonl": "aiperf records",
    "aiperf.csv": "aiperf or genai-perf csv",
    "genai-perf.csv": "aiperf or genai-perf csv",
    "genai-perf.json": "aiperf or genai-perf",
    "inference-perf": "inference-perf folder",
    "inference-perf/stage_0_lifecycle_metrics.json": "inference-perf",
    "inference-perf-requests.json": "inference-perf requests",
    "llmperf-summary.json": "llmperf",
    "llmperf-responses.json": "llmperf responses",
    "mlperf.txt": "mlperf loadgen",
    "inferencex.json": "inferencex",
    "vllm.prom": "vllm prometheus",
    "spans.json": "vllm spans",
    "llm-d.yaml": "llm-d report",
    "dynamo": "dynamo profile",
    "dynamo/prefill_raw_data.json": "dynamo profile",
    "closed-loop-means.csv": "closed-loop means",
    "levels.csv": "load levels",
    "requests.csv": "requests",
    "engine-requests.csv": "engine requests",
}


def read(name, given=None):
    return read_measurements(DATA / name, given)


def only(name):
    (measurement,) = read(name)
    return measurement


def fits(m, metric):
    return {latency.field: latency.fit for latency in m.latencies if latency.metric == metric}


@pytest.mark.parametrize("name", SNIFFED)
def test_formats_are_told_by_what_is_in_them(name):
    assert sniff(DATA / name) == SNIFFED[name]


@pytest.mark.parametrize("name", SNIFFED)
def test_exactly_one_format_claims_a_file(name):
    from planner.measurements.files import probe

    found = probe(DATA / name)
    assert [f.name for f in FORMATS if f.claims(found)] == [SNIFFED[name]]


def test_every_format_has_a_sample():
    assert {f.name for f in FORMATS} == set(SNIFFED.values())


def test_unknown_formats_are_told_the_known_ones(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"a": 1}')
    with pytest.raises(InputError, match=r"known: vllm bench serve.*guidellm.*dynamo"):
        read_measurements(path)


def test_vllm_milliseconds_become_seconds():
    m = only("vllm.json")
    assert m.ttft.mean == pytest.approx(0.2)
    assert m.ttft.p50 == pytest.approx(0.15)
    assert m.ttft.p999 == pytest.approx(0.64)
    assert m.tpot.mean == pytest.approx(0.018)
    assert m.itl.p99 == pytest.approx(0.06)
    assert m.e2e.p99 == pytest.approx(2.4)
    assert m.arrivals == Arrivals("unlimited", concurrency=8.0)
    assert (m.prompt.mean, m.output.mean) == (1000, 101)
    # 3 good requests a second for 10 s, of 40 that were sent
    assert (m.goodput_rps, m.attainment) == (3.0, 0.75)
    assert m.missing == (*SERVED, "prefix_hit_rate")


def test_vllm_details_give_tpot_per_request_and_find_requests_without_a_token():
    m = only("vllm-detailed-old.json")
    r = m.records
    assert r.completed.tolist() == [True, True, True, False]
    # 40 ms over 2 gaps; one token; 80 ms over 4 gaps although only 3 chunks followed
    assert r.tpot_s[:3] == pytest.approx([0.02, 0, 0.02])
    assert r.e2e_s[:3] == pytest.approx([0.14, 0.2, 0.38])
    assert r.max_itl_s[:3] == pytest.approx([0.03, 0, 0.04])
    assert np.isnan([r.ttft_s[3], r.tpot_s[3], r.e2e_s[3]]).all()
    # the file leaves the one-token output out of its mean of 20 ms; ours counts it as 0
    assert fits(m, "tpot") == {"tpot_ms": "close", "requests": "same"}
    assert m.tpot.mean == pytest.approx(0.04 / 3)
    assert m.e2e.mean == pytest.approx((0.14 + 0.2 + 0.38) / 3)
    assert (m.failed, m.completed, m.engine) == (0, 4, "vllm")
    assert m.arrivals == Arrivals("poisson", 2.0, burstiness=1.0)
    assert m.output.mean == 3


def test_vllm_metadata_and_starts():
    m = only("vllm-detailed.json")
    assert (m.engine_version, m.accelerator, m.tp_degree, m.precision) == (
        "0.33.0",
        "h100-sxm",
        2,
        "fp8",
    )
    assert m.records.start_s.tolist() == [0, 0.5, 1, 1.5]
    assert m.failed == 1
    assert m.engine is None  # "openai" is a protocol


def test_vllm_sweep_reads_runs_with_their_overrides():
    runs = read("sweep")
    assert [m.path.name for m in runs] == ["run=0.json", "run=1.json"]
    assert all(m.tp_degree == 2 and m.precision is None for m in runs)
    assert ("max_num_seqs", "64") in runs[0].settings
    assert ("kv_cache_dtype", "fp8") in runs[0].settings
    assert runs[0].location == "SERVE--tp2-BENCH--c8"
    assert "failed runs of the sweep: 1" in runs[0].notes


def test_vllm_sweep_table_says_the_same_as_its_runs():
    for run, row in zip(read("sweep"), read("sweep/summary.csv"), strict=True):
        assert (row.ttft, row.tpot, row.e2e) == (run.ttft, run.tpot, run.e2e)
        assert (row.arrivals, row.completed_rps, row.tp_degree) == (
            run.arrivals,
            run.completed_rps,
            run.tp_degree,
        )


def test_vllm_ragged_details_are_refused(tmp_path):
    text = (
        (DATA / "vllm-detailed.json")
        .read_text()
        .replace('"output_lens": [\n  3,', '"output_lens": [')
    )
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"output_lens: 3 entries, but ttfts has 4"):
        read_measurements(path)


def test_sglang_reads_infinity_and_the_server():
    first, second = read("sglang.jsonl")
    assert first.arrivals == Arrivals("unlimited", concurrency=4.0)
    assert second.arrivals == Arrivals("poisson", 3.0, burstiness=1.0)
    assert (first.engine, first.engine_version, first.tp_degree) == ("sglang", "0.5.23", 2)
    assert first.tpot.mean == pytest.approx(0.03)
    assert first.e2e.mean == pytest.approx(1.9)
    assert first.mean_concurrency == 3.8
    assert [m.location for m in (first, second)] == ["1", "2"]


def test_sglang_ttft_of_zero_was_not_measured():
    _, second = read("sglang.jsonl")
    assert second.ttft is None
    assert "ttft" in second.missing
    assert fits(second, "ttft") == {"ttft_ms": "other"}


def test_guidellm_tpot_is_ours_only_where_outputs_are_equally_long():
    equal, unequal, recorded = read("guidellm.json")
    assert fits(equal, "tpot") == {
        "inter_token_latency_ms": "same",
        "time_per_output_token_ms": "other",
    }
    assert equal.tpot.mean == pytest.approx(0.02)
    # lengths differ: the mean over token gaps is not that over requests; E2E and TTFT stand in
    assert fits(unequal, "tpot") == {
        "inter_token_latency_ms": "other",
        "time_per_output_token_ms": "other",
        "derived": "close",
    }
    assert unequal.tpot.mean == pytest.approx((1.1 - 0.1) / 50)
    # single requests: 0.2 s over 10 gaps, and one token
    assert recorded.tpot.mean == pytest.approx((0.02 + 0) / 2)


def test_guidellm_counts_and_loads():
    poisson, users, constant = read("guidellm.json")
    assert poisson.arrivals == Arrivals("poisson", 2.5)
    assert users.arrivals == Arrivals("closed_loop", concurrency=4.0)
    assert constant.arrivals == Arrivals("constant", 2.0)
    assert (poisson.sent, poisson.completed, poisson.failed) == (22, 20, 2)
    assert poisson.ttft.p99 == pytest.approx(0.14)
    assert poisson.e2e.mean == pytest.approx(1.1)  # seconds already
    assert "64 tokens" in poisson.shared_prompts


def test_aiperf_units_are_read_metric_by_metric():
    m = only("aiperf/profile_export_aiperf.json")
    assert m.ttft.mean == pytest.approx(0.02)
    assert m.tpot.mean == pytest.approx(0.0198)  # written in microseconds
    assert m.e2e.p99 == pytest.approx(2.2)
    assert (m.tool, m.tool_version, m.model) == ("aiperf", "0.13.0", "example/model-8b")
    assert (m.completed, m.failed, m.duration_s) == (32, 2, 64)
    assert m.arrivals == Arrivals("closed_loop", concurrency=1.0)


def test_aiperf_csv_and_json_agree():
    table, summary = only("aiperf.csv"), only("aiperf/profile_export_aiperf.json")
    for metric in ("ttft", "tpot", "e2e"):
        one, other = getattr(table, metric), getattr(summary, metric)
        assert (one.mean, one.p50, one.p99) == pytest.approx((other.mean, other.p50, other.p99))


def test_aiperf_requests_leave_out_the_warm_up():
    m = only("aiperf/profile_export.jsonl")
    assert (m.sent, m.completed, m.failed) == (3, 2, 1)
    # 200 ms over 10 gaps; 400 ms over 20 gaps, its times in seconds
    assert m.records.tpot_s[:2] == pytest.approx([0.02, 0.02])
    assert m.records.max_itl_s[0] == pytest.approx(0.025)
    assert m.records.start_s == pytest.approx([0, 1, 2], abs=1e-6)
    assert m.duration_s == pytest.approx(2.0000001, abs=1e-6)


def test_aiperf_unknown_units_are_refused(tmp_path):
    path = tmp_path / "x.json"
    path.write_text((DATA / "genai-perf.json").read_text().replace('"ms"', '"fortnight"'))
    with pytest.raises(InputError, match=r"time_to_first_token.unit: the unit 'fortnight'"):
        read_measurements(path)


def changed(tmp_path, name, **changes):
    document = json.loads((DATA / name).read_text())
    path = tmp_path / Path(name).name
    path.write_text(json.dumps({**document, **changes}))
    return read_measurements(path)[0]


@pytest.mark.parametrize(
    ("phase", "arrivals"),
    [
        ({"type": "concurrency", "concurrency": 8}, Arrivals("closed_loop", concurrency=8.0)),
        ({"type": "poisson", "rate": 5.0}, Arrivals("poisson", 5.0, burstiness=1.0)),
        ({"type": "gamma", "rate": 5.0, "smoothness": 0.5}, Arrivals("gamma", 5.0, None, 0.5)),
        ({"type": "constant", "rate": 5.0, "concurrency": 9}, Arrivals("constant", 5.0, 9.0)),
        ({"type": "poisson", "rate": 5.0, "rate_ramp": 30}, Arrivals("trace")),
        ({"type": "user_centric", "rate": 5.0}, None),
    ],
)
def test_aiperf_phases(tmp_path, phase, arrivals):
    warm = {"name": "warmup", "kind": "warmup", "type": "concurrency", "concurrency": 1}
    config = {
        "models": {"items": [{"name": "example/model-9b"}]},
        "phases": [warm, {"name": "load", "kind": "profiling", **phase}],
    }
    m = changed(tmp_path, "aiperf/profile_export_aiperf.json", input_config=config)
    assert (m.arrivals, m.model) == (arrivals, "example/model-9b")


def test_aiperf_counts_cached_tokens(tmp_path):
    usage = {
        "usage_prompt_cache_read_tokens": {"unit": "tokens", "avg": 150.0, "count": 32},
        "usage_prompt_tokens": {"unit": "tokens", "avg": 600.0, "count": 32},
    }
    assert changed(tmp_path, "aiperf/profile_export_aiperf.json", **usage).prefix_hit_rate == 0.25


def test_guidellm_counts_cached_tokens(tmp_path):
    document = json.loads((DATA / "guidellm.json").read_text())
    recorded = document["benchmarks"][2]
    for request in recorded["requests"]["successful"]:
        request["cached_tokens"] = 128
    m = changed(tmp_path, "guidellm.json", benchmarks=[recorded])
    assert m.prefix_hit_rate == 128 / 512


def test_llmperf_numbers_that_are_written_as_text_or_missing(tmp_path):
    odd = {
        "results_number_input_tokens_min": "550",
        "results_number_input_tokens_max": "560",
        "results_ttft_s_stddev": float("nan"),
    }
    m = changed(tmp_path, "llmperf-summary.json", **odd)
    assert (m.prompt.statistics.min, m.prompt.statistics.max) == (550, 560)
    assert m.ttft.std is None


def test_aiperf_tables_end_before_those_of_the_devices(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(
        "Metric,avg,min,max,sum,p1,p50,p99,std\n"
        "Time to First Token (ms),20.00,15.00,31.00,640.00,15.10,19.00,30.00,3.00\n\n"
        "Metric,Value\nRequest Count,32\nBenchmark Duration (sec),64.00\n\n"
        "Endpoint,GPU_Index,Metric,avg\nlocalhost,0,Power (W),300\n"
    )
    (m,) = read_measurements(path)
    assert (m.tool, m.completed, m.duration_s) == ("aiperf", 32, 64)
    assert m.ttft.p99 == pytest.approx(0.03)


def test_genai_perf_thousands_separators():
    m = only("genai-perf.csv")
    assert m.ttft.mean == pytest.approx(1.2)
    assert m.ttft.p99 == pytest.approx(2.9)
    assert m.tpot.mean == pytest.approx(0.025)
    assert m.prompt.mean == 3000
    assert (m.completed, m.completed_rps, m.tool) == (40, 1.5, "genai-perf")
    # 1.2 s + 200 gaps of 25 ms
    assert m.e2e.mean == pytest.approx(m.ttft.mean + 200 * m.tpot.mean)


def test_genai_perf_json():
    m = only("genai-perf.json")
    assert (m.tool, m.model) == ("genai-perf", "example/model-8b")
    assert m.arrivals == Arrivals("closed_loop", concurrency=10.0)


def test_inference_perf_marks_a_tpot_that_counts_chunks():
    good, chunks = read("inference-perf")
    assert fits(good, "tpot")["time_per_output_token"] == "same"
    # 10 ms x 50 gaps are half of the 1.0 s between first and last token
    assert fits(chunks, "tpot") == {
        "time_per_output_token": "other",
        "normalized_time_per_output_token": "other",
        "derived": "close",
    }
    assert chunks.tpot.mean == pytest.approx(1.0 / 50)
    why = next(x.why for x in chunks.latencies if x.field == "time_per_output_token")
    assert "0.50 of E2E - TTFT" in why


def test_inference_perf_takes_the_cap_and_the_prefix_from_its_configuration():
    m = read("inference-perf")[0]
    assert m.arrivals == Arrivals("constant", 10.0, concurrency=40.0)
    assert (m.engine, m.model) == ("vllm", "example/model-8b")
    assert "128 tokens" in m.shared_prompts
    assert (m.completed, m.failed, m.duration_s) == (600, 0, 60)
    assert [m.location for m in read("inference-perf")] == ["stage_0", "stage_1"]


def test_inference_perf_lengths_of_the_server_are_ratios_of_rates():
    m = only("inference-perf/stage_1_prometheus_metrics.json")
    assert (m.prompt.mean, m.output.mean) == (200, 51)
    assert (m.view, m.prefix_hit_rate) == ("server", 0.625)
    assert fits(m, "tpot") == {"time_per_output_token": "close"}


def test_inference_perf_requests_count_tokens_not_chunks():
    m = only("inference-perf-requests.json")
    # 12 times were noted for 6 tokens: 1.0 s from first to last over 5 gaps, not over 11
    assert m.records.tpot_s[:2] == pytest.approx([0.2, 0.0])
    assert m.records.ttft_s[:2] == pytest.approx([0.2, 0.25])
    assert m.records.e2e_s[:2] == pytest.approx([1.2, 0.25])
    assert m.records.max_itl_s[0] == pytest.approx(0.2)
    assert (m.sent, m.completed, m.failed) == (3, 2, 1)
    assert m.duration_s == pytest.approx(1.2)


def test_llmperf_itl_includes_ttft_and_is_replaced():
    m = only("llmperf-summary.json")
    assert fits(m, "tpot") == {"inter_token_latency_s": "other", "derived": "same"}
    # (3.0 - 0.5) / 100, exact as all outputs have 101 tokens
    assert m.tpot.mean == pytest.approx(0.025)
    assert (m.sent, m.completed, m.failed) == (52, 50, 2)
    assert m.completed_rps == pytest.approx(1.5)
    assert m.duration_s == pytest.approx(50 / 1.5)
    assert m.arrivals == Arrivals("closed_loop", concurrency=5.0)


def test_llmperf_responses():
    m = only("llmperf-responses.json")
    assert m.records.tpot_s[:2] == pytest.approx([0.025, 0.1])
    assert (m.sent, m.completed, m.failed) == (3, 2, 1)


def test_mlperf_nanoseconds():
    m = only("mlperf.txt")
    assert m.ttft.mean == pytest.approx(0.238)
    assert m.ttft.p99 == pytest.approx(0.8)
    assert m.tpot.p99 == pytest.approx(0.055)
    assert m.e2e.p999 == pytest.approx(8.9)
    assert (m.slo.ttft_s, m.slo.tpot_s, m.slo.e2e_s) == pytest.approx((2.0, 0.2, None))
    assert m.arrivals == Arrivals("poisson", 8.6, burstiness=1.0)
    assert m.output.mean == 100
    assert "result is VALID" in m.notes


def test_inferencex_lengths_are_uniform_and_nominal():
    m, _ = read("inferencex.json")
    assert m.prompt.source == "nominal"
    s = m.prompt.statistics
    # uniform on 800 to 1000: mean 900, standard deviation 200 / sqrt(12)
    assert (s.min, s.mean, s.max) == (800, 900, 1000)
    assert s.std == pytest.approx(200 / np.sqrt(12))
    assert m.arrivals == Arrivals("unlimited", concurrency=16.0)
    assert (m.engine_version, m.accelerators, m.tp_degree, m.dp_degree) == ("0.19.0", 4, 4, 1)
    assert m.output_tokens_per_s == 1000
    assert m.ttft.p99 == 2.5
    assert {"prompt_lengths", "output_lengths"} == set(m.missing)


def test_inferencex_disaggregated_rows_have_groups():
    _, m = read("inferencex.json")
    prefill, decode = m.layout
    assert (prefill.accelerators, prefill.tp_degree, prefill.dp_degree) == (8, 4, 1)
    assert (decode.accelerators, decode.tp_degree, decode.ep_degree, decode.dp_degree) == (
        24,
        8,
        8,
        8,
    )
    assert (m.accelerators, m.tp_degree) == (32, None)
    assert "tp_degree" not in m.missing


def test_prometheus_means_are_exact_and_quantiles_are_intervals():
    m = only("vllm.prom")
    assert m.ttft.mean == pytest.approx(4.0 / 40)
    assert m.ttft.p50 is None
    ttft, tpot = m.best("ttft").histogram, m.best("tpot").histogram
    assert ttft.quantile_bounds(0.5) == (0.05, 0.1)
    assert ttft.quantile_bounds(0.99) == (0.25, float("inf"))
    # a deadline of 40 ms lies within the bucket from 25 to 50 ms
    assert tpot.share_bounds(0.04) == (0.5, 1.0)
    assert tpot.share_bounds(0.05) == (1.0, 1.0)
    assert (m.prompt.mean, m.output.mean) == (100, 65)
    assert (m.completed, m.prefix_hit_rate, m.view) == (40, 0.25, "server")
    assert any("marginals only" in note for note in m.notes)


def test_prometheus_engines_of_a_model_are_added_up(tmp_path):
    text = (DATA / "vllm.prom").read_text()
    path = tmp_path / "two.prom"
    path.write_text(text + text.replace('engine="0"', 'engine="1"'))
    (two,), one = read_measurements(path), only("vllm.prom")
    assert two.ttft.count == 2 * one.ttft.count
    assert two.ttft.mean == pytest.approx(one.ttft.mean)
    assert two.prefix_hit_rate == one.prefix_hit_rate


def test_spans_are_sorted_and_keep_the_engine_times():
    m = only("spans.json")
    assert m.records.start_s == pytest.approx([0, 1, 2], abs=1e-6)
    # 0.5 s over 25 gaps; 1.0 s over 50 gaps; the third brought no token
    assert m.records.tpot_s[:2] == pytest.approx([0.02, 0.02])
    assert m.records.queue_s[:2] == pytest.approx([0.0, 0.01])
    assert (m.sent, m.completed, m.failed) == (3, 2, 1)
    assert {x.metric: x.fit for x in m.latencies} == dict.fromkeys(("ttft", "tpot", "e2e"), "close")
    # what is given later does not make the server's clock the client's
    (given,) = read("spans.json", Given(model="example/model-8b"))
    assert given.latencies == m.latencies


def test_llmd_units_and_stack():
    m = only("llm-d.yaml")
    assert m.ttft.mean == pytest.approx(0.25)  # written in ms
    assert m.tpot.mean == pytest.approx(0.0175)
    assert (m.sent, m.failed, m.completed) == (500, 12, 488)
    assert (m.accelerators, m.replicas, m.tp_degree) == (8, 2, 4)
    assert (m.engine, m.engine_version, m.duration_s) == ("vllm", "0.11.0", 100)
    assert m.arrivals == Arrivals("poisson", 5.0, burstiness=1.0)
    assert m.prefix_hit_rate == 0.125
    assert m.missing == ("precision",)


def test_dynamo_points():
    decode0, decode1, prefill0, _ = read("dynamo")
    assert (prefill0.prompt.mean, prefill0.ttft.mean) == pytest.approx((1000, 0.05))
    # x max_kv / y: 0.1 x 100,000 / 1,000 and 0.5 x 100,000 / 2,000
    assert decode0.arrivals.concurrency == pytest.approx(10)
    assert decode1.arrivals.concurrency == pytest.approx(25)
    assert decode1.tpot.mean == pytest.approx(0.01)
    assert decode1.mean_context_tokens == 2000


def test_dynamo_tables_in_seconds_are_found_out_by_their_throughput(tmp_path):
    # 1,000 tokens in 0.05 s at 10,000 tokens/s per device are 2 devices; in ms 0.002
    np.savez(
        tmp_path / "raw_data.npz",
        prefill_isl=np.array([1000, 2000]),
        prefill_ttft=np.array([0.05, 0.1]),
        prefill_thpt_per_gpu=np.array([10_000.0, 10_000.0]),
    )
    first, _ = read_measurements(tmp_path / "raw_data.npz")
    assert first.ttft.mean == pytest.approx(0.05)
    assert "in seconds" in first.notes[0]


def test_dynamo_nonsense_units_are_refused(tmp_path):
    path = tmp_path / "raw_data.npz"
    np.savez(
        path,
        prefill_isl=np.array([1000]),
        prefill_ttft=np.array([1e-9]),
        prefill_thpt_per_gpu=np.array([10_000.0]),
    )
    with pytest.raises(InputError, match="devices in milliseconds"):
        read_measurements(path)


def test_dynamo_grid_of_the_mocker(tmp_path):
    path = tmp_path / "perf.npz"
    np.savez(
        path,
        prefill_isl=np.array([100.0]),
        prefill_ttft_ms=np.array([5.0]),
        decode_active_kv_tokens=np.array([1000.0, 2000.0]),
        decode_context_length=np.array([100.0, 500.0]),
        decode_itl=np.array([[1.0, 2.0], [3.0, 4.0]]),
    )
    points = read_measurements(path)
    assert [m.location for m in points] == ["prefill[0]", *(f"decode[{i}]" for i in range(4))]
    # row 1, column 0: 2,000 active tokens in contexts of 100 are 20 requests, 3 ms
    assert points[3].arrivals.concurrency == 20
    assert points[3].tpot.mean == pytest.approx(0.003)


def test_closed_loop_means():
    public, exact, groups = read("closed-loop-means.csv")
    assert public.prompt.mean == 900
    assert exact.prompt.mean == 1000
    assert public.arrivals.mode == "unlimited"
    assert exact.arrivals.mode == "closed_loop"
    assert (public.ttft.mean, public.tpot.mean) == pytest.approx((0.12, 0.01))
    assert (public.prefix_hit_rate, exact.prefix_hit_rate) == (0.0, None)
    assert (public.accelerators, exact.accelerators) == (2, 8)
    assert exact.precision is None
    assert ("speculative decoding", "mtp") in exact.settings
    assert groups.layout[1].replicas == 5
    assert groups.layout[0].dp_degree == 4


def test_load_levels():
    closed, poisson, constant = read("levels.csv")
    assert closed.arrivals == Arrivals("closed_loop", concurrency=4.0)
    assert poisson.arrivals == Arrivals("poisson", 0.5, burstiness=1.0)
    assert constant.arrivals == Arrivals("constant", 0.6)
    assert (closed.engine, closed.engine_version) == ("vllm", "0.27.1")
    assert closed.tp_degree == 1  # one device leaves no choice
    assert (poisson.slo.ttft_s, poisson.slo.tpot_s) == pytest.approx((0.3, 0.05))
    assert (poisson.goodput_rps, poisson.attainment) == (0.45, 0.9)
    assert (poisson.completed, poisson.failed) == (96, 4)
    assert (closed.prompt.source, closed.output.source) == ("nominal", "observed")
    # 4 s over 200 gaps where the table says 10 ms
    assert constant.tpot.mean == pytest.approx(0.02)
    assert constant.best("tpot").fit == "close"


def test_requests_are_grouped_by_run():
    fast, slow = read("requests.csv")
    # 200 ms over 10 gaps, and one token
    assert fast.records.tpot_s == pytest.approx([0.02, 0.0])
    assert (fast.offered_rps, slow.offered_rps) == (4.0, None)
    assert (slow.sent, slow.completed) == (2, 1)
    assert slow.tpot.mean == pytest.approx(0.1)
    assert "arrivals" in fast.missing


def test_what_is_given_replaces_what_the_file_says_and_tells():
    given = Given(engine="vllm", accelerator="h200-sxm", prefix_hit_rate=0.0, tp_degree=1)
    (m,) = read("vllm-detailed.json", given)
    assert (m.engine, m.accelerator, m.prefix_hit_rate) == ("vllm", "h200-sxm", 0.0)
    assert "accelerator: the file says h100-sxm; h200-sxm was given" in m.notes
    assert m.missing == ()


def test_records_are_read_only():
    r = only("spans.json").records
    with pytest.raises(ValueError, match="read-only"):
        r.ttft_s[0] = 1


def test_statistics_of_ten_numbers():
    s = statistics_of(np.arange(11.0))
    assert (s.mean, s.p50, s.p90, s.min, s.max, s.count) == (5, 5, 9, 0, 10, 11)
    assert s.std == pytest.approx(np.sqrt(10))  # (n^2 - 1) / 12 with n = 11


def test_histogram_bounds_hold_the_truth():
    rng = np.random.default_rng(5)
    values = rng.exponential(0.1, 1000)
    edges = (0.05, 0.1, 0.2, 0.5, float("inf"))
    h = Histogram(edges, tuple(float((values <= edge).sum()) for edge in edges))
    for deadline in (0.03, 0.1, 0.15, 0.7):
        low, high = h.share_bounds(deadline)
        assert low <= (values <= deadline).mean() <= high
    for q in (0.1, 0.5, 0.99):
        low, high = h.quantile_bounds(q)
        assert low <= np.quantile(values, q, method="inverted_cdf") <= high


def test_engine_requests_have_the_times_of_the_engine():
    """By hand: 1 s for ten gaps; a one-token output has a TPOT of 0; one brought no token."""
    first, second = read("engine-requests.csv")
    assert (first.sent, first.completed, first.failed, second.sent) == (3, 2, 1, 1)
    assert (first.model, first.engine_version, first.accelerator) == ("llama", "0.19.0", "H100")
    records = first.records
    assert records.tpot_s[:2] == pytest.approx([0.1, 0.0])
    assert records.queue_s[:2] == pytest.approx([0.1, 0.0])
    assert records.prefill_s[:2] == pytest.approx([0.2, 0.3])
    assert np.isnan(records.ttft_s[2])


def test_the_page_names_every_format_and_every_finding():
    root = Path(__file__).parents[2]
    page = (root / "docs" / "measurements.md").read_text()
    for form in FORMATS:
        assert f"\n| {form.name} |" in page
    code = "".join((root / "planner" / "measurements" / f).read_text() for f in CHECKS)
    named = set(re.findall(r'Finding\(\s*"(\w+)"', code))
    assert len(named) > 20
    assert {name for name in named if f"`{name}`" not in page} == set()


@pytest.mark.parametrize("name", SNIFFED)
def test_giving_a_name_changes_nothing_else(name):
    for before, after in zip(read(name), read(name, Given(precision="fp8")), strict=True):
        assert after.latencies == before.latencies
        assert (after.prompt, after.output, after.arrivals, after.completed_rps) == (
            before.prompt,
            before.output,
            before.arrivals,
            before.completed_rps,
        )
