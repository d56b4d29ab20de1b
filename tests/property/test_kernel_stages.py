"""Every request's time by stage: nothing is lost, and a cause that is not there costs nothing.

That each stage is what its definition says is held by the comparison with the oracle, which
charges every step of every request by itself (``test_kernels.py``).
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from planner.kernels import Law, Limits, Stages
from planner.kernels.stepwise import Colocated, EngineOptions, Job, StepLaw
from planner.kernels.stepwise import simulate as simulate_stepwise
from tests.pools import SIMULATORS, Case, random_case, solve
from tests.property.test_kernels import pools

simulators = pytest.mark.parametrize("simulator", SIMULATORS, ids=lambda run: run.__module__[16:])


def monotone(case: Case) -> Case:
    law = case.law._replace(tokens_ps=np.maximum.accumulate(case.law.tokens_ps))
    return case._replace(law=law)


def together(records) -> np.ndarray:
    return sum(records.stages) + records.decode_stall_ps + records.preempted_ps


@settings(max_examples=100, deadline=None)
@given(pools())
def test_stages_add_up_to_the_picosecond(case: Case) -> None:
    r = solve(case)
    done = ~case.rejected
    assert (together(r) == r.finish_ps - case.arrival)[done].all()
    s, lost = r.stages, r.preempted_ps
    early = s.queue_ps + s.kv_block_wait_ps + s.prefill_own_ps + s.prefill_stretch_ps
    late = s.decode_solo_ps + s.decode_batch_ps + r.decode_stall_ps
    before = r.preempted_early_ps()
    assert ((before >= 0) & (before <= np.maximum(lost, 0))).all()
    assert (early + before == r.first_token_ps - case.arrival)[done].all()
    assert (late + lost - before == r.finish_ps - r.first_token_ps)[done].all()
    assert not before[~done].any()
    assert (s.queue_ps + s.kv_block_wait_ps == r.first_scheduled_ps - case.arrival)[done].all()
    assert all((column[~done] == -1).all() for column in s)


@settings(max_examples=100, deadline=None)
@given(pools())
def test_no_stage_is_negative_where_more_tokens_never_take_less_time(case: Case) -> None:
    r = solve(monotone(case))
    done = ~case.rejected
    for column in (*r.stages, r.decode_stall_ps, r.preempted_ps):
        assert (column >= 0)[done].all()


@settings(max_examples=100, deadline=None)
@given(pools())
def test_a_request_alone_waits_for_nothing_and_shares_nothing(case: Case) -> None:
    """Each in an empty replica: its prefill and its decodes are all there is."""
    busy = int(case.law.tokens_ps.max()) * 10**4
    lonely = monotone(case)._replace(arrival=busy * np.arange(len(case.arrival)))
    r = solve(lonely)
    done = ~case.rejected
    assert (r.first_scheduled_ps == lonely.arrival)[done].all()
    for column in (
        r.stages.queue_ps,
        r.stages.kv_block_wait_ps,
        r.stages.prefill_stretch_ps,
        r.stages.decode_batch_ps,
        r.decode_stall_ps,
        r.preempted_ps,
    ):
        assert not column[done].any()


@settings(max_examples=100, deadline=None)
@given(pools())
def test_with_blocks_in_plenty_nobody_waits_for_them_or_loses_them(case: Case) -> None:
    r = solve(case._replace(limits=case.limits._replace(kv_blocks=10**4)))
    assert not r.stages.kv_block_wait_ps.any()
    assert not r.preempted_ps.any()


@settings(max_examples=100, deadline=None)
@given(pools())
def test_with_one_seat_no_step_is_shared(case: Case) -> None:
    r = solve(case._replace(limits=case.limits._replace(max_num_seqs=1)))
    done = ~case.rejected
    shared = (r.stages.prefill_stretch_ps, r.stages.decode_batch_ps, r.decode_stall_ps)
    assert not any(column[done].any() for column in shared)


@settings(max_examples=100, deadline=None)
@given(pools())
def test_where_a_step_takes_the_same_whatever_is_in_it_company_costs_nothing(case: Case) -> None:
    r = solve(case._replace(law=Law(np.full_like(case.law.tokens_ps, 7))))
    done = ~case.rejected
    shared = (r.stages.prefill_stretch_ps, r.stages.decode_batch_ps, r.decode_stall_ps)
    assert not any(column[done].any() for column in shared)
    calm = done & (r.preemptions == 0)
    assert (r.stages.decode_solo_ps == 7 * (case.output - 1))[calm].all()


def test_the_step_wise_engine_keeps_the_same_accounts() -> None:
    """All stages but the wait for blocks, which there includes the wait behind it."""
    checked = preempted = 0
    for seed in range(200):
        case = monotone(random_case(np.random.default_rng(seed)))
        case = case._replace(replicas=1)
        r = solve(case)
        law, limits = case.law, case.limits
        engine = EngineOptions(
            limits.max_num_seqs,
            limits.max_num_batched_tokens,
            block_size=limits.block_size,
            usable_blocks=limits.kv_blocks,
            reserve_full_isl=limits.reserve_full_prompt,
            watermark_blocks=limits.watermark_blocks,
        )
        knots = tuple(enumerate(law.tokens_ps.tolist()))
        rest = (law.square_ps_2p15, law.context_ps, law.sequence_ps, law.chunk_context_ps)
        fleet = Colocated(engine, StepLaw(knots, *rest, shift=16))
        rows = zip(case.arrival.tolist(), case.prompt.tolist(), case.output.tolist(), strict=True)
        outcome = simulate_stepwise([Job(*row) for row in rows], fleet, stages=True)
        for i, record in enumerate(outcome.records):
            if r.finish_ps[i] < 0:
                continue
            other = record.stages
            mine = Stages(*(int(column[i]) for column in r.stages))
            assert mine.queue_ps + mine.kv_block_wait_ps == other.queue + other.kv_block_wait
            assert mine.kv_block_wait_ps <= other.kv_block_wait
            assert mine[2:] == (
                other.prefill,
                other.prefill_sharing,
                other.decode_solo,
                other.decode_batch,
            )
            assert int(r.decode_stall_ps[i]) == other.decode_interference
            assert int(r.preempted_ps[i]) == other.preemption
            checked += 1
            preempted += other.preemption > 0
    assert checked > 1000
    assert preempted > 50


# --- by hand ---------------------------------------------------------------------------------


@simulators
def test_a_shared_prefill_and_a_batch_of_two_by_hand(simulator) -> None:
    """L(n) = 10 + n, c_N = 2, c_K = 1, budget 64.

    Step 1 at 0: two prompts of 3: 16 + 4 = 20; alone 13 + 2 = 15, so 5 of stretch
    Step 2 at 20: two decodes of 4 tokens: 12 + 4 + 8 = 24; alone 11 + 2 + 4 = 17, so 7 of batch
    Step 3 at 44: the first alone: 11 + 2 + 5 = 18 -> 62
    """
    law = Law(10 + np.arange(65), context_ps=1, sequence_ps=2)
    case = Case(
        law,
        Limits(4, 64, 100),
        np.zeros(2, np.int64),
        np.array([3, 3], np.int32),
        np.array([3, 2], np.int32),
    )
    r = solve(case, simulator)
    assert [column.tolist() for column in r.stages] == [
        [0, 0],
        [0, 0],
        [15, 15],
        [5, 5],
        [17 + 18, 17],
        [7, 7],
    ]
    assert r.finish_ps.tolist() == [62, 44]


@simulators
def test_who_heads_the_queue_waits_for_blocks_and_who_stands_behind_for_its_turn(
    simulator,
) -> None:
    """L(n) = 10 whatever n, blocks of one token, five of them; budget 8, three seats.

    0:  the first, 2 + 3 tokens, holds 2 blocks to 10, 3 to 20, 4 to 30
    5:  the second comes, 3 + 1: until 10 it waits for the step in progress; at 10 there are 2
        free blocks for 3, at 20 there is one; at 30 it enters
    12: the third comes, 1 + 1: at 20 a block would be free, but it stands behind the second
    """
    law = Law(np.full(9, 10, np.int64))
    case = Case(
        law,
        Limits(3, 8, 5, 1),
        np.array([0, 5, 12], np.int64),
        np.array([2, 3, 1], np.int32),
        np.array([3, 1, 1], np.int32),
    )
    r = solve(case, simulator)
    assert r.first_scheduled_ps.tolist() == [0, 30, 30]
    assert r.stages.queue_ps.tolist() == [0, 5, 18]
    assert r.stages.kv_block_wait_ps.tolist() == [0, 20, 0]


@simulators
def test_a_lost_prefill_counts_as_preempted_from_the_loss_on(simulator) -> None:
    """L(n) = 10 + n, blocks of one token, six of them, budget 3, only chunks are reserved.

    0:  first chunk of the first prompt, 2 of 2 tokens, and 1 of 5 of the second: 13 -> 13
    13: a decode (3 blocks) and 2 more (3 blocks): 13 -> 26
    26: the decode needs a fourth block: the second loses its 3; the first's last step 11 -> 37
    37: the second again, 3 of 5: 13 -> 50; then 2 of 5: 12 -> 62
    """
    law = Law(10 + np.arange(4))
    case = Case(
        law,
        Limits(2, 3, 6, 1, reserve_full_prompt=False),
        np.zeros(2, np.int64),
        np.array([2, 5], np.int32),
        np.array([3, 1], np.int32),
    )
    r = solve(case, simulator)
    assert r.first_token_ps.tolist() == [13, 62]
    assert r.preempted_ps.tolist() == [0, 62 - 26]
    assert r.preempted_early_ps().tolist() == [0, 62 - 26]
    assert r.stages.prefill_own_ps.tolist() == [12, 11 + 12]
    assert r.stages.prefill_stretch_ps.tolist() == [1, 2 + 1]
