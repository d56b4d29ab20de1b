"""The simulators against the literal oracle, against each other, and against the laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.kernels import Law, Limits, compiled, plain, simulate_pool
from tests.pools import (
    ROUTERS,
    SIMULATORS,
    Case,
    differences,
    random_case,
    solve,
    solve_by_oracle,
)

integers = st.integers
simulators = pytest.mark.parametrize("simulator", SIMULATORS, ids=lambda run: run.__module__[16:])


@st.composite
def pools(draw: st.DrawFn, *, alone: bool = False) -> Case:
    """Small pools in which every number matters, and that shrink."""
    n = draw(integers(1, 8))
    tokens = draw(integers(1, 12))
    limits = Limits(
        max_num_seqs=draw(integers(1, tokens)),
        max_num_batched_tokens=tokens,
        kv_blocks=draw(integers(0, 24)),
        block_size=draw(st.sampled_from([1, 2, 3, 4, 16])),
        reserve_full_prompt=draw(st.booleans()),
        watermark_blocks=draw(integers(0, 2)),
    )
    law = Law(
        np.array(draw(st.lists(integers(1, 50), min_size=tokens + 1, max_size=tokens + 1))),
        square_ps_2p15=draw(integers(0, 2**17)),
        context_ps=draw(integers(0, 3)),
        sequence_ps=draw(integers(0, 5)),
        chunk_context_ps=draw(integers(0, 3)),
    )
    gaps = draw(st.lists(integers(0, 120), min_size=n, max_size=n))
    lengths = st.lists(integers(1, 20), min_size=n, max_size=n)
    return Case(
        law,
        limits,
        np.cumsum(gaps),
        np.array(draw(lengths), np.int32),
        np.array(draw(lengths), np.int32),
        1 if alone else draw(integers(1, 4)),
        draw(st.sampled_from(ROUTERS)),
    )


# --- a second route --------------------------------------------------------------------------


@settings(max_examples=500, deadline=None)
@given(pools())
def test_every_simulator_equals_the_oracle_to_the_bit(case: Case) -> None:
    expected = solve_by_oracle(case)
    for simulator in SIMULATORS:
        assert differences(solve(case, simulator), expected) == []


@pytest.mark.parametrize("block", range(8))
def test_simulators_equal_the_oracle_on_300_random_pools_of_many_shapes(block: int) -> None:
    preemptions = skipped = rejected = 0
    for seed in range(300 * block, 300 * (block + 1)):
        case = random_case(np.random.default_rng(seed))
        expected = solve_by_oracle(case)
        for simulator in SIMULATORS:
            found = solve(case, simulator)
            assert differences(found, expected) == [], seed
        preemptions += int(expected.preemptions.clip(0).sum())
        skipped += expected.steps - found.events
        rejected += int(case.rejected.sum())
    assert min(preemptions, skipped, rejected) > 100  # the cases reach what they are meant for


def test_longer_runs_under_memory_pressure_equal_the_oracle() -> None:
    for seed in range(9000, 9010):
        case = random_case(np.random.default_rng(seed), most=400)
        expected = solve_by_oracle(case)
        for simulator in SIMULATORS:
            assert differences(solve(case, simulator), expected) == [], seed


def test_compiled_and_plain_skip_the_same_spans_of_steps() -> None:
    for seed in range(200):
        case = random_case(np.random.default_rng(seed), most=100)
        assert len({solve(case, simulator).events for simulator in SIMULATORS}) == 1


# --- laws ------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(pools())
def test_requests_are_conserved_and_time_runs_forward(case: Case) -> None:
    r = solve(case)
    served = ~case.rejected
    assert ((r.finish_ps >= 0) == served).all()
    for column in r[:7]:
        assert (column[~served] == -1).all()
    assert (case.arrival <= r.first_scheduled_ps)[served].all()
    assert (r.first_scheduled_ps < r.first_token_ps)[served].all()
    more = case.output > 1
    assert (r.first_token_ps < r.finish_ps)[served & more].all()
    assert (r.first_token_ps == r.finish_ps)[served & ~more].all()
    assert r.peak_kv_blocks <= case.limits.kv_blocks
    assert ((r.preempted_ps > 0) == (r.preemptions > 0))[served].all()


@settings(max_examples=200, deadline=None)
@given(pools())
def test_admission_is_first_come_first_served_in_each_replica(case: Case) -> None:
    r = solve(case)
    for index in range(case.replicas):
        assert (np.diff(r.first_scheduled_ps[r.replica == index]) >= 0).all()


@settings(max_examples=200, deadline=None)
@given(pools(alone=True))
def test_a_replica_works_exactly_while_it_has_a_request(case: Case) -> None:
    """Busy time is the length of the union of all [arrival, finish]: it never idles or sticks."""
    r = solve(case)
    end = busy = 0
    for arrival, finish in zip(case.arrival, r.finish_ps, strict=True):
        if finish < 0:
            continue
        busy += max(0, finish - max(arrival, end))
        end = max(end, finish)
    assert busy == r.busy_ps


@settings(max_examples=200, deadline=None)
@given(pools(), integers(1, 10**6))
def test_a_later_start_of_the_clock_shifts_all_times(case: Case, shift: int) -> None:
    r, later = solve(case), solve(case._replace(arrival=case.arrival + shift))
    served = ~case.rejected
    for a, b in zip(r[:3], later[:3], strict=True):
        assert (a[served] + shift == b[served]).all()
    for a, b in zip(r[3:], later[3:], strict=True):
        assert np.array_equal(a, b)


@settings(max_examples=200, deadline=None)
@given(pools(), integers(0, 7))
def test_a_request_changes_nothing_before_it_arrives(case: Case, cut: int) -> None:
    cut = min(cut, len(case.arrival) - 1)
    now = case.arrival[cut]
    shorter = case._replace(
        arrival=case.arrival[:cut], prompt=case.prompt[:cut], output=case.output[:cut]
    )
    for a, b in zip(solve(shorter)[:3], solve(case)[:3], strict=True):
        assert (np.minimum(a, now) == np.minimum(b[:cut], now)).all()


@settings(max_examples=200, deadline=None)
@given(pools(), integers(0, 7), integers(1, 20))
def test_no_decision_depends_on_how_long_an_answer_will_be(
    case: Case, which: int, output: int
) -> None:
    """Two histories, alike but for one output, part no sooner than that request ends."""
    which = min(which, len(case.arrival) - 1)
    other = case._replace(output=case.output.copy())
    other.output[which] = output
    if (case.rejected | other.rejected)[which]:
        return  # rejection does read the longest possible answer
    a, b = solve(case), solve(other)
    until = min(a.finish_ps[which], b.finish_ps[which])
    for x, y in zip(a[:3], b[:3], strict=True):
        assert (np.minimum(x, until) == np.minimum(y, until)).all()


@simulators
def test_the_same_input_gives_the_same_bytes(simulator) -> None:
    case = random_case(np.random.default_rng(1), most=300)
    assert differences(solve(case, simulator), solve(case, simulator)) == []


# --- closed forms ----------------------------------------------------------------------------


def one_seat(arrival: np.ndarray) -> tuple[Case, int]:
    """Requests of 40 + 9 tokens served one at a time, and their service time by hand."""
    law = Law(1000 + 10 * np.arange(65), context_ps=2, sequence_ps=5)
    prefill = 1000 + 10 * 40 + 5
    decodes = 8 * (1000 + 10 + 5) + 2 * sum(range(41, 49))
    n = len(arrival)
    lengths = (np.full(n, 40, np.int32), np.full(n, 9, np.int32))
    return Case(law, Limits(1, 64, 1000), arrival, *lengths), prefill + decodes


@simulators
def test_one_seat_is_the_recursion_of_lindley(simulator) -> None:
    arrival = np.cumsum(np.random.default_rng(5).exponential(12_000, 2_000)).astype(np.int64)
    case, service = one_seat(arrival)
    r = solve(case, simulator)
    free = 0
    for i, now in enumerate(arrival):
        assert r.first_scheduled_ps[i] == max(now, free)
        free = max(now, free) + service
        assert r.finish_ps[i] == free
    assert r.steps == 9 * len(arrival)


def test_one_seat_with_poisson_arrivals_waits_as_an_m_d_1_queue() -> None:
    """Mean wait rho D / (2 (1 - rho)), Pollaczek and Khinchine.

    Twenty independent runs give the standard error of their mean; 5 of them are allowed, and
    the seeds are fixed. The first tenth of each run is warm-up.
    """
    _, service = one_seat(np.zeros(1, np.int64))
    load, n = 0.7, 20_000 if compiled.COMPILED else 2_000
    means = []
    for seed in range(20):
        gaps = np.random.default_rng(seed).exponential(service / load, n)
        arrival = np.cumsum(gaps).astype(np.int64)
        case, _ = one_seat(arrival)
        waits = solve(case).first_scheduled_ps - arrival
        means.append(waits[n // 10 :].mean())
    error = np.std(means, ddof=1) / math.sqrt(len(means))
    theory = load * service / (2 * (1 - load))
    assert error < 0.05 * theory
    assert abs(np.mean(means) - theory) < 5 * error


@simulators
@pytest.mark.parametrize("members", [1, 3, 64])
def test_requests_in_step_finish_after_an_arithmetic_series(simulator, members: int) -> None:
    """All prefill in one step, then 999 decode steps whose context grows by one token each."""
    law = Law(70 + 3 * np.arange(513), 2**15, context_ps=4, sequence_ps=6, chunk_context_ps=2)
    prompt, output = 8, 1000
    case = Case(
        law,
        Limits(64, 512, 10**6),
        np.zeros(members, np.int64),
        np.full(members, prompt, np.int32),
        np.full(members, output, np.int32),
    )
    prefill = 70 + members * (3 * prompt + prompt**2 // 2 + 6 + 2 * prompt)
    step = 70 + members * (3 + 6)
    contexts = sum(range(prompt + 1, prompt + output))
    r = solve(case, simulator)
    assert (r.first_token_ps == prefill).all()
    assert (r.finish_ps == prefill + 999 * step + 4 * members * contexts).all()
    assert (r.events, r.steps) == (2, 1000)
    assert r.peak_kv_blocks == members * 63  # 1007 tokens in blocks of 16


def test_round_robin_is_as_many_pools_of_one() -> None:
    for seed in range(100):
        case = random_case(np.random.default_rng(seed))._replace(router="round_robin")
        whole = solve(case)
        for index in range(case.replicas):
            part = [column[index :: case.replicas].copy() for column in case[2:5]]
            alone = solve(Case(*case[:2], *part))
            for a, b in zip(whole[:6], alone[:6], strict=True):
                assert (a[index :: case.replicas] == b).all()


def test_the_checked_front_agrees_with_what_lies_behind_it() -> None:
    for seed in range(50):
        case = random_case(np.random.default_rng(seed))
        front = simulate_pool(
            *case[:5], replicas=case.replicas, router=case.router, stages=True, gaps=True
        )
        assert differences(front, solve(case, plain.run)) == []
