"""Findings: contaminated, failed, unstable and capped runs, and books that do not close."""

from pathlib import Path

import numpy as np
import pytest

from planner.measurements.books import mean_e2e_s, mean_in_flight
from planner.measurements.build import (
    CLIENT_E2E,
    CLIENT_TTFT,
    TOKEN_TPOT,
    finished,
    records,
    tpot_of,
)
from planner.measurements.checks import findings, findings_together, hit_rate_mismatch
from planner.measurements.measurement import Arrivals, Lengths, Measurement, Statistics


def lengths(mean, **changes):
    return Lengths(Statistics(mean=mean, **changes), "observed")


def measured(ttft=None, tpot=None, e2e=None, **changes):
    """A measurement of means, in seconds."""
    latencies = ()
    for definition, mean in ((CLIENT_TTFT, ttft), (TOKEN_TPOT, tpot), (CLIENT_E2E, e2e)):
        if mean is not None:
            statistics = mean if isinstance(mean, Statistics) else Statistics(mean=mean)
            latencies += definition.of(statistics, definition.metric)
    common = {"format": "x", "tool": "x", "path": Path("x"), "location": "", "failed": 0}
    clean = {"prefix_hit_rate": 0.0}
    return finished(Measurement(latencies=latencies, **{**common, **clean, **changes}))


def names(m, **options):
    return {finding.name for finding in findings(m, **options)}


def only(m, name, **options):
    (finding,) = (f for f in findings(m, **options) if f.name == name)
    return finding


def overload_on_h20():
    """Offered 3.2 req/s, served 2.56: a measured run of two prefill nodes and one decode node."""
    return measured(
        ttft=24.7669,
        tpot=0.14994,
        e2e=219.53381,
        arrivals=Arrivals("poisson", 3.2, concurrency=640.0),
        offered_rps=3.2,
        completed_rps=2.56,
        sent=4096,
        completed=4096,
        duration_s=1600.93,
        mean_concurrency=561.68,
        prompt=lengths(4096),
        output=lengths(1300, std=0.0),
    )


def test_an_overloaded_run_is_called_unstable():
    finding = only(overload_on_h20(), "served_below_offered")
    assert finding.severity == "error"
    assert "unstable" in finding.what
    assert "forecasts nothing" in finding.what
    # 4096 / (4096 / 3.2 s + 219.5 s)
    assert dict(finding.numbers)["expected_if_stable_rps"] == pytest.approx(2.7314, rel=1e-4)


def test_an_overloaded_run_that_is_capped_says_that_the_cap_hides_the_queue():
    finding = only(overload_on_h20(), "client_capped")
    assert "client-side concurrency cap hides part of the queue" in finding.what


def test_the_books_of_the_overloaded_run_balance():
    m = overload_on_h20()
    assert m.ttft.mean + 1299 * m.tpot.mean == pytest.approx(219.53381, rel=0.001)
    assert mean_in_flight(m) == pytest.approx(561.68, rel=0.002)
    assert not {"littles_law_fails", "times_do_not_add_up"} & names(m)


def test_a_short_stable_run_below_its_offered_rate_is_not_called_unstable():
    # 120 requests at 1 req/s and 5 s each end after 125 s: 0.96 req/s, and nothing saturates
    m = measured(e2e=5.0, offered_rps=1.0, completed_rps=0.96, sent=120, completed=120)
    assert "served_below_offered" not in names(m)


def test_without_the_number_of_requests_it_is_a_warning():
    m = measured(e2e=5.0, offered_rps=10.0, completed_rps=8.0)
    assert only(m, "served_below_offered").severity == "warning"


def test_a_hit_rate_that_is_not_stated_is_a_warning():
    finding = only(measured(prefix_hit_rate=None), "prefix_hit_rate_unstated")
    assert finding.severity == "warning"


def test_identical_prompts_must_not_stand_for_distinct_ones():
    # Llama-3.1-8B, 128/128 offline: 151.99 req/s with identical prompts, 95.80 with distinct
    identical = measured(prefix_hit_rate=0.9, completed_rps=151.99)
    finding = hit_rate_mismatch(identical, 0.0)
    assert finding.severity == "error"
    assert "not comparable" in finding.what
    assert hit_rate_mismatch(measured(prefix_hit_rate=0.0), 0.02) is None
    assert hit_rate_mismatch(measured(prefix_hit_rate=None), 0.0).severity == "warning"
    assert "served_from_prefix_cache" in names(identical)


def test_ttft_below_a_cold_prefill_betrays_the_cache():
    m = measured(ttft=Statistics(mean=0.4, p50=0.05), prompt=lengths(4000))
    # the law: 50 microseconds a token, so 200 ms for 4,000
    finding = only(m, "ttft_below_cold_prefill", cold_prefill_s=lambda tokens: tokens * 5e-5)
    assert finding.severity == "error"
    assert "75%" in finding.what
    assert "ttft_below_cold_prefill" not in names(m, cold_prefill_s=lambda tokens: tokens * 1e-5)


def test_shared_prompts_are_a_warning_until_the_hit_rate_is_known():
    assert only(measured(shared_prompts="x", prefix_hit_rate=None), "shared_prompts").severity == (
        "warning"
    )
    assert only(measured(shared_prompts="x"), "shared_prompts").severity == "note"


def test_repeated_outputs(tmp_path):
    text = "the very same answer, of more than forty characters"
    assert "repeated_prompts" in names(_with_texts(tmp_path, [text] * 4))
    assert "repeated_prompts" not in names(_with_texts(tmp_path, [f"{i} {text}" for i in range(4)]))


def _with_texts(folder, texts):
    import json

    from planner.measurements.read import read_measurements

    data = Path(__file__).parents[1] / "data" / "measurements" / "vllm-detailed.json"
    path = folder / "x.json"
    path.write_text(json.dumps({**json.loads(data.read_text()), "generated_texts": texts}))
    return read_measurements(path)[0]


def test_failures_by_share():
    assert only(measured(failed=1, completed=99, sent=100), "requests_failed").severity == "warning"
    assert only(measured(failed=9, completed=91, sent=100), "requests_failed").severity == "error"
    assert only(measured(failed=9), "requests_failed").severity == "warning"
    assert only(measured(failed=None), "failures_unstated").severity == "note"


def run_of(ttft, **changes):
    n = len(ttft)
    output = np.full(n, 11.0)
    e2e = ttft + 0.2
    of = records(
        n,
        start_s=np.arange(n) * 0.1,
        prompt_tokens=np.full(n, 100.0),
        output_tokens=output,
        ttft_s=ttft,
        e2e_s=e2e,
        tpot_s=tpot_of(e2e, ttft, output),
    )
    return measured(records=of, **changes)


def test_a_queue_that_grows_shows_in_ttft():
    # grows by 1 s every 100 requests: the mean of a run twice as long is twice as high
    finding = only(run_of(np.arange(1, 1001) / 100), "ttft_rises")
    assert finding.severity == "error"
    # requests 101 to 1000: mean 5.505 s, of their first half 3.255 s
    assert dict(finding.numbers)["growth_when_doubled"] == pytest.approx(5.505 / 3.255, rel=1e-3)


def test_noise_and_a_first_burst_are_no_trend():
    rng = np.random.default_rng(3)
    for seed in range(50):
        noise = np.random.default_rng(seed).exponential(0.2, 400)
        assert "ttft_rises" not in names(run_of(noise))
    burst = np.concatenate([np.linspace(3, 0.2, 100), 0.2 + 0.05 * rng.random(300)])
    assert "ttft_rises" not in names(run_of(burst))


def test_records_in_another_order_tell_the_same():
    growing = np.arange(1, 1001) / 100
    m = run_of(growing)
    order = np.random.default_rng(1).permutation(1000)
    r = m.records
    mixed = records(
        1000,
        **{
            name: getattr(r, name)[order]
            for name in ("start_s", "prompt_tokens", "output_tokens", "ttft_s", "e2e_s", "tpot_s")
        },
    )
    assert only(measured(records=mixed), "ttft_rises") == only(m, "ttft_rises")


def test_a_client_that_cannot_send_its_rate():
    m = measured(offered_rps=122.6, sent_rps=106.5)
    assert only(m, "client_below_offered").severity == "error"
    assert "client_below_offered" not in names(measured(offered_rps=100.0, sent_rps=99.0))


def test_littles_law_of_a_closed_loop():
    users = Arrivals("closed_loop", concurrency=8.0)
    # 4 req/s x 2 s = 8 users: the books close
    closes = measured(e2e=2.0, completed_rps=4.0, completed=400, duration_s=100.0, arrivals=users)
    assert "littles_law_fails" not in names(closes)
    # 12 in flight behind 8 users cannot be
    more = measured(e2e=3.0, completed_rps=4.0, completed=400, duration_s=100.0, arrivals=users)
    assert only(more, "littles_law_fails").severity == "error"
    # 4 in flight: half the users idle
    fewer = measured(e2e=1.0, completed_rps=4.0, completed=400, duration_s=100.0, arrivals=users)
    assert only(fewer, "littles_law_fails").severity == "warning"


def test_littles_law_against_the_told_concurrency():
    assert "littles_law_fails" in names(measured(e2e=2.0, completed_rps=4.0, mean_concurrency=20.0))


def test_end_to_end_time_follows_where_it_is_not_told():
    m = measured(ttft=0.5, tpot=0.02, output=lengths(101))
    assert mean_e2e_s(m) == pytest.approx(2.5)


def test_tokens_and_duration_follow_from_the_rate():
    good = {"completed_rps": 4.0, "completed": 400, "duration_s": 100.0, "output": lengths(50)}
    assert not {
        "tokens_are_not_rate_times_length",
        "duration_is_not_requests_over_rate",
    } & names(measured(output_tokens_per_s=200.0, **good))
    wrong = measured(output_tokens_per_s=150.0, **{**good, "duration_s": 50.0})
    assert {
        "tokens_are_not_rate_times_length",
        "duration_is_not_requests_over_rate",
    } <= names(wrong)


def test_times_that_do_not_add_up_are_an_error_where_outputs_are_equally_long():
    # 100 gaps of 10 ms are 1 s, but 2 s lie between first and last token
    equal = measured(ttft=0.5, tpot=0.01, e2e=2.5, output=lengths(101, std=0.0))
    assert only(equal, "times_do_not_add_up").severity == "error"
    mixed = measured(ttft=0.5, tpot=0.01, e2e=2.5, output=lengths(101, std=50.0))
    assert only(mixed, "times_do_not_add_up").severity == "warning"


def test_quantiles_that_fall():
    assert "quantiles_out_of_order" in names(measured(ttft=Statistics(p50=2.0, p99=1.0)))
    assert "quantiles_out_of_order" in names(measured(ttft=Statistics(mean=3.0, max=1.0)))
    assert "quantiles_out_of_order" not in names(measured(ttft=Statistics(mean=3.0, p50=1.0)))


def test_summaries_that_contradict_their_requests():
    m = measured(ttft=0.3, completed=100, records=run_of(np.full(100, 0.2)).records)
    assert "records_contradict_summary" in names(m)
    assert "records_are_cut" in names(run_of(np.full(100, 0.2), completed=1000))


def test_few_requests_and_few_rounds():
    users = Arrivals("closed_loop", concurrency=64.0)
    assert {"few_requests", "few_rounds"} <= names(measured(completed=80, arrivals=users))
    assert not {"few_requests", "few_rounds"} & names(measured(completed=640, arrivals=users))


def test_speculative_decoding_is_told():
    m = measured(settings=(("spec_decode_acceptance_length", "2.4"),))
    assert "speculative_decoding" in names(m)


def test_a_repeat_that_is_faster_and_a_copy_are_found_together():
    users = Arrivals("closed_loop", concurrency=8.0)
    first = measured(ttft=Statistics(p50=0.4), arrivals=users)
    repeat = measured(ttft=Statistics(p50=0.1), arrivals=users)
    found = {f.name: f for f in findings_together([first, repeat, first])}
    assert set(found) == {"copies", "repeat_is_faster"}
    assert dict(found["copies"].numbers) == {"copies": 1}
    other = measured(ttft=Statistics(p50=0.1), arrivals=Arrivals("closed_loop", concurrency=1.0))
    assert findings_together([first, other]) == ()


def test_a_clean_run_has_no_finding():
    m = run_of(
        np.full(200, 0.2),
        completed=200,
        sent=200,
        duration_s=20.0,
        completed_rps=10.0,
        offered_rps=10.0,
        arrivals=Arrivals("poisson", 10.0, burstiness=1.0),
    )
    assert findings(m) == ()
