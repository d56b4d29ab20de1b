"""Deadlines: each one alone decides; TTFT by prompt length; the whole request; refusals."""

import numpy as np
import pytest
from pydantic import ValidationError

from planner.kernels import simulate_pool
from planner.problem.deadlines import deadlines_of
from planner.scenario.slo import PromptBucket, Slo
from planner.simulation.draw import Draws
from planner.simulation.pool import run_pool
from tests.problems import affine_law, setup, trace

MS = 10**9


def met(slo, prompt, output, ttft_ms, decode_ms, context=10**6, gap_ms=0):
    lengths = np.array([prompt], np.int32), np.array([output], np.int32)
    times = (np.array([x * MS], np.int64) for x in (ttft_ms, decode_ms, gap_ms))
    return bool(deadlines_of([slo], [context]).met(np.zeros(1, np.int32), lengths, *times)[0])


PLAIN = Slo(ttft=0.5, tpot=0.05)


@pytest.mark.parametrize(
    ("slo", "prompt", "output", "ttft_ms", "decode_ms", "good"),
    [
        (PLAIN, 100, 11, 500, 500, True),
        (PLAIN, 100, 11, 501, 0, False),
        (PLAIN, 100, 11, 0, 501, False),
        (PLAIN, 100, 1, 0, 0, True),
        (PLAIN.model_copy(update={"e2e": 0.9}), 100, 11, 450, 450, True),
        (PLAIN.model_copy(update={"e2e": 0.9}), 100, 11, 450, 451, False),
    ],
)
def test_every_deadline_alone_decides(slo, prompt, output, ttft_ms, decode_ms, good):
    assert met(slo, prompt, output, ttft_ms, decode_ms) is good


@pytest.mark.parametrize(("gap_ms", "good"), [(200, True), (201, False)])
def test_one_gap_between_tokens_alone_decides(gap_ms, good):
    bounded = PLAIN.model_copy(update={"max_itl": 0.2})
    assert met(bounded, 100, 11, 500, 500, gap_ms=gap_ms) is good
    assert met(PLAIN, 100, 11, 500, 500, gap_ms=gap_ms)


def test_a_longest_gap_below_the_mean_of_gaps_is_a_mistake():
    with pytest.raises(ValidationError, match="shorter than tpot"):
        Slo(ttft=0.5, tpot=0.05, max_itl=0.04)


def test_a_stream_of_decodes_breaks_only_the_gap_that_a_prefill_tears():
    """One step of 10 ms a token; a prompt of 90 tokens joins and makes one step of 109 ms.

    Two requests of 1 + 11 tokens, the second 55 ms after the first, which then has 5 tokens:
    TTFT and TPOT (20 ms in the mean) are met by both, the gap of the first is 91 + 1 tokens long.
    """
    law = affine_law(9, 1000, 100)
    pool = setup(law, 4)
    one, two = (np.array(x, np.int32) for x in ([1, 90], [11, 11]))
    arrival = np.array([0, 55 * MS], np.int64)
    r = simulate_pool(pool.law, pool.limits, arrival, one, two, gaps=True)
    # Tokens at 10, 20, ..., 60 ms; then one step of 9 + 90 + 1 ms; then steps of 11 ms.
    assert r.gaps.longest_ps().tolist() == [100 * MS, 11 * MS]
    assert r.gaps.stall_ps.tolist() == [90 * MS, 0]
    assert r.gaps.unstalled_ps.tolist() == [11 * MS, 11 * MS]
    assert r.gaps.solo_ps.tolist() == [10 * MS, 10 * MS]
    times = (r.first_token_ps - arrival, r.finish_ps - r.first_token_ps, r.gaps.longest_ps())
    for max_itl, good in ((0.1, [True, True]), (0.0999, [False, True])):
        slo = Slo(ttft=0.5, tpot=0.03, max_itl=max_itl)
        due = deadlines_of([slo], [10**6])
        assert due.met(np.zeros(2, np.int32), (one, two), *times).tolist() == good


def test_a_request_longer_than_the_context_is_a_miss():
    assert met(PLAIN, 90, 10, 1, 1, context=100)
    assert not met(PLAIN, 91, 10, 1, 1, context=100)


@pytest.mark.parametrize(
    ("prompt", "limit_ms"), [(1, 200), (1000, 200), (1001, 800), (9000, 800), (9001, 3000)]
)
def test_a_first_token_may_take_longer_after_a_longer_prompt(prompt, limit_ms):
    buckets = (PromptBucket(up_to=1000, ttft=0.2), PromptBucket(up_to=9000, ttft=0.8))
    slo = Slo(ttft=3.0, tpot=0.05, ttft_by_prompt=buckets)
    assert met(slo, prompt, 1, limit_ms, 0)
    assert not met(slo, prompt, 1, limit_ms + 1, 0)


def test_buckets_of_one_workload_are_not_those_of_another():
    bucketed = Slo(ttft=3.0, tpot=0.05, ttft_by_prompt=(PromptBucket(up_to=9, ttft=0.1),))
    limits = deadlines_of([PLAIN, bucketed], [100, 100]).ttft_limit_ps(
        np.array([0, 1, 1], np.int32), np.array([5, 5, 10], np.int32)
    )
    assert limits.tolist() == [500 * MS, 100 * MS, 3000 * MS]


@pytest.mark.parametrize(
    "fields",
    [
        {"e2e": 0.4},
        {"ttft_by_prompt": (PromptBucket(up_to=9, ttft=1), PromptBucket(up_to=9, ttft=2))},
    ],
)
def test_what_contradicts_itself_is_refused(fields):
    with pytest.raises(ValidationError):
        Slo(ttft=0.5, tpot=0.05, **fields)


def test_a_pool_is_judged_by_them_all():
    """Alone in a replica: 20 ms of prefill at 100 tokens, 110 ms at 1,000; 10.1 ms a token."""
    buckets = (PromptBucket(up_to=500, ttft=0.05),)
    cases = {
        (0.2, None, ()): 1.0,
        (0.2, None, buckets): 1.0,
        (0.1, None, ()): 0.5,
        (0.1, None, buckets): 0.5,
        (0.2, 0.21, ()): 0.5,
        (0.2, 0.25, ()): 1.0,
    }
    for (ttft, e2e, by_prompt), attained in cases.items():
        slo = Slo(ttft=ttft, tpot=0.05, e2e=e2e, ttft_by_prompt=by_prompt)
        draw = Draws((trace((100, 11), (1000, 11)),), 1).get((1.0,), 4_000, 0, 0)
        run = run_pool(
            setup(affine_law(10, 100, 2000), 8), draw, 0.05, deadlines_of([slo], [10**6])
        )
        assert run.attainment[0] == pytest.approx(attained, abs=0.03)


def test_without_buckets_or_an_end_nothing_is_looked_up():
    plain = deadlines_of([PLAIN], [100])
    assert plain.e2e_ps is None
    assert plain.by_prompt is None


LOOSEST_S = 315_360_000.0  # ten years: more than 64 bits hold in picoseconds


@pytest.mark.parametrize("loose", [1e5, 9e5, 4.6e6, 4.7e6, 9e6, 1e7, 1e8, LOOSEST_S, 1e300])
@pytest.mark.parametrize("output", [2, 12, 4_000, 10_000_000])
def test_a_looser_deadline_never_refuses_what_a_tighter_one_let_pass(loose, output):
    buckets = (PromptBucket(up_to=50, ttft=LOOSEST_S),)
    slo = Slo(ttft=LOOSEST_S, tpot=1.0, e2e=LOOSEST_S, ttft_by_prompt=buckets)
    slo = slo.model_copy(update={"ttft": loose, "tpot": loose, "e2e": loose})
    for prompt in (10, 100):  # a millisecond a token
        assert met(slo, prompt, output, 1_000, output - 1, 10**8)


@pytest.mark.parametrize("tpot", [1e-12, 0.03, 1.0, 1e3, 2e5])
@pytest.mark.parametrize("output", [1, 2, 11, 1_001, 3_000_001])
def test_the_time_allowed_for_an_output_is_that_of_its_tokens(tpot, output):
    due = deadlines_of([Slo(ttft=LOOSEST_S, tpot=tpot)], [10**8])
    (limit,) = due.decode_limit_ps(np.zeros(1, np.int32), np.array([output], np.int32)).tolist()
    assert limit == min(round(tpot * 1e12) * (output - 1), 2**62)
