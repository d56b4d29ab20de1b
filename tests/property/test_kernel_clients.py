"""Clients that wait for a permit: the simulators, the literal oracle, and the laws of a loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.kernels import (
    Law,
    Limits,
    Sources,
    simulate_capped,
    simulate_closed_loop,
    simulate_pool,
    simulate_users,
)
from tests.pools import (
    CLIENT_SIMULATORS,
    ROUTERS,
    Case,
    ClientCase,
    differences,
    random_client_case,
    solve_clients,
    solve_clients_by_oracle,
)
from tests.property.test_kernels import pools

integers = st.integers
simulators = pytest.mark.parametrize(
    "simulator", CLIENT_SIMULATORS, ids=lambda run: run.__module__[16:]
)


@st.composite
def loops(draw: st.DrawFn) -> ClientCase:
    case = draw(pools())
    n = len(case.arrival)
    think = draw(st.lists(integers(0, 60), min_size=n, max_size=n))
    permits = draw(st.lists(integers(0, 60), min_size=1, max_size=4))
    return ClientCase(case, np.array(think, np.int64), np.array(permits, np.int64))


def in_flight(sent: np.ndarray, finish: np.ndarray, now: int) -> int:
    return int(((sent <= now) & (finish > now)).sum())


# --- a second route --------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(loops())
def test_every_simulator_of_clients_equals_the_oracle_to_the_bit(case: ClientCase) -> None:
    sent, records = solve_clients_by_oracle(case)
    for simulator in CLIENT_SIMULATORS:
        found = solve_clients(case, simulator)
        assert found.sent_ps.tobytes() == sent.tobytes()
        assert differences(found.records, records) == []


@pytest.mark.parametrize("block", range(4))
def test_simulators_of_clients_equal_the_oracle_on_200_random_loops(block: int) -> None:
    for seed in range(200 * block, 200 * (block + 1)):
        case = random_client_case(np.random.default_rng(seed))
        sent, records = solve_clients_by_oracle(case)
        events = set()
        for simulator in CLIENT_SIMULATORS:
            found = solve_clients(case, simulator)
            assert found.sent_ps.tobytes() == sent.tobytes(), seed
            assert differences(found.records, records) == [], seed
            events.add(found.records.events)
        assert len(events) == 1


# --- laws ------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(loops())
def test_permits_are_kept_and_used_at_once(case: ClientCase) -> None:
    """Sending i is the least free permit or the arrival, whichever is later; by a heap of its own.

    Permits that come back by the time of a sending are those of requests sent before it.
    """
    sent, records = solve_clients(case)
    back = np.where(records.finish_ps >= 0, records.finish_ps, sent) + case.think
    free = sorted(case.permits.tolist())
    for i, now in enumerate(sent.tolist()):
        assert now == max(int(case.pool.arrival[i]), free.pop(0))
        free = sorted([*free, int(back[i])])
    assert (np.diff(sent) >= 0).all()


@settings(max_examples=200, deadline=None)
@given(loops())
def test_what_was_sent_is_served_as_if_it_had_come_by_itself(case: ClientCase) -> None:
    """One tick of thinking takes the ties away; then a plain run of what was sent is the same."""
    case = case._replace(think=case.think + 1)
    sent, records = solve_clients(case)
    pool = case.pool
    again = simulate_pool(
        pool.law,
        pool.limits,
        sent,
        pool.prompt,
        pool.output,
        replicas=pool.replicas,
        router=pool.router,
        stages=True,
    )
    assert differences(again, records) == []


@settings(max_examples=200, deadline=None)
@given(pools())
def test_as_many_permits_as_requests_are_no_cap(case: Case) -> None:
    n, kw = len(case.arrival), {"replicas": case.replicas, "router": case.router, "stages": True}
    free = simulate_pool(*case[:5], **kw)
    sent, capped = simulate_capped(*case[:5], clients=n, **kw)
    assert (sent == case.arrival).all()
    assert differences(capped, free) == []


def test_never_more_in_flight_than_clients_and_never_fewer_while_requests_are_left() -> None:
    rng = np.random.default_rng(3)
    prompt, output = (rng.integers(1, 90, 400).astype(np.int32) for _ in "po")
    law = Law(1000 + 3 * np.arange(65), context_ps=1)
    sent, r = simulate_closed_loop(law, Limits(16, 64, 999), prompt, output, clients=7)
    for now in sent[7:].tolist():
        assert in_flight(sent, r.finish_ps, now) == 7
        assert in_flight(sent, r.finish_ps, now - 1) == 7


# --- several sources -------------------------------------------------------------------------


@st.composite
def crowds(draw: st.DrawFn) -> tuple[ClientCase, Sources]:
    """Pools whose requests come from up to three sources, some of them open."""
    case = draw(loops())
    n = len(case.pool.arrival)
    kinds = draw(integers(1, min(3, n)))
    rest = draw(st.lists(integers(0, kinds - 1), min_size=n - kinds, max_size=n - kinds))
    source = np.array([*range(kinds), *rest], np.int32)
    permits = np.array(draw(st.lists(integers(0, 3), min_size=kinds, max_size=kinds)))
    users = int(permits.sum())
    start = draw(st.lists(integers(0, 60), min_size=users, max_size=users))
    return case._replace(permits=np.array(start, np.int64)), Sources(source, permits)


@settings(max_examples=300, deadline=None)
@given(crowds())
def test_simulators_agree_to_the_bit_on_several_sources(crowd: tuple[ClientCase, Sources]) -> None:
    case, sources = crowd
    pool = case.pool
    router = ROUTERS.index(pool.router)
    one, *others = (
        run(*pool[:5], case.think, case.permits, pool.replicas, router, stages=True,
            sources=sources)
        for run in CLIENT_SIMULATORS
    )  # fmt: skip
    for other in others:
        assert one.sent_ps.tobytes() == other.sent_ps.tobytes()
        assert differences(one.records, other.records) == []


def crowd_of(crowd: tuple[ClientCase, Sources]):
    case, sources = crowd
    pool = case.pool
    think = case.think + 1  # no ties between an answer and the next request
    sent, records = simulate_users(
        *pool[:5], sources, case.permits, think,
        replicas=pool.replicas, router=pool.router, stages=True,
    )  # fmt: skip
    return pool, sources, think, sent, records


@settings(max_examples=200, deadline=None)
@given(crowds())
def test_each_source_sends_in_order_with_permits_of_its_own(crowd) -> None:
    """A second route: a sorted list of permits per source, told the finishes of the run."""
    pool, sources, think, sent, records = crowd_of(crowd)
    back = np.where(records.finish_ps >= 0, records.finish_ps, sent) + think
    edges = np.concatenate([[0], np.cumsum(sources.permits)])
    for k, permits in enumerate(sources.permits.tolist()):
        mine = np.flatnonzero(sources.source == k)
        free = sorted(crowd[0].permits[edges[k] : edges[k + 1]].tolist())
        went = mine[sent[mine] >= 0]
        assert (went == mine[: went.size]).all()
        for i in went.tolist():
            ready = int(pool.arrival[i])
            assert sent[i] == (max(ready, free.pop(0)) if permits else ready)
            free = sorted([*free, int(back[i])])


@settings(max_examples=200, deadline=None)
@given(crowds())
def test_sending_ends_with_the_first_source_that_is_through(crowd) -> None:
    _, sources, _, sent, records = crowd_of(crowd)
    last = [sent[sources.source == k].max() for k in range(len(sources.permits))]
    whole = [(sent[sources.source == k] >= 0).all() for k in range(len(sources.permits))]
    assert any(whole)
    assert sent.max() == min(end for end, all_sent in zip(last, whole, strict=True) if all_sent)
    assert (records.finish_ps[sent < 0] == -1).all()


@settings(max_examples=200, deadline=None)
@given(crowds())
def test_what_several_sources_sent_is_served_as_if_it_had_come_by_itself(crowd) -> None:
    pool, sources, _, sent, records = crowd_of(crowd)
    went = np.flatnonzero(sent >= 0)
    order = went[np.lexsort((went, sources.source[went], sent[went]))]
    again = simulate_pool(
        pool.law, pool.limits, sent[order], pool.prompt[order], pool.output[order],
        replicas=pool.replicas, router=pool.router, stages=True,
    )  # fmt: skip
    assert (again.finish_ps == records.finish_ps[order]).all()
    assert (again.first_token_ps == records.first_token_ps[order]).all()
    assert (again.replica == records.replica[order]).all()


@pytest.mark.parametrize(("change", "message"), [
    ({"sources": Sources(np.zeros(3, np.int32), np.ones(1, np.int64))}, "sources"),
    ({"sources": Sources(np.ones(2, np.int32), np.ones(1, np.int64))}, "sources"),
    ({"sources": Sources(np.zeros(2, np.int32), np.array([1, 0]))}, "sources"),
    ({"start_ps": np.zeros(2, np.int64)}, "start_ps"),
    ({"start_ps": np.array([-1])}, "start_ps"),
    ({"arrival_ps": np.array([1, 0])}, "arrival_ps"),
    ({"think_ps": np.array([0, -1])}, "think_ps"),
])  # fmt: skip
def test_the_front_of_sources_refuses(change: dict, message: str) -> None:
    ones = np.ones(2, np.int32)
    arguments = {
        "arrival_ps": np.zeros(2, np.int64),
        "sources": Sources(np.zeros(2, np.int32), np.ones(1, np.int64)),
        "start_ps": np.zeros(1, np.int64),
        "think_ps": np.zeros(2, np.int64),
    } | change
    with pytest.raises(ValueError, match=message):
        simulate_users(
            Law(np.ones(9, np.int64)), Limits(2, 8, 9), arguments["arrival_ps"], ones, ones,
            arguments["sources"], arguments["start_ps"], arguments["think_ps"],
        )  # fmt: skip


# --- closed forms ----------------------------------------------------------------------------


@simulators
def test_one_client_pays_each_request_alone(simulator) -> None:
    """L(n) = 100 + n, c_K = 1; prompt p and output o: 100 + p, then o - 1 decodes."""
    law = Law(100 + np.arange(65), context_ps=1)
    prompt, output = np.array([5, 60, 1], np.int32), np.array([4, 1, 2], np.int32)
    think = np.array([10, 0, 0], np.int64)
    pool = Case(law, Limits(8, 64, 100), np.zeros(3, np.int64), prompt, output)
    sent, r = solve_clients(ClientCase(pool, think, np.zeros(1, np.int64)), simulator)
    service = [105 + 3 * 101 + 6 + 7 + 8, 160, 101 + 101 + 2]
    assert sent.tolist() == [0, service[0] + 10, service[0] + 10 + service[1]]
    assert (r.finish_ps - sent).tolist() == service
    assert not r.stages.queue_ps.any()


@simulators
def test_a_released_request_misses_the_step_that_begins_as_it_is_sent(simulator) -> None:
    """L(n) = 10 whatever n. Two clients; outputs of 3, 2 and 2 tokens; all prompts of 1 token.

    0: both prefills -> 10; decodes -> 20: the second is done and the third sent, but the step
    from 20 to 30 is under way; the third is served from 30.
    """
    law = Law(np.full(9, 10, np.int64))
    output = np.array([5, 2, 2], np.int32)
    pool = Case(law, Limits(8, 8, 100), np.zeros(3, np.int64), np.ones(3, np.int32), output)
    case = ClientCase(pool, np.zeros(3, np.int64), np.zeros(2, np.int64))
    sent, r = solve_clients(case, simulator)
    assert sent.tolist() == [0, 0, 20]
    assert r.first_scheduled_ps.tolist() == [0, 0, 30]


def test_equal_requests_in_step_repeat_rounds_of_one_length() -> None:
    """C clients, equal requests, all at once, seats for all: prefill together, decode together.

    The finishers release the next C at once; the replica is idle, so they start at once: each
    round lasts L(C p) + (o - 1) L(C) for a law without other terms.
    """
    clients, prompt, output, rounds = 6, 4, 9, 5
    law = Law(100 + 7 * np.arange(65))
    n = clients * rounds
    sent, r = simulate_closed_loop(
        law,
        Limits(8, 64, 1000),
        np.full(n, prompt, np.int32),
        np.full(n, output, np.int32),
        clients=clients,
    )
    length = 100 + 7 * clients * prompt + (output - 1) * (100 + 7 * clients)
    assert r.finish_ps.max() == rounds * length
    assert (sent == np.repeat(np.arange(rounds), clients) * length).all()


def test_a_ramp_starts_clients_evenly() -> None:
    law = Law(np.full(9, 10**6, np.int64))
    ones = np.ones(4, np.int32)
    sent, _ = simulate_closed_loop(law, Limits(8, 8, 9), ones, ones, clients=4, ramp_ps=1000)
    assert sent.tolist() == [0, 250, 500, 750]


def test_a_machine_repairman_waits_as_the_theory_says() -> None:
    """One seat and C clients that think for exponential times: throughput of M/D/1//C, by Little.

    With constant service S, N clients and mean thinking time Z, throughput X satisfies
    X * (R + Z) = N for the mean response R, whatever the distribution.
    """
    rng = np.random.default_rng(8)
    n, clients = 4000, 5
    law = Law(np.full(9, 1000, np.int64))
    think = rng.exponential(4000, n).astype(np.int64)
    ones = np.ones(n, np.int32)
    sent, r = simulate_closed_loop(
        law, Limits(1, 8, 9), ones, ones, clients=clients, think_ps=think
    )
    span = r.finish_ps.max()
    cycle = (r.finish_ps - sent + think).mean()
    assert math.isclose(n / span * cycle, clients, rel_tol=0.02)


@pytest.mark.parametrize(("change", "message"), [
    ({"clients": 0}, "clients"),
    ({"think_ps": -1}, "think_ps"),
    ({"think_ps": 2**62}, "think_ps"),
    ({"think_ps": np.zeros(2)}, "think_ps"),
    ({"ramp_ps": -1}, "ramp_ps"),
    ({"replicas": 0}, "replicas"),
])  # fmt: skip
def test_the_front_of_clients_refuses(change: dict, message: str) -> None:
    ones = np.ones(2, np.int32)
    arguments = {"clients": 1} | change
    with pytest.raises(ValueError, match=message):
        simulate_closed_loop(Law(np.ones(9, np.int64)), Limits(2, 8, 9), ones, ones, **arguments)


@simulators
def test_time_of_clients_beyond_53_days_is_refused(simulator) -> None:
    ones = np.ones(3, np.int32)
    pool = Case(Law(np.full(9, 2**60)), Limits(2, 8, 9), np.zeros(3, np.int64), ones, ones)
    think = np.array([2**61, 2**61, 0], np.int64)
    with pytest.raises(OverflowError, match="53 days"):
        solve_clients(ClientCase(pool, think, np.zeros(1, np.int64)), simulator)
