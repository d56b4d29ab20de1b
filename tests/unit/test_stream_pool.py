"""Streams drawn chunk by chunk: the same requests in one array give the same counts."""

from __future__ import annotations

import numpy as np

from planner.kernels import Deadlines, Limits, Stream, simulate_pool
from planner.problem.arrivals import RenewalArrivals
from planner.problem.deadlines import deadlines_of
from planner.scenario.slo import PromptBucket, Slo
from planner.simulation.draw import HORIZON_S, Draws
from planner.simulation.stream import LONGEST_GAP, chunks, size_at, stream_pool
from tests.problems import affine_law, setup, spread, study

LAW = affine_law(5, 20, 512, context_ps=50_000)


def test_a_stream_counts_what_one_run_over_the_same_requests_does():
    both = study(
        spread(300, 40, 1.0),
        spread(100, 80, 0.5),
        ttft_ms=(60, 40),
        tpot_ms=(9, 8),
        promise=(0.9, 0.9),
    )
    pool, rates, n, size = setup(LAW, 64, blocks=900, replicas=2), (30.0, 15.0), 7_000, 1_024
    found = stream_pool(pool, both.draws, rates, both.deadlines, requests=n, chunk=size)
    parts = list(chunks(both.draws, rates, n, 0, size))
    arrival, zero = [], 0
    for part in parts:
        arrival.append(zero + part.arrival_ps(45.0))
        zero = arrival[-1][-1]
    kind, prompt, output = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("workload", "prompt", "output")
    )
    r = simulate_pool(
        pool.law, pool.limits, np.concatenate(arrival), prompt, output, replicas=2, stages=True
    )
    done = r.finish_ps >= 0
    ttft = r.first_token_ps - np.concatenate(arrival)
    due = both.deadlines
    good = (
        done
        & (ttft <= due.ttft_ps[kind])
        & (r.finish_ps - r.first_token_ps <= due.tpot_ps[kind] * (output.astype(np.int64) - 1))
    )
    for k, summary in enumerate(found.classes):
        assert summary.offered == (kind == k).sum()
        assert summary.compliant == (good & (kind == k)).sum()
        assert 0 < summary.compliant < summary.offered
        assert summary.completed == (done & (kind == k)).sum()
        batch = sum(row["decode_batch"] for row in summary.stages_ps.values())
        assert batch == r.stages.decode_batch_ps[done & (kind == k)].sum()
    assert found.busy_ps == r.busy_ps


def test_a_stream_of_bursts_counts_what_one_run_over_the_same_requests_does():
    """Its arrivals come of its law, not of the gaps of a Poisson process."""
    base = study(spread(300, 40, 1.0), ttft_ms=(60,), tpot_ms=(9,), promise=(0.9,))
    laws = (RenewalArrivals(30.0, 4.0, "gamma"),)
    draws = Draws(base.draws.laws, 1, laws)
    pool = setup(LAW, 64, blocks=900)
    found = stream_pool(pool, draws, (30.0,), base.deadlines, requests=4_000, chunk=4_000)
    traffic = next(chunks(draws, (30.0,), 4_000, 0, 4_000)).at(30.0)
    r = simulate_pool(pool.law, pool.limits, traffic.arrival_ps, traffic.prompt, traffic.output)
    ttft = (r.first_token_ps - traffic.arrival_ps).astype(np.float64)
    decode = (r.finish_ps - r.first_token_ps).astype(np.float64)
    lengths = traffic.prompt, traffic.output
    good = base.deadlines.met(traffic.workload, lengths, ttft, decode) & (r.finish_ps >= 0)
    assert found.classes[0].compliant == good.sum()
    even = stream_pool(pool, base.draws, (30.0,), base.deadlines, requests=4_000, chunk=4_000)
    assert found.classes[0].compliant < even.classes[0].compliant


def test_a_stream_judges_every_deadline_that_there_is():
    slos = [
        Slo(
            ttft=0.06,
            tpot=0.009,
            ttft_by_prompt=(PromptBucket(up_to=100, ttft=0.02), PromptBucket(up_to=300, ttft=0.04)),
        ),
        Slo(ttft=0.06, tpot=0.009, e2e=0.5),
        Slo(ttft=0.06, tpot=0.009, max_itl=0.012),
        Slo(ttft=0.06, tpot=0.009),
    ]
    base = study(
        *[spread(300, 40, 1.0)] * 4, ttft_ms=(60,) * 4, tpot_ms=(9,) * 4, promise=(0.9,) * 4
    )
    due = deadlines_of(slos, [10**6] * 4)
    pool, rates = setup(LAW, 64, blocks=900), (8.0,) * 4
    found = stream_pool(pool, base.draws, rates, due, requests=6_000, chunk=6_000)
    traffic = next(chunks(base.draws, rates, 6_000, 0, 6_000)).at(32.0)
    r = simulate_pool(
        pool.law, pool.limits, traffic.arrival_ps, traffic.prompt, traffic.output, gaps=True
    )
    ttft, decode = r.first_token_ps - traffic.arrival_ps, r.finish_ps - r.first_token_ps
    lengths = traffic.prompt, traffic.output
    good = due.met(traffic.workload, lengths, ttft, decode, r.gaps.longest_ps())
    good &= r.finish_ps >= 0
    counts = [summary.compliant for summary in found.classes]
    assert counts == [(good & (traffic.workload == k)).sum() for k in range(4)]
    shares = [summary.compliant / summary.offered for summary in found.classes]
    assert max(shares[:3]) < shares[3] - 0.02  # each further deadline costs something
    assert found.classes[0].outcomes["late_other"] == 0
    assert min(found.classes[k].outcomes["late_other"] for k in (1, 2)) > 0


def test_chunks_are_independent_and_their_marginals_exact():
    lone = study(spread(300, 40, 1.0), ttft_ms=(1,), tpot_ms=(1,), promise=(0.9,))
    one, two, three = chunks(lone.draws, (2.0,), 2_500, 0, 1_000)
    assert [part.gap.size for part in (one, two, three)] == [1_000, 1_000, 500]
    assert sorted(one.prompt) == sorted(two.prompt)
    assert one.prompt.tolist() != two.prompt.tolist()
    assert np.isclose(one.gap.mean(), 1.0)
    again = next(chunks(lone.draws, (2.0,), 2_500, 0, 1_000))
    other = next(chunks(lone.draws, (2.0,), 2_500, 1, 1_000))
    assert again.gap.tolist() == one.gap.tolist() != other.gap.tolist()


def test_at_low_rates_chunks_are_short_enough_that_no_gap_is_cut():
    lone = study(spread(300, 40, 1.0), ttft_ms=(1,), tpot_ms=(1,), promise=(0.9,))
    for rate in (1e-4, 0.01, 100.0):
        size = size_at(rate)
        draw = next(chunks(lone.draws, (rate,), size, 0, size))
        assert draw.gap.max() < LONGEST_GAP
        assert draw.gap.max() / rate <= HORIZON_S / size
        span = (draw.gap / rate * 1e12).sum()
        assert np.isclose(draw.arrival_ps(rate)[-1], span, rtol=1e-6)


def test_a_plain_stream_keeps_room_for_those_in_the_system_only():
    """One seat, never two at a time: 9,000 requests in the place of one."""
    n = 9_000
    ones = np.ones(n, np.int32)
    deadlines = Deadlines(*(np.array([1]) for _ in range(5)))
    stream = Stream(LAW, Limits(1, 512, 9), deadlines, native=False)
    stream.push(10**12 * np.arange(n), ones, ones, 0 * ones)
    plain = stream._stream
    pool = plain._pool
    assert len(plain._kind) <= 2
    assert all(len(column) <= 2 for column in (*plain._traffic, *plain._columns, *plain._gaps))
    assert len(pool._inboxes[0]) < 5_000
    assert not pool.done
    stream.drain()
    assert stream.summary().classes[0].completed == n
