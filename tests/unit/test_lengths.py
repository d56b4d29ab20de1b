"""Draws of lengths reproduce the law they come from."""

import numpy as np
import pytest

from planner.problem.lengths import JointLengths
from planner.simulation.lengths import draw_lengths, longest_request
from tests.problems import fixed, spread, trace


def test_fixed_lengths_are_fixed():
    prompt, output = draw_lengths(fixed(4096, 200), 50, np.random.default_rng(0))
    assert set(prompt) == {4096}
    assert set(output) == {200}


@pytest.mark.parametrize("cv", [0.3, 1.0, 2.0])
def test_lognormal_has_the_mean_and_spread_that_were_asked_for(cv):
    """Stratified, so the sample's mean is the law's but for rounding and the cut tail."""
    prompt, output = draw_lengths(spread(1500, 300, cv), 200_000, np.random.default_rng(0))
    assert prompt.mean() == pytest.approx(1500, rel=2e-3)
    assert output.mean() == pytest.approx(300, rel=4e-3)
    assert prompt.std() / prompt.mean() == pytest.approx(cv, rel=0.02)
    assert abs(np.corrcoef(prompt, output)[0, 1]) < 4 / np.sqrt(200_000)


def test_a_trace_keeps_its_pairs():
    pairs = {(10, 1), (2000, 7), (300, 90)}
    prompt, output = draw_lengths(trace(*pairs), 3_000, np.random.default_rng(3))
    assert set(zip(prompt.tolist(), output.tolist(), strict=True)) == pairs
    assert [int((prompt == p).sum()) for p, _ in pairs] == [1000, 1000, 1000]


def test_a_histogram_stays_within_its_cells_and_weights():
    low, high = np.array([1, 100]), np.array([9, 199])
    law = JointLengths(low, high, low, high, np.array([3.0, 1.0]))
    prompt, output = draw_lengths(law, 40_000, np.random.default_rng(0))
    assert ((prompt < 10) == (output < 10)).all()
    assert (prompt < 10).mean() == 0.75
    assert prompt.min() == 1
    assert prompt.max() == 199
    assert prompt[prompt < 10].mean() == pytest.approx(5.0, abs=0.05)


def test_an_empty_law_is_refused():
    nothing = np.array([], np.int64)
    with pytest.raises(ValueError, match="no requests"):
        JointLengths(nothing, nothing, nothing, nothing, nothing.astype(float))


def test_the_longest_request_is_the_longest_pair():
    assert longest_request(trace((10, 1), (2000, 7), (300, 90))) == 2007
    assert longest_request(fixed(4096, 200)) == 4296


def test_lengths_are_at_least_one_token():
    prompt, _ = draw_lengths(spread(1, 1, 3.0), 10_000, np.random.default_rng(0))
    assert prompt.min() == 1
