"""The search for the largest load finds roots that are known."""

import pytest

from planner.errors import LimitReachedError
from planner.simulation.capacity import coarse_capacity, falling_root, pool_capacity
from planner.simulation.effort import Effort, RunSize
from tests.problems import affine_law, fixed, setup, study


@pytest.mark.parametrize("root", [0.001, 1.0, 37.5, 1e6])
@pytest.mark.parametrize("guess", [0.3, 0.95, 1.0, 1.1, 5.0])
def test_a_line_and_a_cliff_are_found_from_either_side(root, guess):
    line = falling_root(lambda x: 1 - x / root, guess * root, step=0.1, tolerance=0.004)
    assert line == pytest.approx(root, rel=0.004)
    cliff = falling_root(
        lambda x: 0.05 if x < root else -0.9, guess * root, step=0.1, tolerance=0.004
    )
    assert cliff == pytest.approx(root, rel=0.004)


def test_no_load_is_small_enough():
    assert falling_root(lambda _: -0.1, 10.0, step=0.1, tolerance=0.01) == 0.0


def test_evaluations_are_few():
    calls = []
    falling_root(lambda x: calls.append(x) or 1 - x, 0.7, step=0.15, tolerance=0.02)
    assert len(calls) <= 8


def test_one_slot_without_queue_has_the_capacity_of_its_service_time():
    """One slot, 20 ms each; TTFT within 1,000 s: the promise holds until the backlog grows.

    So the capacity is 50 requests per second but for what a finite run forgives.
    """
    s = study(fixed(100, 1), ttft_ms=(2_000,), tpot_ms=(50,), promise=(0.9,))
    pool = setup(affine_law(10, 100, 100), 1)
    effort = Effort(8_000, RunSize(30_000, 4, 5_000), RunSize(8_000, 4, 5_000), 8_000, 8_000, 4)
    found = pool_capacity(s, pool, (1.0,), 40.0, effort)
    assert found.low < 50.0
    assert found.value == pytest.approx(50.0, rel=0.03)
    assert coarse_capacity(s, pool, (1.0,), 40.0, 8_000) == pytest.approx(50.0, rel=0.06)


@pytest.mark.parametrize("last", [0, 1, 5])
def test_a_search_ends_with_the_time_and_not_with_its_last_root(last):
    """Whoever says that time is over is asked before every run, of every draw."""
    s = study(fixed(100, 1), ttft_ms=(2_000,), tpot_ms=(50,), promise=(0.9,))
    pool = setup(affine_law(10, 100, 100), 1)
    effort = Effort(1_000, RunSize(1_000, 4, 1_000), RunSize(1_000, 4, 1_000), 1_000, 1_000, 4)
    asked = []

    def over() -> None:
        asked.append(1)
        if len(asked) > last:
            raise LimitReachedError("over")

    with pytest.raises(LimitReachedError):
        pool_capacity(s, pool, (1.0,), 40.0, effort, over)
    assert s.meter.requests <= last * 1_000
    asked.clear()
    with pytest.raises(LimitReachedError):
        coarse_capacity(s, pool, (1.0,), 400.0, 1_000, over)
