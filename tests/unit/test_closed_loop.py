"""What a benchmark tool prints, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from planner.simulation.closed_loop import run_closed_loop
from tests.problems import affine_law, setup

STEP = affine_law(10, 0, 64)  # 10 ms whatever the step


def lengths(*rows: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    prompt, output = np.array(rows, np.int32).T
    return prompt.copy(), output.copy()


def test_two_clients_and_three_requests_by_hand():
    """Steps of 10 ms. Outputs 5, 2 and 2; the third is sent at 20 ms and served from 30 ms.

    First tokens at 10, 10 and 40 ms; last at 50, 20 and 50 ms.
    """
    prompt, output = lengths((1, 5), (2, 2), (3, 2))
    m = run_closed_loop(setup(STEP, 8), prompt, output, clients=2)
    assert m.completed == 3
    assert m.duration_s == pytest.approx(0.05)
    assert m.request_throughput_rps == pytest.approx(60)
    assert m.output_throughput_tps == pytest.approx(9 / 0.05)
    assert m.total_throughput_tps == pytest.approx(15 / 0.05)
    assert m.mean_ttft_s == pytest.approx((0.01 + 0.01 + 0.02) / 3)
    assert m.median_ttft_s == pytest.approx(0.01)
    assert m.mean_tpot_s == pytest.approx(0.01)
    assert m.mean_latency_s == pytest.approx((0.05 + 0.02 + 0.03) / 3)


def test_warm_up_requests_are_served_but_not_counted():
    """The same run; without the first two, the third alone: sent at 20, done at 50 ms."""
    prompt, output = lengths((1, 5), (2, 2), (3, 2))
    m = run_closed_loop(setup(STEP, 8), prompt, output, clients=2, skip=2)
    assert m.completed == 1
    assert m.duration_s == pytest.approx(0.03)
    assert m.output_throughput_tps == pytest.approx(2 / 0.03)
    with pytest.raises(ValueError, match="left to count"):
        run_closed_loop(setup(STEP, 8), prompt, output, clients=2, skip=3)


def test_tpot_is_a_mean_over_requests_with_more_than_one_token():
    prompt, output = lengths((1, 1), (1, 1))
    m = run_closed_loop(setup(STEP, 8), prompt, output, clients=1)
    assert (m.mean_tpot_s, m.p99_tpot_s) == (0.0, 0.0)
    assert m.duration_s == pytest.approx(0.02)


def test_thinking_and_a_ramp_stretch_the_run():
    """One client: 10 ms, 5 ms of thought, 10 ms. Two on a ramp of 8 ms: the second at 4 ms."""
    prompt, output = lengths((1, 1), (1, 1))
    slow = run_closed_loop(setup(STEP, 8), prompt, output, clients=1, think_s=0.005)
    assert slow.duration_s == pytest.approx(0.025)
    ramp = run_closed_loop(setup(STEP, 8), prompt, output, clients=2, ramp_s=0.008)
    assert ramp.mean_ttft_s == pytest.approx((0.01 + 0.016) / 2)


def test_more_clients_never_lower_the_throughput_of_equal_requests():
    n = 240
    prompt, output = np.full(n, 8, np.int32), np.full(n, 12, np.int32)
    law = affine_law(10, 50, 64)
    runs = [run_closed_loop(setup(law, 8), prompt, output, clients=c) for c in (1, 2, 4, 8)]
    rates = [run.request_throughput_rps for run in runs]
    assert rates == sorted(rates)


def test_rejected_requests_are_not_completed():
    prompt, output = lengths((1, 1), (900, 1), (1, 1))
    m = run_closed_loop(setup(STEP, 8, blocks=10), prompt, output, clients=1)
    assert m.completed == 2
    assert m.duration_s == pytest.approx(0.02)
