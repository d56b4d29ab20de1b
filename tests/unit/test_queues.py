"""Waiting times of the simulator against queueing theory, within the interval of the runs."""

from __future__ import annotations

import numpy as np
import pytest

from planner.kernels import COMPILED
from planner.simulation.interval import t_interval
from planner.simulation.pool import run_pool
from tests.problems import fixed, spread, study
from tests.queues import geometric, md1_mean_wait, mmc_mean_wait, one_slot, slots

LOOSE = {"ttft_ms": (1e9,), "tpot_ms": (1e9,), "promise": (0.5,)}
RUNS, REQUESTS = (12, 40_000) if COMPILED else (6, 12_000)


def mean_ttft_s(pool, lengths, rate_rps):
    """Mean TTFT with its interval, over independent replications."""
    problem = study(lengths, **LOOSE)
    means = []
    for r in range(RUNS):
        draw = problem.draws.get((1.0,), REQUESTS, r, 0)
        run = run_pool(pool, draw, rate_rps, problem.deadlines, keep=True)
        means.append(float(run.latencies.ttft_s.mean()))
    return t_interval(means)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_constant_service_in_one_slot_waits_as_md1(load):
    service_s = 0.02
    found = mean_ttft_s(one_slot(20), fixed(10, 1), load / service_s)
    theory = service_s * (1 + md1_mean_wait(load))
    assert found.low <= theory <= found.high
    assert found.half_width < (0.03 if COMPILED else 0.06) * theory


def test_varied_service_in_one_slot_waits_as_pollaczek_and_khinchine_say():
    """Prompts alone make the service: 1 ms + 100 us a token, so E[S] and E[S^2] are known."""
    from tests.problems import affine_law, setup

    lengths = spread(200, 1, 0.7)
    draw = study(lengths, **LOOSE).draws.get((1.0,), 200_000, 0, 9)
    one_token = draw.output == 1
    assert one_token.mean() > 0.5
    service = 1e-3 * draw.output + 1e-4 * (draw.prompt + draw.output - 1)
    first = 1e-3 + 1e-4 * draw.prompt
    rate = 0.6 / service.mean()
    theory = rate * np.mean(service**2) / (2 * (1 - 0.6)) + first.mean()
    found = mean_ttft_s(setup(affine_law(1, 100, 8192), 1), lengths, rate)
    assert found.low <= theory <= found.high


@pytest.mark.parametrize(("servers", "load"), [(1, 0.7), (4, 0.8), (16, 0.85)])
def test_slots_with_steps_of_equal_length_wait_as_mmc(servers, load):
    """Outputs of 100 tokens on average, 1 ms each: a request holds its slot for 0.1 s.

    A slot is filled at a step's end only, and the first token takes a step: TTFT is the wait
    of M/M/c, one step, and less than one step more.
    """
    step_s, steps = 1e-3, 100
    found = mean_ttft_s(slots(servers, 1), geometric(steps), servers * load / (step_s * steps))
    theory = mmc_mean_wait(servers, load) * step_s * steps + step_s
    assert found.low - step_s <= theory <= found.high
    assert found.half_width < (0.12 if COMPILED else 0.25) * theory
