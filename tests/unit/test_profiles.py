"""Profiles: against the published numbers of real traces, closed forms and hand-worked cases."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from planner.measurements.request_trace import PrefixBlocks
from planner.problem.arrivals import BurstArrivals, PoissonArrivals, RenewalArrivals
from planner.problem.demand import read_trace
from planner.profiles.arrivals import (
    Counts,
    autocorrelation,
    counts_by,
    dispersion,
    profile_arrivals,
)
from planner.profiles.fit import distance, fit_bursts, fit_workload, law_of_cells
from planner.profiles.marginals import fit_marginal
from planner.profiles.profile import (
    concentration,
    heat_map,
    length_edges,
    prefix_reuse,
    profile_trace,
    rank_correlation,
)
from planner.simulation.arrivals import make_stream
from tests.shared import SHARED, needs_shared

TRACES = SHARED / "data" / "traces"

# rate, CV as stamped, busiest minute / mean, index of dispersion in a minute; prompt and output:
# mean, p50, p90, p95, p99, longest. Published beside the traces.
PUBLISHED = {
    "AzureLLMInferenceTrace_code.csv": (
        (2.567, 13.15, 4.10, 164),
        (2048, 1469, 5187, 7303, 7436, 7437),
        (27.9, 13, 55, 90, 251, 1899),
    ),
    "AzureLLMInferenceTrace_conv.csv": (
        (5.530, 1.09, 1.53, 16),
        (1155, 1020, 2734, 4083, 4142, 14050),
        (211, 129, 424, 451, 601, 1000),
    ),
    "mooncake_conversation_trace.jsonl.gz": (
        (3.401, 3.03, 1.21, 2.8),
        (12035, 6909, 27367, 39550, 85400, 126195),
        (343, 350, 597, 698, 1118, 2000),
    ),
    "mooncake_synthetic_trace.jsonl.gz": (
        (3.907, 1.01, 1.16, None),
        (15325, 11587, 38611, 48904, 66456, 191378),
        (149, 69, 389, 519, 768, 893),
    ),
}


@needs_shared
@pytest.mark.parametrize("name", PUBLISHED)
def test_profiles_agree_with_what_is_published(name):
    (rate, cv, peak, index), prompt, output = PUBLISHED[name]
    profile = profile_trace(read_trace(TRACES / name), name)
    arrivals = profile.arrivals
    minute = next(d for d in arrivals.dispersion if d.window_s == 60)
    assert arrivals.rate_rps == pytest.approx(rate, rel=1e-3)
    assert arrivals.cv_as_stamped == pytest.approx(cv, rel=4e-3)
    assert minute.peak == pytest.approx(peak, rel=0.01)
    assert index is None or minute.index == pytest.approx(index, rel=0.03)
    for found, told in ((profile.prompt, prompt), (profile.output, output)):
        values = (found.mean, found.p50, found.p90, found.p95, found.p99, found.max)
        assert values == pytest.approx(told, rel=3e-3, abs=0.6)


@needs_shared
@pytest.mark.parametrize(("kind", "share"), [("conversation", 0.366), ("synthetic", 0.640)])
def test_an_endless_cache_finds_the_published_share_of_blocks(kind, share):
    trace = read_trace(TRACES / f"mooncake_{kind}_trace.jsonl.gz")
    assert prefix_reuse(trace.prefix).hit_share == pytest.approx(share, abs=5e-4)


@needs_shared
def test_a_stamp_every_three_seconds_is_no_burstiness():
    trace = read_trace(TRACES / "mooncake_conversation_trace.jsonl.gz")
    assert trace.tick_s == pytest.approx(3.0)
    assert np.mean(np.diff(trace.time_s) == 0) == pytest.approx(0.902, abs=5e-4)
    assert profile_trace(trace, "m").arrivals.cv == pytest.approx(1.0, abs=0.05)


@needs_shared
def test_a_client_set_is_drawn_with_its_published_rate():
    profile = profile_trace(read_trace(TRACES / "servegen_deepseek-r1_clients.tar.gz"), "r1")
    assert profile.arrivals.rate_rps == pytest.approx(16.0, rel=0.005)
    assert profile.clients.clients == 73
    assert max(profile.arrivals.rate.rps) / 16.0 == pytest.approx(2.66, rel=0.05)


# -- by hand ------------------------------------------------------------------------------------


def test_reuse_by_hand():
    """Blocks 0 1 2 | 0 1 3 | 4 | none: 2 of 7 were there before; one request of four found some."""
    prefix = PrefixBlocks(np.array([0, 3, 6, 7, 7]), np.array([0, 1, 2, 0, 1, 3, 4], np.int32), 512)
    found = prefix_reuse(prefix)
    assert found.hit_share == pytest.approx(2 / 7)
    assert found.requests_with_hits == 0.25
    assert found.first_block_share == 0.5


def test_concentration_by_hand():
    found = concentration(np.array([0] * 6 + [1] * 3 + [2], np.int32))
    assert (found.clients, found.largest_share, found.half_of_the_load) == (3, 0.6, 1)
    assert found.ten_largest_share == 1.0


def test_ranks_share_ties_as_scipy_does():
    rng = np.random.default_rng(0)
    one, two = rng.integers(1, 9, 400), rng.integers(1, 9, 400)
    two += one // 2
    assert rank_correlation(one, two) == pytest.approx(stats.spearmanr(one, two).statistic)
    assert rank_correlation(one, np.ones(400, int)) == 0.0


@pytest.mark.parametrize("longest", [1, 2, 7, 8, 1000, 131_072])
@pytest.mark.parametrize("per_octave", [1, 2, 8])
def test_edges_of_lengths_ascend_and_hold_them_all(longest, per_octave):
    edges = length_edges(longest, per_octave)
    assert edges[0] == 1
    assert edges[-1] > longest
    assert (np.diff(edges) > 0).all()


def test_a_heat_map_holds_every_request_and_draws_them_back():
    rng = np.random.default_rng(0)
    prompt, output = (rng.lognormal(m, 1, 5_000).astype(np.int32) + 1 for m in (6, 4))
    heat = heat_map(prompt, output, 8)
    assert sum(map(sum, heat.counts)) == 5_000
    law = law_of_cells(heat)
    assert law.weight.sum() == 5_000
    assert ((law.prompt_low <= law.prompt_high) & (law.output_low <= law.output_high)).all()


def test_counts_and_dispersion_by_hand():
    """Counts 2 0 4 in windows of 1 s: mean 2, variance 8/3, index 4/3; the busiest has 2 x."""
    time_s = np.array([0.1, 0.2, 2.1, 2.2, 2.3, 2.9])
    assert counts_by(time_s, 3.0, 1.0).dense().tolist() == [2, 0, 4]
    found = dispersion(time_s, 3.0, 1.0)
    assert found.index == pytest.approx(4 / 3)
    assert found.peak == pytest.approx(2.0)


def test_the_course_of_a_day_is_no_burst():
    """Poisson arrivals whose rate doubles every hour: within each hour they are even."""
    rng = np.random.default_rng(0)
    hours = [np.sort(rng.random(rng.poisson(3600 * 2**h))) * 3600 + 3600 * h for h in range(5)]
    found = dispersion(np.concatenate(hours), 5 * 3600.0, 60.0)
    assert found.index == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize("cv", [1.0, 2.0])
def test_the_interval_of_a_dispersion_holds_the_truth(cv):
    """In long windows the index of a renewal process is CV squared."""
    law = RenewalArrivals(20.0, cv, "gamma")
    inside = 0
    for seed in range(20):
        time_s = make_stream(law, 40_000, (seed,)).at(20.0).time_s
        found = dispersion(time_s, float(time_s[-1]), 5.0)
        inside += found.low <= cv**2 <= found.high
    assert inside >= 15


def test_alternating_counts_are_anticorrelated():
    every = np.arange(100)
    found = autocorrelation(Counts(100, every, np.array([1.0, 3.0] * 50)), 2)
    assert found == pytest.approx([-1.0, 1.0], abs=0.03)
    assert autocorrelation(Counts(50, every[:50], np.ones(50)), 2) == [0.0, 0.0]


def by_hand(counts, per_hour, lags):
    """Index and autocorrelation over all windows, the empty ones written out."""
    mean = np.full(counts.size, counts.mean())
    if per_hour >= 6 and counts.size >= 2 * per_hour:
        for first in range(0, counts.size, per_hour):
            part = counts[min(first, counts.size - per_hour) :][:per_hour]
            mean[first : first + per_hour] = part.mean()
    centred = counts - counts.mean()
    power = (centred**2).sum()
    lagged = [(centred[:-lag] * centred[lag:]).sum() / power for lag in range(1, lags + 1)]
    return ((counts - mean) ** 2).sum() / counts.sum(), lagged


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    hours=st.floats(0.5, 9.0),
    window_s=st.sampled_from([60.0, 300.0, 600.0, 3600.0]),
    rate=st.floats(0.0005, 0.1),
)
def test_counts_without_the_empty_windows_tell_what_all_windows_tell(seed, hours, window_s, rate):
    rng = np.random.default_rng(seed)
    span_s = hours * 3600
    time_s = np.sort(rng.random(2 + rng.poisson(rate * span_s)) ** 2 * span_s)
    counts = counts_by(time_s, span_s, window_s)
    every = np.histogram(time_s, np.arange(counts.windows + 1) * window_s)[0].astype(float)
    assert counts.dense().tolist() == every.tolist()
    if every.sum() and every.size > 4:
        index, lagged = by_hand(every, round(3600 / window_s), 3)
        assert dispersion(time_s, span_s, window_s).index == pytest.approx(index, abs=1e-9)
        assert every.std() == 0 or autocorrelation(counts, 3) == pytest.approx(lagged, abs=1e-9)


def test_a_span_of_years_is_profiled_in_the_memory_of_its_requests():
    """Two bursts nine years apart: 28 million windows of ten seconds, 2,000 of them with any."""
    burst = np.sort(np.random.default_rng(0).random(1_000)) * 1e4
    time_s = np.concatenate([burst, burst + 9 * 365.25 * 86_400])
    tracemalloc.start()
    found = profile_arrivals(time_s, float(time_s[-1]) * 1.0005, time_s, 0.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 2**20
    assert len(found.rate.rps) <= 240
    by_window = np.array(found.rate.rps) * found.rate.window_s
    assert by_window.sum() == pytest.approx(2_000)


# -- fits ---------------------------------------------------------------------------------------


def test_bursts_are_found_from_their_own_dispersion():
    """The closed form of the index in, the lengths of bursts and quiet out."""
    law = BurstArrivals(10.0, 5.0, 20.0, 0.25)
    r = 1 / 5 + 1 / 20
    a = 2 * 0.2 * 0.8 * ((law.burst_level - 0.25) * 10) ** 2 / (10 * r)
    index = [(t, 1 + a * (1 - (1 - np.exp(-r * t)) / (r * t))) for t in (1.0, 10.0, 60.0, 600.0)]
    found = fit_bursts(10.0, index, 0.25)
    assert found.burst_s == pytest.approx(5.0, rel=0.1)
    assert found.quiet_s == pytest.approx(20.0, rel=0.1)


def test_even_counts_have_no_bursts():
    assert fit_bursts(10.0, [(1.0, 1.01), (10.0, 1.0)], 0.5) is None


@pytest.mark.parametrize("tokens", ["lognormal", "gamma", "mixture"])
def test_marginals_are_recognised(tokens):
    rng = np.random.default_rng(1)
    sample = {
        "lognormal": rng.lognormal(6, 0.8, 20_000),
        "gamma": rng.gamma(2.0, 400, 20_000),
        "mixture": np.where(
            rng.random(20_000) < 0.3, rng.lognormal(8, 0.2, 20_000), rng.lognormal(4, 0.3, 20_000)
        ),
    }[tokens]
    found = fit_marginal(np.maximum(np.rint(sample), 1).astype(np.int32))
    assert found.distance < 0.015
    assert found.document.fixed is None


def test_equal_lengths_are_fixed():
    assert fit_marginal(np.full(50, 7, np.int32)).document.fixed == 7


@needs_shared
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("AzureLLMInferenceTrace_code.csv", "bursts"),
        ("mooncake_synthetic_trace.jsonl.gz", "poisson"),
    ],
)
def test_a_fit_has_the_dispersion_of_its_trace_at_every_scale(name, kind):
    trace = read_trace(TRACES / name)
    found = fit_workload(trace, profile_trace(trace, name))
    assert found.arrivals.name == kind
    assert found.arrivals.worst_factor < 1.35
    assert found.histogram_distance < 0.05


def test_distance_of_samples_is_that_of_kolmogorov_and_smirnov():
    rng = np.random.default_rng(0)
    one, two = rng.integers(0, 50, 300), rng.integers(5, 60, 500)
    assert distance(one, two) == pytest.approx(stats.ks_2samp(one, two).statistic)


def test_poisson_arrivals_have_cv_and_dispersion_one():
    time_s = make_stream(PoissonArrivals(10.0), 50_000, (3,)).at(10.0).time_s
    assert dispersion(time_s, float(time_s[-1]), 1.0).index == pytest.approx(1.0, abs=0.06)


def test_a_metronome_is_fitted_as_one(tmp_path):
    """Counts without any spread: the nearest of the laws has a CV of about 0, not Poisson's 1."""
    path = tmp_path / "log.csv"
    path.write_text(
        "arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{i},5,6\n" for i in range(900))
    )
    trace = read_trace(path)
    found = fit_workload(trace, profile_trace(trace, "x"))
    assert found.arrivals.law.cv < 0.1
    assert np.isfinite(found.arrivals.worst_factor)
