"""Readers over real files of the tools, which are not part of the repository."""

import numpy as np
import pytest

from planner.measurements.checks import findings, findings_together
from planner.measurements.read import read_measurements, sniff
from tests.shared import SHARED, needs_shared

DATA = SHARED / "data"
pytestmark = needs_shared

FORMATS = DATA / "benchmark-formats"


def names(m):
    return {finding.name for finding in findings(m)}


def test_a_real_vllm_sweep_closes_its_books():
    levels = read_measurements(FORMATS / "vllm" / "sweep" / "summary_first8.csv")
    assert [m.arrivals.concurrency for m in levels] == [1, 1, 8, 8, 32, 32, 64, 64]
    for m in levels:
        assert (m.prompt.mean, m.output.mean) == (4000, 200)
        assert m.e2e.mean == pytest.approx(m.ttft.mean + 199 * m.tpot.mean, rel=1e-6)
        assert not {n for n in names(m) if n.endswith(("fails", "length", "rate", "up"))}
    assert findings_together(levels) == ()
    (run,) = read_measurements(FORMATS / "vllm" / "sweep")
    assert run.completed_rps * run.e2e.mean == pytest.approx(8, rel=0.01)


def test_real_vllm_details_that_were_cut_are_not_used():
    (m,) = read_measurements(FORMATS / "vllm" / "benchmark_serving_detailed_2024-11.json")
    assert m.ttft.p99 == pytest.approx(9.912536, rel=1e-6)
    assert {"records_are_cut", "served_below_offered"} <= names(m)
    assert m.e2e is None  # only the cut requests would tell


def test_a_real_inference_perf_stage_counts_chunks():
    for m in read_measurements(FORMATS / "inference-perf"):
        assert m.best("tpot").fit == "close"
        assert m.tpot.mean == pytest.approx((1.021272 - 0.050549) / (62.32544 - 1), rel=1e-5)
        assert m.arrivals.concurrency == 440
        assert "prefix_hit_rate" in m.missing


def test_a_real_guidellm_report():
    two, four = read_measurements(FORMATS / "guidellm" / "guidellm_report_v2.json")
    assert (two.arrivals.rate_rps, four.arrivals.rate_rps) == (2, 4)
    # 7 gaps of outputs of 8 tokens, from E2E and TTFT
    assert two.tpot.mean == pytest.approx((0.0197891 - 0.0114812) / 7, rel=0.04)


def test_real_aiperf_files():
    (m,) = read_measurements(FORMATS / "aiperf" / "profile_export.jsonl")
    # 3,612.5 ms over 199 gaps, as the tool itself divides
    assert m.records.tpot_s[0] == pytest.approx(0.018153352603, rel=1e-9)
    assert m.failed == 1
    (summary,) = read_measurements(FORMATS / "aiperf" / "profile_export_aiperf_excerpt.json")
    assert summary.completed_rps * summary.e2e.mean == pytest.approx(1, rel=0.1)


def test_a_real_genai_perf_table_adds_up():
    (m,) = read_measurements(FORMATS / "genai-perf" / "profile_genai_perf.csv")
    assert m.e2e.mean == pytest.approx(m.ttft.mean + m.tpot.mean * (m.output.mean - 1), rel=0.01)


def test_a_scrape_knows_an_interval():
    (m,) = read_measurements(FORMATS / "prometheus" / "vllm_scrape_excerpt.prom")
    histogram = m.best("ttft").histogram
    assert histogram.share_bounds(0.05) == (97 / 140, 123 / 140)
    assert histogram.quantile_bounds(0.5) == (0.02, 0.04)


def test_the_other_samples_are_read():
    assert sniff(FORMATS / "llm-d" / "br_v0_2_1_example.yaml") == "llm-d report"
    assert sniff(FORMATS / "dynamo") == "dynamo profile"
    assert len(read_measurements(FORMATS / "dynamo")) == 16
    (m,) = read_measurements(FORMATS / "llm-d" / "br_v0_2_1_example.yaml")
    assert (m.accelerators, m.tp_degree, m.prefix_hit_rate) == (16, 8, 0.653)


def test_closed_loop_means_of_real_runs():
    rows = read_measurements(DATA / "silicon" / "closed_loop_means.csv")
    assert len(rows) == 1957
    single = [m for m in rows if not m.layout]
    disaggregated = [m for m in rows if m.layout]
    assert len(disaggregated) == 195
    assert all(m.ttft.mean > 0 and m.tpot.mean > 0 for m in rows)
    assert all(m.tp_degree for m in single)
    plain = [m for m in rows if "speculative_decoding" not in names(m)]
    assert len(plain) == 1768


def test_constant_rate_ladders_saturate_and_count_chunks():
    rows = read_measurements(DATA / "measured" / "h100_llama8b_rate_ladders.csv")
    assert len(rows) == 28
    assert all(m.best("tpot").fit == "close" for m in rows)
    assert all(
        m.output_tokens_per_s == pytest.approx(m.completed_rps * m.output.mean) for m in rows
    )
    saturated = [m for m in rows if m.sent_rps < 0.97 * m.offered_rps]
    assert saturated
    for m in saturated:
        assert {"client_below_offered", "served_below_offered"} <= names(m)


def test_mlperf_rows_are_feasible_points():
    rows = read_measurements(DATA / "measured" / "mlperf.csv")
    server = [m for m in rows if m.arrivals and m.arrivals.mode == "poisson" and m.ttft and m.slo]
    within = [
        m.ttft.p99 <= m.slo.ttft_s and m.tpot.p99 <= m.slo.tpot_s
        for m in server
        if m.slo.ttft_s and m.slo.tpot_s and m.tpot
    ]
    assert len(within) > 300
    assert np.mean(within) > 0.99


def test_requests_of_real_runs_match_the_published_means():
    runs = {m.location: m for m in read_measurements(
        DATA / "measured" / "llama405b_h100_mi300x_requests.csv.gz"
    )}  # fmt: skip
    assert len(runs) == 6
    h100 = runs["8xH100SXM5-serving at 16 req/s"]
    # the tool leaves requests of one token, and of none, out of its mean of TPOT
    longer = h100.records.output_tokens > 1
    assert h100.records.tpot_s[longer].mean() == pytest.approx(0.1065389, rel=0.02)
    assert "requests_failed" in names(h100)


def test_qwen_ladders():
    rows = read_measurements(DATA / "measured" / "h100_qwen3_8b_closed_loop.csv")
    assert len(rows) == 87
    assert all(m.tp_degree == 1 and m.slo.ttft_s == 2 for m in rows)
    mixed = read_measurements(DATA / "measured" / "open_loop_l40s_mi300x.csv")
    assert sum(m.arrivals.mode == "poisson" for m in mixed) == 3
    assert {m.prefix_hit_rate for m in mixed} == {0.0, 0.8}
