"""The closed form where it must be exact or nearly so; its error elsewhere is a benchmark."""

from __future__ import annotations

import numpy as np
import pytest

from planner.candidates.estimate import estimate, estimated_capacity
from planner.candidates.physics import empty_replica
from planner.curves.step_law import StepLaw
from tests.templates import KNOTS, build_of, random_law

RNG = np.random.default_rng(5)
PROMPT = RNG.lognormal(5.5, 0.6, 4_000).clip(1, 8_000).astype(np.int32)
OUTPUT = RNG.lognormal(4, 0.6, 4_000).clip(2, 2_000).astype(np.int32)


@pytest.mark.parametrize("seed", range(5))
def test_a_lone_request_gets_what_an_empty_replica_gives(seed):
    build = build_of(random_law(np.random.default_rng(seed)), "a", (8192, 64), 10**5, 1.0)
    ttft, tpot = empty_replica(build, PROMPT, OUTPUT)
    found = estimate(build, PROMPT, OUTPUT, np.array([1e-6]), (1e3, 1e3))
    steps = OUTPUT - 1.0
    assert found.ttft_s[0] == pytest.approx(ttft.mean(), rel=0.04)  # few lengths stand for all
    assert found.tpot_s[0] == pytest.approx((tpot * steps).sum() / steps.sum(), rel=0.01)
    assert found.attainment[0] == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(5))
def test_more_load_is_never_better(seed):
    build = build_of(random_law(np.random.default_rng(seed)), "a", (2048, 64), 10**4, 1.0)
    base_s = build.curve.step_law.step_s[0]
    loads = np.geomspace(0.01, 1_000, 60) / (base_s * OUTPUT.mean())
    found = estimate(build, PROMPT, OUTPUT, loads, (20 * base_s, 1.5 * base_s))
    served = np.isfinite(found.ttft_s)
    assert served[0]
    assert not served[-1]
    assert (np.diff(served.astype(int)) <= 0).all()
    assert (np.diff(found.tpot_s[served]) >= -1e-9).all()
    assert (found.attainment[~served] == 0).all()
    assert ((found.attainment >= 0) & (found.attainment <= 1)).all()


def test_capacity_is_the_last_load_that_keeps_the_promise():
    law = StepLaw(KNOTS, tuple(0.01 + 2e-5 * k for k in KNOTS), 2e-5, 0.0, 2e-8)
    build = build_of(law, "a", (2048, 128), 10**5, 1.0)
    deadlines = (0.2, 0.025)
    found = estimated_capacity(build, (PROMPT, OUTPUT), 100.0, deadlines, 0.9)
    near = estimate(build, PROMPT, OUTPUT, found * np.array([0.98, 1.03]), deadlines).attainment
    assert near[0] >= 0.9 > near[1]
