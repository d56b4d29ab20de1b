"""Each distribution of lengths: draws against scipy's laws, closed forms and hand-worked ones."""

import numpy as np
import pytest
from scipy import stats

from planner.problem.lengths import (
    CutLengths,
    GammaLength,
    IndependentLengths,
    LengthMarginal,
    MixedLength,
    MixedLengths,
    ParetoLength,
    UniformLength,
    ZipfLength,
)
from planner.simulation.lengths import draw_lengths, longest_request
from planner.simulation.marginals import quantile
from tests.problems import fixed, trace

N = 50_000
MIDDLE = (np.arange(N) + 0.5) / N
LAWS = {
    "gamma": (GammaLength(800, 2.0), stats.gamma(0.25, scale=3200)),
    "pareto": (ParetoLength(100, 1.5, np.inf), stats.pareto(1.5, scale=100)),
    "cut pareto": (ParetoLength(100, 0.8, 50_000), stats.truncpareto(0.8, 500, scale=100)),
}


@pytest.mark.parametrize("name", LAWS)
def test_quantiles_are_those_of_the_law(name):
    """Stratified, so the distance is that of the middles of N slices: half a slice."""
    law, expected = LAWS[name]
    assert stats.kstest(quantile(law, MIDDLE), expected.cdf).statistic < 0.51 / N


@pytest.mark.parametrize("name", LAWS)
def test_a_draw_with_random_strata_passes_a_test_against_its_law(name):
    """Independent probabilities, so that the test's own distribution holds."""
    law, expected = LAWS[name]
    u = np.random.default_rng(5).random(4_000)
    assert stats.kstest(quantile(law, u), expected.cdf).pvalue > 0.01


def test_a_pareto_tail_has_the_exponent_that_was_asked_for():
    """Hill's estimator over the largest 2 %; its standard error is tail / sqrt(k)."""
    u = np.random.default_rng(3).random(200_000)
    lengths = np.sort(quantile(ParetoLength(50, 1.3, np.inf), u))[::-1]
    k = 4_000
    tail = 1 / np.log(lengths[:k] / lengths[k]).mean()
    assert tail == pytest.approx(1.3, abs=3 * 1.3 / np.sqrt(k))


def test_zipf_weights_fall_as_a_power():
    """Over 1..4 with exponent 1 the weights are 12 : 6 : 4 : 3."""
    lengths = quantile(ZipfLength(1, 4, 1.0), (np.arange(25) + 0.5) / 25)
    assert np.bincount(lengths.astype(int)).tolist() == [0, 12, 6, 4, 3]


def test_uniform_takes_every_whole_length_alike():
    lengths = quantile(UniformLength(7, 11), (np.arange(50) + 0.5) / 50)
    assert np.unique(lengths, return_counts=True)[1].tolist() == [10] * 5


def test_a_mixture_has_the_weighted_distribution_of_its_parts():
    one, two = LengthMarginal(200, 1.0), GammaLength(5_000, 0.5)
    mixed = quantile(MixedLength((one, two), (3.0, 1.0)), MIDDLE)
    sigma = np.sqrt(np.log(2))
    parts = (
        stats.lognorm(sigma, scale=200 / np.sqrt(2)),
        stats.gamma(4, scale=1250),
    )
    distance = stats.kstest(mixed, lambda x: 0.75 * parts[0].cdf(x) + 0.25 * parts[1].cdf(x))
    assert distance.statistic < 5e-4
    assert mixed.mean() == pytest.approx(0.75 * 200 + 0.25 * 5_000, rel=1e-3)


@pytest.mark.parametrize("wanted", [-0.6, 0.0, 0.35, 0.9, 1.0])
def test_ranks_have_the_correlation_and_marginals_stay_as_they_are(wanted):
    """Spearman's of n pairs has a standard error of about 1 / sqrt(n)."""
    law = IndependentLengths(LengthMarginal(1e6, 2.0), GammaLength(1e6, 0.7), wanted)
    prompt, output = draw_lengths(law, N, np.random.default_rng(2))
    assert stats.spearmanr(prompt, output).statistic == pytest.approx(wanted, abs=4 / np.sqrt(N))
    alone = draw_lengths(IndependentLengths(law.prompt, law.output), N, np.random.default_rng(9))
    assert np.array_equal(np.sort(prompt), np.sort(alone[0]))
    assert np.array_equal(np.sort(output), np.sort(alone[1]))


def test_a_mixture_of_kinds_keeps_each_kind_whole():
    law = MixedLengths((fixed(100, 10), trace((9_000, 1), (8_000, 2))), (8.0, 2.0))
    prompt, output = draw_lengths(law, 1_000, np.random.default_rng(0))
    pairs, counts = np.unique(np.stack([prompt, output]), axis=1, return_counts=True)
    found = dict(zip(map(tuple, pairs.T.tolist()), counts.tolist(), strict=True))
    assert found == {(100, 10): 800, (9_000, 1): 100, (8_000, 2): 100}
    assert longest_request(law) == 9_001


def test_what_is_too_long_is_cut_at_the_prompt_first():
    law = CutLengths(trace((90, 20), (300, 20), (5, 400)), 120)
    prompt, output = draw_lengths(law, 300, np.random.default_rng(0))
    assert set(zip(prompt.tolist(), output.tolist(), strict=True)) == {
        (90, 20),
        (100, 20),
        (1, 119),
    }
    assert longest_request(law) == 120
