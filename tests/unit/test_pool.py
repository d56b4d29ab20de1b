"""One pool: compliance is judged per request, jointly, and ends of a run are cut."""

import dataclasses

import numpy as np
import pytest

from planner.simulation.pool import backlog_growth, counted_span, run_pool
from tests.problems import MS, affine_law, fixed, setup, study, trace


def test_deadlines_are_met_jointly_not_separately():
    """Prompts of 100 and 900 tokens, alone: TTFT 10 ms + 100 us a token = 20 and 100 ms.

    Outputs of 2 tokens: TPOT is one decode step, 10.1 ms. With a TTFT deadline of 50 ms half of
    the requests are compliant; a TPOT deadline of 5 ms leaves none, though TTFT is met by half.
    """
    law = affine_law(10, 100, 1000)
    lengths = trace((100, 2), (900, 2))
    slow = study(lengths, ttft_ms=(50,), tpot_ms=(11,), promise=(0.5,))
    draw = slow.draws.get((1.0,), 4_000, 0, 0)
    run = run_pool(setup(law, 8), draw, 0.01, slow.deadlines, keep=True)
    assert run.attainment[0] == pytest.approx(0.5, abs=0.02)
    assert run.latencies is not None
    alone = np.isin(np.round(run.latencies.ttft_s, 9), (0.02, 0.1))
    assert alone.mean() > 0.99  # the rest met another request
    assert np.median(run.latencies.tpot_s) == pytest.approx(0.0101)
    none = study(lengths, ttft_ms=(50,), tpot_ms=(5,), promise=(0.5,))
    assert run_pool(setup(law, 8), draw, 0.01, none.deadlines).attainment[0] == 0.0


def test_a_request_that_meets_the_deadline_exactly_is_compliant():
    law = affine_law(10, 100, 1000)
    exact = study(fixed(100, 2), ttft_ms=(20,), tpot_ms=(10.1,), promise=(0.5,))
    draw = exact.draws.get((1.0,), 1_000, 0, 0)
    assert run_pool(setup(law, 8), draw, 0.001, exact.deadlines).attainment[0] == 1.0
    late = dataclasses.replace(exact.deadlines, ttft_ps=np.array([20 * MS - 1]))
    assert run_pool(setup(law, 8), draw, 0.001, late).attainment[0] == 0.0


def test_one_token_outputs_have_no_tpot_to_miss():
    strict = study(fixed(100, 1), ttft_ms=(25,), tpot_ms=(0.001,), promise=(0.5,))
    draw = strict.draws.get((1.0,), 1_000, 0, 0)
    assert (
        run_pool(setup(affine_law(10, 100, 1000), 8), draw, 0.001, strict.deadlines).attainment[0]
        == 1.0
    )


def test_rejected_and_too_long_requests_are_misses():
    """Prompts of 100 and 900 tokens: 10 blocks of 16 hold 160, so half are rejected."""
    law, lengths = affine_law(10, 100, 1000), trace((100, 2), (900, 2))
    loose = study(lengths, ttft_ms=(9_000,), tpot_ms=(900,), promise=(0.5,))
    draw = loose.draws.get((1.0,), 4_000, 0, 0)
    small = run_pool(setup(law, 8, blocks=10), draw, 0.01, loose.deadlines)
    assert small.attainment[0] == pytest.approx(0.5, abs=0.02)
    short = dataclasses.replace(loose.deadlines, context_tokens=np.array([500]))
    assert run_pool(setup(law, 8), draw, 0.01, short).attainment[0] == pytest.approx(0.5, abs=0.02)


def test_counts_leave_out_the_empty_start_and_the_quiet_end():
    arrival = np.arange(1000, dtype=np.int64) * 1000
    assert counted_span(arrival, arrival + 1) == slice(50, 980)
    assert counted_span(arrival, arrival + 100_000) == slice(300, 899)
    assert counted_span(arrival, arrival + 10**9) == slice(500, 800)


def test_overload_is_called_unstable_and_light_load_is_not():
    """One slot of 20 ms: the capacity is 50 requests per second."""
    queue = study(fixed(100, 1), ttft_ms=(1e6,), tpot_ms=(1e6,), promise=(0.5,))
    draw = queue.draws.get((1.0,), 20_000, 0, 0)
    law = affine_law(10, 100, 100)
    assert run_pool(setup(law, 1), draw, 55.0, queue.deadlines).unstable
    assert not run_pool(setup(law, 1), draw, 40.0, queue.deadlines).unstable


def test_backlog_of_few_requests_tells_nothing():
    zeros = np.zeros(10, np.int64)
    assert backlog_growth(zeros, zeros) == 0.0


def test_large_pools_are_simulated_as_sixteen():
    easy = study(fixed(100, 2), ttft_ms=(50,), tpot_ms=(20,), promise=(0.5,))
    draw = easy.draws.get((1.0,), 64_000, 0, 0)
    law = affine_law(10, 100, 1000)
    one = run_pool(setup(law, 8, replicas=16), draw, 16.0, easy.deadlines)
    two = run_pool(setup(law, 8, replicas=16_000), draw, 16_000.0, easy.deadlines)
    assert two.attainment[0] == one.attainment[0]
    assert two.busy_share == pytest.approx(one.busy_share)
