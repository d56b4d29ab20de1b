"""Streams of arrivals: rate, spread and bursts against closed forms; thinning, merging, replay."""

import numpy as np
import pytest
from scipy import stats

from planner.problem.arrivals import (
    BurstArrivals,
    PoissonArrivals,
    RenewalArrivals,
    ReplayArrivals,
)
from planner.simulation.arrivals import make_stream, renewal_gaps, weibull_shape
from planner.simulation.draw import HORIZON_S, Draws
from tests.problems import fixed, trace

N = 60_000


def gaps(law, rate=None, n=N, seed=1):
    return np.diff(make_stream(law, n, (seed,)).at(rate or law.rate_rps).time_s)


@pytest.mark.parametrize("cv", [1e-4, 0.003, 0.3, 0.8, 1.5, 3.0, 6.0])
def test_weibull_shapes_solve_for_the_cv(cv):
    assert stats.weibull_min(weibull_shape(cv)).std() / stats.weibull_min(
        weibull_shape(cv)
    ).mean() == pytest.approx(cv, rel=1e-6)


@pytest.mark.parametrize("family", ["gamma", "weibull"])
@pytest.mark.parametrize("cv", [0.5, 1.0, 3.0])
def test_gaps_of_a_renewal_process_follow_their_law(family, cv):
    found = gaps(RenewalArrivals(20.0, cv, family))
    law = stats.gamma(1 / cv**2, scale=cv**2 / 20)
    if family == "weibull":
        shape = weibull_shape(cv)
        law = stats.weibull_min(shape, scale=1 / 20 / stats.weibull_min(shape).mean())
    assert found.mean() == pytest.approx(1 / 20, rel=0.01)
    assert found.std() / found.mean() == pytest.approx(cv, rel=0.02)
    exact = renewal_gaps(family, cv, make_stream(PoissonArrivals(1.0), N, (1,)).score) / 20
    assert stats.kstest(exact, law.cdf).statistic < 1e-3


def test_cv_1_is_poisson_and_cv_0_a_metronome():
    score = make_stream(PoissonArrivals(1.0), 1_000, (4,)).score
    assert renewal_gaps("gamma", 1.0, score) == pytest.approx(score, rel=1e-2)
    assert set(renewal_gaps("weibull", 0.0, score)) == {1.0}


@pytest.mark.parametrize("family", ["gamma", "weibull"])
def test_a_share_of_a_stream_is_the_stream_thinned(family):
    """A second route: draw the whole stream and keep each arrival with the share's probability."""
    law, share = RenewalArrivals(20.0, 3.0, family), 0.3
    whole = make_stream(law, 400_000, (3,)).at(20.0).time_s
    kept = np.diff(whole[np.random.default_rng(0).random(whole.size) < share])
    ours = gaps(law, 20.0 * share)
    expected = np.sqrt(1 + share * (3.0**2 - 1))
    assert kept.std() / kept.mean() == pytest.approx(expected, rel=0.03)
    assert ours.std() / ours.mean() == pytest.approx(expected, rel=0.03)


def dispersion(time_s, window_s):
    counts = np.bincount((time_s // window_s).astype(int))[:-1]
    return counts.var() / counts.mean()


@pytest.mark.parametrize("window_s", [1.0, 10.0, 100.0])
def test_bursts_have_the_dispersion_of_the_markov_modulated_process(window_s):
    """Variance / mean of counts in t: 1 + A (1 - (1 - e^-rt) / rt), r the sum of both rates."""
    law = BurstArrivals(10.0, 5.0, 20.0, 0.25)
    time_s = make_stream(law, 1_500_000, (2,)).at(10.0).time_s
    high, low = law.burst_level * 10, law.quiet_level * 10
    leave_burst, leave_quiet = 1 / law.burst_s, 1 / law.quiet_s
    r = leave_burst + leave_quiet
    share = leave_quiet / r
    variance = share * (1 - share) * (high - low) ** 2  # of the rate
    a = 2 * variance / (10.0 * r)
    x = r * window_s
    expected = 1 + a * (1 - (1 - np.exp(-x)) / x)
    assert share * high + (1 - share) * low == pytest.approx(10.0)
    assert dispersion(time_s, window_s) == pytest.approx(expected, rel=0.12)


def test_independent_sources_smooth_each_other():
    """The index of dispersion less 1 is that of one source over their number."""
    one, nine = (BurstArrivals(10.0, 5.0, 20.0, 0.0, sources) for sources in (1, 9))
    found = [
        np.mean([dispersion(make_stream(law, 400_000, (s,)).at(10.0).time_s, 10.0) for s in (1, 2)])
        for law in (one, nine)
    ]
    assert (found[0] - 1) / (found[1] - 1) == pytest.approx(9.0, rel=0.15)


def test_bursts_last_as_long_at_any_rate():
    """At half the rate each arrival of the whole comes at the same operational time, later."""
    law = BurstArrivals(10.0, 5.0, 20.0, 0.0)
    stream = make_stream(law, 20_000, (2,))
    for rate in (1.0, 10.0, 40.0):
        time_s = stream.at(rate).time_s
        silent = np.diff(time_s)[np.diff(time_s) > 3.0 / min(rate, 1.0) + 10]
        assert silent.max() < 20.0 * 15
        assert silent.mean() == pytest.approx(30.0, rel=0.35)  # 10 s and an exponential of 20 s


def test_a_stream_has_its_rate_and_is_the_same_for_the_same_entropy():
    for law in (RenewalArrivals(5.0, 2.0, "gamma"), BurstArrivals(5.0, 2.0, 8.0, 0.1)):
        one, two = (make_stream(law, N, (8,)).at(5.0).time_s for _ in range(2))
        assert np.array_equal(one, two)
        assert N / one[-1] == pytest.approx(5.0, rel=0.05)
        assert (np.diff(one) >= 0).all()


# -- replay -----------------------------------------------------------------------------------

TIMES = np.sort(np.random.default_rng(0).random(500)) * 100.0
LENGTHS = np.arange(1, 501, dtype=np.int32), np.arange(501, 1, -1, dtype=np.int32)


def replay(rate, squeeze=False, n=500):
    law = ReplayArrivals(rate, TIMES, 100.0, LENGTHS, squeeze)
    return make_stream(law, n, (1,)).at(rate)


def test_at_its_own_rate_a_trace_is_replayed_as_it_is_but_for_its_beginning():
    found = replay(5.0)
    prompt = found.lengths[0]
    start = prompt[0] - 1
    assert np.array_equal(prompt, np.roll(LENGTHS[0], -start))
    assert np.diff(found.time_s)[: 500 - start - 1] == pytest.approx(np.diff(TIMES)[start:])
    assert np.array_equal(found.lengths[1], 502 - prompt)


def test_a_lower_rate_keeps_a_random_part_of_the_requests_where_they_were():
    found = replay(1.25, n=400)
    assert 400 / found.time_s[-1] == pytest.approx(1.25, rel=0.1)
    shift = (TIMES[found.lengths[0] - 1] - found.time_s) % 100.0
    assert np.ptp(np.sin(shift * 2 * np.pi / 100)) < 1e-9


def test_a_higher_rate_lays_whole_copies_over_each_other():
    found = replay(12.5, n=1_250)
    assert found.time_s[-1] == pytest.approx(100.0, rel=0.05)
    counts = np.bincount(found.lengths[0], minlength=501)[1:]
    assert set(counts) <= {1, 2, 3, 4}
    assert counts.mean() == pytest.approx(2.5, rel=0.03)


def test_more_load_only_adds_requests():
    """Common random numbers: what arrives at a rate also arrives, at the same time, at more."""
    less, more = replay(3.0, n=280), replay(3.5, n=400)
    times = set(np.round(more.time_s, 9))
    inside = less.time_s <= more.time_s[-1]
    assert set(np.round(less.time_s[inside], 9)) <= times


def test_hardly_any_of_a_trace_is_drawn_at_its_rate_and_without_the_rest():
    """One request in ten thousand: gaps count the trace's requests, so they are exponential."""
    found = replay(5e-4, n=4_000)
    assert found.time_s.size == 4_000
    gap = np.diff(found.time_s)
    assert gap.mean() == pytest.approx(2_000, rel=0.05)
    assert gap.std() / gap.mean() == pytest.approx(1.0, abs=0.05)
    shift = (TIMES[found.lengths[0] - 1] - found.time_s) % 100.0
    assert np.ptp(np.sin(shift * 2 * np.pi / 100)) < 1e-5
    assert replay(1e-300, n=100).time_s.size == 100


@pytest.mark.parametrize("rate", [4e3, 6e3, 1e6, 1e9])
def test_very_many_copies_are_a_poisson_process_of_their_rate(rate):
    found = replay(rate, n=20_000)
    assert found.time_s.size == 20_000
    gap = np.diff(found.time_s)
    assert gap.mean() == pytest.approx(1 / rate, rel=0.05)
    assert gap.std() / gap.mean() == pytest.approx(1.0, abs=0.05)


def test_squeezing_divides_every_gap():
    own, faster = replay(5.0, squeeze=True), replay(20.0, squeeze=True)
    assert faster.time_s * 4 == pytest.approx(own.time_s)


# -- several workloads --------------------------------------------------------------------------


def test_streams_of_several_workloads_are_merged_and_keep_their_own_spread():
    laws = (RenewalArrivals(30.0, 3.0, "gamma"), PoissonArrivals(10.0))
    draw = Draws((fixed(50, 5), trace((7, 1), (9, 2))), 3, laws).get((30.0, 10.0), N, 0, 0)
    traffic = draw.at(40.0)
    assert (np.diff(traffic.arrival_ps) >= 0).all()
    for w, (rate, cv) in enumerate(((30.0, 3.0), (10.0, 1.0))):
        mine = traffic.workload == w
        gap = np.diff(traffic.arrival_ps[mine]) * 1e-12
        assert 1 / gap.mean() == pytest.approx(rate, rel=0.03)
        assert gap.std() / gap.mean() == pytest.approx(cv, rel=0.03)
    assert set(traffic.prompt[traffic.workload == 0]) == {50}
    assert set(traffic.prompt[traffic.workload == 1]) == {7, 9}
    assert traffic.arrival_ps.size > 0.98 * N


def test_poisson_workloads_share_one_stream():
    draw = Draws((fixed(50, 5), fixed(60, 6)), 3).get((3.0, 1.0), 1_000, 0, 0)
    traffic = draw.at(4.0)
    assert draw.streams == ()
    assert traffic.prompt is draw.prompt
    assert np.array_equal(traffic.arrival_ps, draw.arrival_ps(4.0))


def test_a_replayed_request_keeps_its_lengths_in_a_mix():
    law = ReplayArrivals(5.0, TIMES, 100.0, LENGTHS)
    pairs = trace(*zip(*(a.tolist() for a in LENGTHS), strict=True))
    draw = Draws((fixed(1, 1), pairs), 3, (PoissonArrivals(5.0), law)).get((5.0, 5.0), 900, 0, 0)
    traffic = draw.at(10.0)
    mine = traffic.workload == 1
    assert mine.sum() > 300
    assert (traffic.prompt[mine] + traffic.output[mine] == 502).all()


def test_a_burst_a_year_still_fits_the_clock():
    laws = (BurstArrivals(1e-6, 60.0, 6e5, 0.0),)
    arrival = Draws((fixed(1, 1),), 1, laws).get((1.0,), 1_000, 0, 0).at(1e-7).arrival_ps
    assert arrival[-1] * 1e-12 <= HORIZON_S * (1 + 1e-9)
