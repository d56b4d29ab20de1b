"""Several engines, worked out by hand: routers, ranks in lock-step, prefill apart from decode.

A step of n tokens lasts 10 + n ticks throughout.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.kernels.stepwise import (
    Colocated,
    Disaggregated,
    EngineOptions,
    Job,
    LinkOptions,
    RouterOptions,
    affine,
    simulate,
)
from planner.kernels.stepwise.engine import Engine
from planner.kernels.stepwise.link import FairLink, FifoLink, Transfer
from planner.kernels.stepwise.request import Request

LAW = affine(10, 1)
ENGINE = EngineOptions(max_num_seqs=8, max_num_batched_tokens=100, block_size=4)


def route(jobs, router, replicas=2, engine=ENGINE):
    outcome = simulate(jobs, Colocated(engine, LAW, replicas, router))
    return [record.replica for record in outcome.records]


def split(jobs, mode="nixl_pull", *, prefill=ENGINE, decode=ENGINE, hop=1, **more):
    """One prefill and one decode engine; 2 ticks per token on the link, latency 3."""
    link = LinkOptions(2, 3)
    setup = Disaggregated(prefill, LAW, decode, LAW, link, mode=mode, hop=hop, **more)
    return simulate(jobs, setup, keep_steps=True)


def test_round_robin_goes_round():
    assert route([Job(t, 1, 1) for t in range(5)], RouterOptions(), 3) == [0, 1, 2, 0, 1]


def test_least_outstanding_counts_those_routed_in_the_same_instant_and_not_the_finished():
    # 0 and 0: replicas 0, 1. The one-token request of replica 0 is over at 11, and at 11 its
    # completion comes before the arrival
    jobs = [Job(0, 1, 1), Job(0, 1, 9), Job(11, 1, 1), Job(11, 1, 1)]
    assert route(jobs, RouterOptions("least_outstanding")) == [0, 1, 0, 0]


def test_least_kv_looks_at_blocks_held():
    # at 5 replica 0 holds 3 blocks for one request, replica 1 holds 1 for one
    jobs = [Job(0, 12, 9), Job(0, 1, 9), Job(5, 1, 1)]
    assert route(jobs, RouterOptions("least_kv")) == [0, 1, 1]


def test_prefix_affinity_prefers_the_replica_that_has_the_blocks():
    cached = EngineOptions(8, 100, block_size=4, prefix_caching=True)
    jobs = [
        Job(0, 9, 1),
        Job(0, 9, 1, prefix=("a", "b")),  # the emptier one: replica 1
        Job(50, 9, 9, prefix=("a", "b")),  # follows its prefix
        Job(51, 9, 1, prefix=("a", "b")),  # though replica 1 is busy now
        Job(52, 9, 1),
    ]
    assert route(jobs, RouterOptions("prefix_affinity"), engine=cached) == [0, 1, 1, 1, 0]


def test_by_length_sends_long_prompts_to_their_own_replicas():
    router = RouterOptions("by_length", boundaries=(4,), groups=((0,), (1, 2)))
    jobs = [Job(0, length, 1) for length in (4, 5, 9, 6, 1)]
    assert route(jobs, router, 3) == [0, 1, 2, 1, 0]


def test_by_class_sends_each_class_to_its_own_replicas():
    router = RouterOptions("by_class", groups=((1,), (0, 2)))
    jobs = [Job(0, 1, 1, group=group) for group in (0, 1, 1, 0)]
    assert route(jobs, router, 3) == [1, 0, 2, 1]


def test_ranks_in_lock_step_wait_for_the_longest_of_them():
    # rank 0: 4 tokens, rank 1: 10: both 0..20. An arrival at 5 for rank 0 waits for both;
    # rank 1 has nothing more: 20..31
    setup = Colocated(ENGINE, LAW, 2, RouterOptions(), lock_step=True)
    outcome = simulate([Job(0, 4, 1), Job(0, 10, 1), Job(5, 1, 1)], setup)
    assert [record.token_times for record in outcome.records] == [[20], [20], [31]]
    assert outcome.n_steps == (2, 1)


def test_engines_of_ranks_do_not_wait_for_one_another():
    # ranks 0 and 1: 4 and 10 tokens, both 0..20; ranks 2 and 3 are another engine: 1 token 0..11,
    # and what comes to rank 3 at 12 starts at once
    setup = Colocated(ENGINE, LAW, 4, RouterOptions(), lock_step=True, ranks=2)
    jobs = [Job(0, 4, 1), Job(0, 10, 1), Job(0, 1, 1), Job(12, 1, 1)]
    outcome = simulate(jobs, setup)
    assert [record.token_times for record in outcome.records] == [[20], [20], [11], [23]]


def test_pull_queues_hops_allocates_reads_and_recomputes_one_token():
    # P 0..14; D queues at 15, allocates and reads 8 ticks and 3 of latency: 26; one token
    # 26..37 is the first at the client, the next 37..48
    outcome = split([Job(0, 4, 2)])
    record = outcome.records[0]
    assert (record.prefill_done, record.decode_arrival) == (14, 15)
    assert (record.kv_start, record.kv_end, record.decode_first_scheduled) == (15, 26, 26)
    assert record.token_times == [37, 48]
    first = outcome.steps[1][0].items[0]
    assert (first.new, first.before) == (1, 3)


def test_pull_holds_the_prefill_blocks_until_they_are_read():
    # one block on the prefill side: the second prompt starts when the first is read, at 26
    narrow = EngineOptions(8, 100, block_size=4, usable_blocks=1)
    outcome = split([Job(0, 4, 2), Job(1, 4, 1)], prefill=narrow)
    second = outcome.records[1]
    # P 26..40, D queues at 41, but is in a step 37..48 until it can allocate
    assert (second.first_scheduled, second.decode_arrival) == (26, 41)
    assert (second.kv_start, second.kv_end) == (48, 59)
    assert second.token_times == [70]


def test_pull_waits_for_blocks_on_the_decode_side():
    # D has 2 blocks. Both prompts are prefilled in 0..18 and queued at 19. The first takes one
    # block, reads 19..30 (8 and 3); the second the other, reads from 27 (after the bytes of the
    # first) to 38. First: 30..41 (recompute), then it needs a second block: there is none, and
    # it is the last running: preempted at 41. The second goes 41..52 and ends; then the first
    # has room for its 5 tokens: 52..67.
    two = EngineOptions(8, 100, block_size=4, usable_blocks=2)
    outcome = split([Job(0, 4, 2), Job(0, 4, 1)], decode=two)
    assert [record.token_times for record in outcome.records] == [[41, 67], [52]]
    assert [(r.kv_start, r.kv_end) for r in outcome.records] == [(19, 30), (27, 38)]
    assert [record.preemptions for record in outcome.records] == [1, 0]


def test_a_request_whose_kv_was_read_is_served_though_its_deadline_has_passed():
    # P 0..11, queued at 12, read 12..17 (2 and 3), one token 17..28
    late = replace(ENGINE, policy="deadline")
    outcome = split([Job(0, 1, 1, deadline=15)], decode=late)
    assert outcome.records[0].token_times == [28]


@pytest.mark.parametrize(("prompt", "loaded_at_once"), [(8, False), (4, True)])
def test_a_load_leaves_the_blocks_that_a_prefill_in_progress_will_need(prompt, loaded_at_once):
    # 4 blocks of 4. A prompt of 12 is prefilled 4 a step: after its second piece it holds 2
    # blocks and will need a third, so of the 2 free ones a load may take 1.
    options = EngineOptions(8, 8, block_size=4, usable_blocks=4, long_prefill_token_threshold=4)
    engine = Engine(options, LAW)
    engine.state.waiting.add(Request(0, Job(0, 12, 1), 0, target=1, limit=1))
    engine.schedule(0)
    engine.complete()
    remote = Request(1, Job(0, prompt, 1), 0, target=1, limit=1, remote=True)
    engine.state.waiting.add(remote)
    _, plan = engine.schedule(14)
    assert plan.loads == ([(remote, prompt)] if loaded_at_once else [])
    assert engine.state.parked == ([remote] if loaded_at_once else [])


def test_push_sends_the_first_token_from_the_prefill_side():
    # P 0..14: first token; the link 14..25; D queues at 26: 26..37 is the second token
    outcome = split([Job(0, 4, 2)], "distserve_push")
    record = outcome.records[0]
    assert record.token_times == [14, 37]
    assert (record.kv_start, record.kv_end, record.decode_arrival) == (14, 25, 26)
    first = outcome.steps[1][0].items[0]
    assert (first.new, first.before) == (1, 4)


def test_push_of_a_one_token_request_ends_on_the_prefill_side():
    outcome = split([Job(0, 4, 1)], "distserve_push")
    assert outcome.records[0].token_times == [14]
    assert outcome.records[0].kv_start == -1
    assert outcome.n_steps == (1, 0)


def test_a_fifo_link_overlaps_the_latency_of_one_with_the_bytes_of_the_next():
    link = FifoLink(LinkOptions(2, 3))
    one, two = Transfer(0, 5), Transfer(1, 2)
    link.begin(one, 0)
    link.begin(two, 4)
    assert (one.start, one.end, two.start, two.end) == (0, 13, 10, 17)
    assert link.next_event() == 13
    assert link.advance(13) == [one]
    assert link.advance(17) == [two]
    assert link.next_event() is None


def drain(link):
    """Follow a link's own events to the end; return (tick, ranks) of each completion."""
    seen = []
    while (now := link.next_event()) is not None:
        done = link.advance(now)
        if done:
            seen.append((now, [transfer.rank for transfer in done]))
    return seen


def test_a_fair_link_halves_its_rate_between_two():
    # A: 10 ticks of work at 0, B: 4 at 2. From 2 on half each: B's last byte at 10, A has 4
    # left: 14. Latency 3 on each.
    link = FairLink(LinkOptions(1, 3))
    link.begin(Transfer(0, 10), 0)
    link.begin(Transfer(1, 4), 2)
    assert drain(link) == [(13, [1]), (17, [0])]


@pytest.mark.parametrize("count", [2, 3, 7])
def test_equal_transfers_on_a_fair_link_end_together(count):
    link = FairLink(LinkOptions(5, 1))
    for rank in range(count):
        link.begin(Transfer(rank, 4), 100)
    assert drain(link) == [(100 + 20 * count + 1, list(range(count)))]


def test_a_fair_link_rounds_a_completion_up_to_a_whole_tick():
    # 1 tick of work at 0; at 0 another of 10: half rate: 2. Third at 1: A has 1/2 left, at a
    # third of the rate: 1 + 3/2 = 2.5, so 3
    link = FairLink(LinkOptions(1, 0))
    for rank, (tokens, now) in enumerate([(1, 0), (10, 0), (10, 1)]):
        link.begin(Transfer(rank, tokens), now)
    assert link.next_event() == 3
    assert [transfer.rank for transfer in link.advance(3)] == [0]


def test_a_fair_link_serves_the_disaggregated_path():
    # both read from 19 on at half rate: 8 ticks of work each, last bytes at 35, latency 3: 38
    setup = Disaggregated(ENGINE, LAW, ENGINE, LAW, LinkOptions(2, 3, "fair"), hop=1)
    outcome = simulate([Job(0, 4, 1), Job(0, 4, 1)], setup)
    assert [(r.kv_start, r.kv_end) for r in outcome.records] == [(19, 38), (19, 38)]
    assert [record.token_times for record in outcome.records] == [[50], [50]]
