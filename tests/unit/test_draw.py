"""Common random numbers: same seed, same draw; streams and replications share nothing."""

import numpy as np
import pytest
from scipy.stats import kstest

from planner.problem.arrivals import PoissonArrivals, RenewalArrivals
from planner.simulation.draw import HORIZON_S, Draws
from tests.problems import fixed, spread

LAWS = (spread(500, 100, 1.0), fixed(50, 5))


def test_same_seed_same_draw():
    one, two = (
        Draws(LAWS, 7).get((3.0, 1.0), 1000, 0, 2),
        Draws(LAWS, 7).get((3.0, 1.0), 1000, 0, 2),
    )
    for name in ("gap", "workload", "prompt", "output"):
        assert np.array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize("other", [(7, 1, 2), (7, 0, 3), (8, 0, 2)])
def test_another_seed_replication_or_stream_is_another_draw(other):
    seed, replication, stream = other
    one = Draws(LAWS, 7).get((3.0, 1.0), 1000, 0, 2)
    two = Draws(LAWS, seed).get((3.0, 1.0), 1000, replication, stream)
    assert not np.array_equal(one.gap, two.gap)
    assert not np.array_equal(one.prompt, two.prompt)


def test_only_proportions_of_the_mix_matter():
    draws = Draws(LAWS, 7)
    assert draws.get((3.0, 1.0), 500, 0, 0) is draws.get((30.0, 10.0), 500, 0, 0)


def test_classes_come_in_their_proportions_with_their_lengths():
    draw = Draws(LAWS, 7).get((3.0, 1.0), 8_000, 0, 0)
    assert (draw.workload == 0).sum() == 6_000
    assert set(draw.prompt[draw.workload == 1]) == {50}


def test_gaps_are_exponential_with_mean_one():
    gap = Draws(LAWS, 7).get((1.0, 0.0), 20_000, 0, 0).gap
    assert gap.mean() == pytest.approx(1.0)
    assert kstest(gap, "expon").statistic < 1e-3


def test_arrivals_have_the_rate():
    draw = Draws(LAWS, 7).get((1.0, 0.0), 20_000, 0, 0)
    assert draw.arrival_ps(40.0)[-1] * 1e-12 == pytest.approx(20_000 / 40, rel=1e-6)


def test_a_request_a_year_still_fits_the_clock():
    arrival = Draws(LAWS, 7).get((1.0, 0.0), 1_000, 0, 0).arrival_ps(3e-8)
    assert (np.diff(arrival) > 0).all()
    assert arrival[-1] * 1e-12 <= HORIZON_S


def test_kept_draws_are_bounded():
    draws = Draws(LAWS, 7)
    for replication in range(10):
        draws.get((1.0, 0.0), 1_000_000, replication, 0)
    assert sum(d.gap.size for d in draws._kept.values()) <= 8_000_000


def test_a_rare_workload_is_drawn_often_enough_to_be_judged():
    """One in 200,000 would not come in a run of 60,000; one in 1,001 comes about 60 times."""
    draw = Draws(LAWS, 0).get((60.0, 0.0003), 60_000, 0, 0)
    assert int((draw.workload == 1).sum()) == pytest.approx(60_000 / 1001, abs=1)
    absent = Draws(LAWS, 0).get((60.0, 0.0), 60_000, 0, 0)
    assert not (absent.workload == 1).any()


def test_a_draw_of_streams_has_no_gaps_to_divide():
    laws = (RenewalArrivals(5.0, 2.0, "gamma"), PoissonArrivals(1.0))
    draw = Draws(LAWS, 7, laws).get((5.0, 1.0), 500, 0, 0)
    with pytest.raises(ValueError, match="has no gaps of its own"):
        draw.arrival_ps(6.0)
    alone = Draws(LAWS, 7, laws).get((0.0, 1.0), 500, 0, 0)
    assert alone.arrival_ps(6.0).size == 500
