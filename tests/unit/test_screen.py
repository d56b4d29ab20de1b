"""Screening: the bound is one, and the best template is never dropped."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.candidates.frontier import setup_of
from planner.candidates.meanfield import coarse_bounds, convex_minorant, mean_field, moments
from planner.candidates.screen import bounds_of, screen
from planner.curves.memory import ONE_DEVICE
from planner.curves.step_law import StepLaw
from planner.kernels import COMPILED
from planner.simulation.capacity import SEARCHING, falling_root, margin_at
from planner.simulation.effort import COMPILED_EFFORT
from tests.templates import KNOTS, build_of, random_law, random_question

PROBLEMS = 120 if COMPILED else 12
REQUESTS = 12_000 if COMPILED else 6_000
EFFORT = dataclasses.replace(COMPILED_EFFORT, screen_requests=5_000)
SAME = 0.01
"""Templates whose costs differ by less are as good as each other, by these runs."""


def constant_law(step_s: float) -> StepLaw:
    return StepLaw((1, 8192), (step_s, step_s), 0.0, 0.0, 0.0)


@given(st.integers(0, 10_000), st.sampled_from([512, 700, 2048, 8192]))
def test_minorant_is_convex_and_below_the_law(seed, budget):
    law = random_law(np.random.default_rng(seed))
    n, t = convex_minorant(law, budget)
    assert n[0] == 1
    assert n[-1] == budget
    assert (np.diff(np.diff(t) / np.diff(n)) >= -1e-15).all()
    every = np.arange(1, budget + 1)
    assert (np.interp(every, n, t) <= law.tokens_s(every) * (1 + 1e-12)).all()
    assert t[0] == law.step_s[0]


def test_constant_steps_and_seats_bound_the_load_by_seats_over_decode_time():
    """16 seats, 9 decode steps of 20 ms a request: 16 / 0.18 s."""
    build = build_of(constant_law(0.02), "a", (2048, 16), 10**5, 1.0)
    mean = moments(np.full(10, 100, np.int32), np.full(10, 10, np.int32), 2048)
    (found,) = coarse_bounds([build], [mean], [1.0])
    assert found.load_rps == pytest.approx(16 / 0.18)
    assert found.limited_by == "max_num_seqs"


def test_memory_bounds_the_load_by_little_s_law():
    """A request holds 9 contexts of 100 + k tokens, and its prompt for a step, 20 ms each."""
    build = build_of(constant_law(0.02), "a", (8192, 4096), 100, 1.0)
    mean = moments(np.full(10, 100, np.int32), np.full(10, 10, np.int32), 8192)
    held = sum(100 + k for k in range(1, 10)) + 100
    (found,) = coarse_bounds([build], [mean], [1.0])
    assert found.load_rps == pytest.approx(1600 / (held * 0.02))
    assert found.limited_by == "KV cache"


def test_a_step_longer_than_the_deadline_allows_nothing():
    build = build_of(constant_law(0.02), "a", (2048, 16), 10**5, 1.0)
    mean = moments(np.full(10, 100, np.int32), np.full(10, 10, np.int32), 2048)
    (found,) = coarse_bounds([build], [mean], [0.019])
    assert found.load_rps == 0.0
    assert found.limited_by == "the TPOT deadline"


def test_templates_are_evaluated_together_as_each_alone():
    question = random_question(np.random.default_rng(3))
    together = bounds_of(question.study, question.templates, question.tpot_s)
    alone = [bounds_of(question.study, [t], question.tpot_s)[0] for t in question.templates]
    assert together == alone


def test_mean_field_obeys_its_own_law():
    """An affine L is its own minorant: T = base + token y + context K, K = y / m of a request."""
    law = StepLaw(KNOTS, tuple(0.01 + 1e-5 * k for k in KNOTS), 1e-5, 0.0, 1e-8)
    curve = SimpleNamespace(step_law=law, layout=ONE_DEVICE, parts=())
    build = SimpleNamespace(max_num_batched_tokens=4096, curve=curve)
    mean = moments(np.full(4, 300, np.int32), np.full(4, 101, np.int32), 4096)
    field = mean_field([build], [mean])  # type: ignore[list-item]
    context = 100 * 300 + 100 * 101 / 2
    want = 0.01 + 1e-5 * field.tokens + 1e-8 * field.tokens / 400 * context
    assert field.step_s == pytest.approx(want)
    assert field.load_rps == pytest.approx(field.tokens / 400 / field.step_s)


def capacity_of(study, template, guess, requests):
    """Root under one draw that the screening has not seen."""
    draw = study.draws.get((1.0,), requests, 1, SEARCHING)
    setup = setup_of(template.build, 1, "round_robin")
    return falling_root(
        lambda rate: margin_at(study, setup, draw, rate), guess, step=0.05, tolerance=0.01
    )


def least_cost(study, kept, requests):
    """USD/h per request per second of the cheapest kept, of the two that screening likes best."""
    found = [
        (one.template, capacity_of(study, one.template, one.capacity_rps, requests))
        for one in kept[:2]
    ]
    return min((t.build.usd_per_hour / rate for t, rate in found if rate > 0), default=0.0)


def keeps_at_less(study, template, cost, requests):
    """Whether a template keeps the promise at a load at which it costs less than that."""
    draw = study.draws.get((1.0,), requests, 1, SEARCHING)
    rate = template.build.usd_per_hour / (cost * (1 - SAME))
    return margin_at(study, setup_of(template.build, 1, "round_robin"), draw, rate) >= 0


def test_the_best_template_is_never_dropped():
    """What screening drops costs more per request, simulated, than the best of what it keeps.

    A dropped template would have to keep the promise at the load at which it costs as much as
    the best; on other draws than those of the screening it does not. Where a short run leaves a
    doubt, a long one decides.
    """
    lost, dropped = [], 0
    for number in range(PROBLEMS):
        question = random_question(np.random.default_rng(number))
        kept, removed = screen(
            question.study, question.templates, question.tpot_s, "round_robin", EFFORT
        )
        assert len(kept) + len(removed) == len(question.templates)
        names = {r.name for r in removed}
        doubtful = [t for t in question.templates if t.id in names and kept]
        dropped += len(doubtful)
        for requests in (REQUESTS, 10 * REQUESTS):
            if doubtful:
                cost = least_cost(question.study, kept, requests)
                doubtful = [
                    t for t in doubtful if cost and keeps_at_less(question.study, t, cost, requests)
                ]
        lost += [(number, t.id) for t in doubtful]
    assert lost == []
    assert dropped > 4 * PROBLEMS
