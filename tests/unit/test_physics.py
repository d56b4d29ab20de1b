"""The closed form of an empty replica equals a simulation of one request at a time."""

from types import SimpleNamespace

import numpy as np
import pytest

from planner.candidates.physics import empty_replica, reachable
from planner.curves.memory import ONE_DEVICE
from planner.curves.step_law import StepLaw, law_fields
from planner.kernels import Limits, simulate_pool


def build(law: StepLaw, budget: int) -> SimpleNamespace:
    """What the closed form reads of a build."""
    return SimpleNamespace(
        curve=SimpleNamespace(step_law=law, path_s=0.0, layout=ONE_DEVICE, parts=()),
        max_num_batched_tokens=budget,
        accelerator="any",
    )


LAWS = [
    StepLaw((1, 64, 512, 4096), (6e-3, 7e-3, 15e-3, 90e-3), 2e-5, 3e-10, 5e-8, 1e-5, 2e-9),
    StepLaw((1, 8192), (4e-3, 0.2), 2.5e-5, 0.0, 1e-8),
]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("budget", [256, 1000, 8192])
def test_a_lone_request_takes_what_the_closed_form_says(law, budget):
    rng = np.random.default_rng(5)
    prompt = rng.integers(1, 6000, 200).astype(np.int32)
    output = rng.integers(1, 300, 200).astype(np.int32)
    prompt[:3], output[:3] = (budget, 2 * budget, budget + 1), (1, 2, 3)
    ttft, tpot = empty_replica(build(law, budget), prompt, output)
    arrival = np.arange(200, dtype=np.int64) * 100 * 10**12
    limits = Limits(8, budget, 10**6)
    seen = simulate_pool(law_fields(law, budget), limits, arrival, prompt, output, gaps=True)
    assert (seen.first_token_ps - arrival) * 1e-12 == pytest.approx(ttft, rel=1e-8)
    span = (seen.finish_ps - seen.first_token_ps) * 1e-12
    assert span == pytest.approx(tpot * (output - 1), rel=1e-7)
    gap = seen.gaps.longest_ps() * 1e-12
    for promise in (0.5, 1.0):
        wide = (np.inf, np.inf, np.inf, float(np.quantile(gap, promise)) * (1 + 1e-7))
        found = reachable(build(law, budget), prompt, output, wide, promise)
        assert found.max_itl_at_promise_s == pytest.approx(np.quantile(gap, promise), rel=1e-7)
        assert found.attainment == pytest.approx(promise, abs=0.01)


def test_attainment_when_empty_is_joint():
    """Prompts of 100 take 10 ms, of 5000 take 0.5 s; contexts make TPOT 5 or 25 ms."""
    law = StepLaw((1, 8192), (1e-4, 0.8192), 1e-4, 0.0, 5e-6)
    prompt = np.array([100, 100, 5000, 5000], np.int32)
    output = np.array([2, 2, 2, 2], np.int32)
    found = reachable(build(law, 8192), prompt, output, (1.0, 0.005, np.inf, np.inf), 0.95)
    assert found.attainment == 0.5
    assert found.ttft_at_promise_s == pytest.approx(0.5)
