"""Small pools whose every step is worked out by hand, and what the checked front refuses."""

from __future__ import annotations

import sys
from threading import Event, Thread
from typing import TYPE_CHECKING

import numpy as np
import pytest

from planner import kernels
from planner.kernels import Law, Limits, compiled, simulate_pool
from tests.pools import SIMULATORS, Case, solve

if TYPE_CHECKING:
    from collections.abc import Callable

simulators = pytest.mark.parametrize("simulator", SIMULATORS, ids=lambda run: run.__module__[16:])


def case(law: Law, limits: Limits, rows: list[tuple[int, int, int]], **pool) -> Case:
    """``rows``: (arrival ps, prompt tokens, output tokens)."""
    arrival, prompt, output = zip(*rows, strict=True)
    return Case(
        law,
        limits,
        np.array(arrival, np.int64),
        np.array(prompt, np.int32),
        np.array(output, np.int32),
        **pool,
    )


def affine(base: int, per_token: int, tokens: int, **terms: int) -> Law:
    return Law(base + per_token * np.arange(tokens + 1), **terms)


# --- by hand ---------------------------------------------------------------------------------


@simulators
def test_a_long_prompt_is_prefilled_in_chunks_and_shares_its_last_step(simulator) -> None:
    """L(n) = 100 + n, c_X = 1, c_K = 1, budget 4.

    Step 1 at 0:   first chunk, 4 of 6 tokens; X = 4 (0 + 4/2) = 8          104 + 8      -> 112
    Step 2 at 112: 2 more, and the second prompt of 2; X = 2 (4 + 1) + 2 (0 + 1) = 12
                                                                           104 + 12     -> 228
    Step 3 at 228: one decode; its context is 7 tokens                     101 + 7      -> 336
    """
    law = affine(100, 1, 4, square_ps_2p15=2**15, context_ps=1)
    r = solve(case(law, Limits(2, 4, 100), [(0, 6, 2), (0, 2, 1)]), simulator)
    assert r.first_scheduled_ps.tolist() == [0, 112]
    assert r.first_token_ps.tolist() == [228, 228]
    assert r.finish_ps.tolist() == [336, 228]
    assert (r.steps, r.busy_ps, r.peak_kv_blocks) == (3, 336, 2)


@simulators
def test_the_coefficient_of_squares_is_rounded_down_once_per_step(simulator) -> None:
    """c_X = 3 / 2**15: two prompts of 150 give X = 2 * 150²/2 = 22,500, 2.06 ps: 2."""
    law = affine(100, 0, 512, square_ps_2p15=3)
    r = solve(case(law, Limits(2, 512, 100), [(0, 150, 1), (0, 150, 1)]), simulator)
    assert r.finish_ps.tolist() == [102, 102]


@simulators
def test_prefill_of_others_stalls_a_decode_by_what_it_adds_to_the_step(simulator) -> None:
    """L(n) = 10 + n, c_N = 2, c_C = 3.

    Step 1 at 0:  prompt of 1: 11 + 2 + 3 = 16 -> 16
    Step 2 at 16: decode beside a prompt of 5 that came at 4:
                  10 + 6 + 2 * 2 + 3 * 5 = 35 -> 51; alone 10 + 1 + 2 = 13, so stalled by 22
    Step 3 at 51: two decodes, 10 + 2 + 4 = 16 -> 67: both have all their tokens
    """
    law = affine(10, 1, 64, sequence_ps=2, chunk_context_ps=3)
    r = solve(case(law, Limits(4, 64, 100), [(0, 1, 3), (4, 5, 2)]), simulator)
    assert r.first_token_ps.tolist() == [16, 51]
    assert r.finish_ps.tolist() == [67, 67]
    assert r.decode_stall_ps.tolist() == [22, 0]


@simulators
def test_where_the_law_falls_a_stall_can_be_a_gain(simulator) -> None:
    """A padded batch: L(1) = 20 but L(2) = 15. The decode gains 5 from its company."""
    law = Law(np.array([1, 20, 15], np.int64))
    r = solve(case(law, Limits(2, 2, 100), [(0, 1, 2), (1, 1, 1)]), simulator)
    assert r.finish_ps.tolist() == [35, 35]
    assert r.decode_stall_ps.tolist() == [-5, 0]


@simulators
def test_the_last_request_is_preempted_and_recomputed_when_blocks_run_out(simulator) -> None:
    """Blocks of one token, six of them; two requests of 2 + 3 tokens; L(n) = 10 + n.

    Step 1 at 0:  both prompts, 4 blocks                                     14 -> 14
    Step 2 at 14: both decode, 6 blocks                                      12 -> 26
    Step 3 at 26: 8 blocks are needed: the second is preempted, nobody enters 11 -> 37
    Step 4 at 37: the first is done; the second computes 2 + 2 tokens again   14 -> 51
    """
    rows = [(0, 2, 3), (0, 2, 3)]
    r = solve(case(affine(10, 1, 8), Limits(2, 8, 6, block_size=1), rows), simulator)
    assert r.first_token_ps.tolist() == [14, 14]
    assert r.finish_ps.tolist() == [37, 51]
    assert r.preemptions.tolist() == [0, 1]
    assert r.preempted_ps.tolist() == [0, 51 - 26]
    assert r.peak_kv_blocks == 6


@simulators
@pytest.mark.parametrize(("reserve", "watermark", "second_starts"), [
    (True, 0, 20 + 29),  # its 4 blocks are free when the first is gone
    (False, 0, 0),  # its first chunk of 2 fits at once
    (False, 2, 20 + 29),  # but not above a watermark of 2
])  # fmt: skip
def test_admission_gate_and_watermark_decide_who_enters(
    simulator, reserve: bool, watermark: int, second_starts: int
) -> None:
    """Six blocks of one token, budget 6; prompts of 4 and 4; L(n) = 20 whatever n but 1: 29.

    Blocks: the first takes 4, 2 are left, and 2 of the budget.
    """
    law = Law(np.array([1, 29, 20, 20, 20, 20, 20], np.int64))
    limits = Limits(2, 6, 6, 1, reserve, watermark)
    r = solve(case(law, limits, [(0, 4, 2), (0, 4, 1)]), simulator)
    assert r.first_scheduled_ps.tolist() == [0, second_starts]


@simulators
def test_an_arrival_cuts_a_run_of_decode_steps_at_the_next_boundary(simulator) -> None:
    """L(n) = 10 for any n, c_K = 1. Prompt of 1 at 0 -> 10; decodes take 12, 13, 14, ...

    Boundaries 10, 22, 35, 49, ...: an arrival at 35 is served from 35, one at 36 from 49.
    """
    law = affine(10, 0, 64, context_ps=1)
    for arrival, start in [(35, 35), (36, 49), (49, 49)]:
        r = solve(case(law, Limits(2, 64, 100), [(0, 1, 50), (arrival, 1, 1)]), simulator)
        assert r.first_scheduled_ps[1] == start


@simulators
def test_a_router_counts_no_more_what_finishes_at_the_moment_it_looks(simulator) -> None:
    """L(n) = 11; the first two finish at 11, and two that come then count each other only.

    The fifth comes at 21, before the end of theirs at 22, the last one then.
    """
    rows = [(0, 1, 1), (0, 1, 1), (11, 1, 1), (11, 1, 2), (21, 1, 1), (22, 1, 1)]
    r = solve(
        case(affine(11, 0, 8), Limits(4, 8, 9), rows, replicas=2, router="least_outstanding"),
        simulator,
    )
    assert r.replica.tolist() == [0, 1, 0, 1, 0, 0]
    assert r.finish_ps.tolist() == [11, 11, 22, 33, 33, 33]


@simulators
def test_what_cannot_fit_alone_is_rejected_but_takes_its_turn(simulator) -> None:
    """Four blocks of 16: 64 tokens, of which the last output needs none."""
    rows = [(0, 60, 5), (1, 60, 6), (2, 65, 1), (3, 64, 1)]
    limits = Limits(4, 100, 4)
    r = solve(case(affine(10, 1, 100), limits, rows, replicas=2), simulator)
    assert r.replica.tolist() == [0, -1, -1, 1]
    assert (r.finish_ps >= 0).tolist() == [True, False, False, True]
    assert r.decode_stall_ps.tolist() == [0, -1, -1, 0]


@simulators
def test_no_requests_give_empty_records(simulator) -> None:
    nothing = np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32)
    r = solve(Case(affine(1, 0, 4), Limits(1, 4, 4), *nothing, replicas=3), simulator)
    assert [len(column) for column in r[:7]] == [0] * 7
    assert r[7:11] == (0, 0, 0, 0)
    assert [len(column) for column in r.stages] == [0] * 6


# --- the checked front -----------------------------------------------------------------------

GOOD = case(affine(10, 1, 8), Limits(2, 8, 6), [(0, 2, 3), (5, 2, 3)])


def front(changed: Case) -> kernels.Records:
    return simulate_pool(*changed[:5], replicas=changed.replicas, router=changed.router)


@pytest.mark.parametrize(("change", "message"), [
    ({"limits": Limits(9, 8, 6)}, "max_num_seqs"),
    ({"limits": Limits(0, 8, 6)}, "max_num_seqs"),
    ({"limits": Limits(2, 9, 6)}, "tokens_ps: expected"),
    ({"limits": Limits(2, 8, -1)}, "kv_blocks"),
    ({"limits": Limits(2, 8, 2**30, 2**30)}, "kv_blocks"),
    ({"limits": Limits(2, 8, 6, 0)}, "block_size"),
    ({"limits": Limits(2, 8, 6, watermark_blocks=-1)}, "watermark_blocks"),
    ({"law": Law(np.zeros(9, np.int64))}, "at least 1 ps"),
    ({"law": Law(np.ones(9))}, "tokens_ps: expected one row of int64"),
    ({"law": Law(np.ones((9, 1), np.int64))}, "tokens_ps: expected one row"),
    ({"law": Law(np.ones(9, np.int64), context_ps=-1)}, "coefficients"),
    ({"law": Law(np.full(9, 2**61))}, "64 bits"),
    ({"law": Law(np.ones(9, np.int64), square_ps_2p15=2**60)}, "64 bits"),
    ({"arrival": np.array([5, 0])}, "ascend"),
    ({"arrival": np.array([-1, 0])}, "negative"),
    ({"arrival": np.array([0, 2**62])}, "2\\*\\*62"),
    ({"arrival": np.array([0.0, 1.0])}, "arrival_ps: expected one row of int64"),
    ({"prompt": np.array([1], np.int32)}, "unequal length"),
    ({"prompt": np.array([1, 0], np.int32)}, "prompt_tokens: must be at least 1"),
    ({"prompt": np.array([1, 2])}, "prompt_tokens: expected one row of int32"),
    ({"output": np.array([1, 0], np.int32)}, "output_tokens: must be at least 1"),
    ({"replicas": 0}, "replicas"),
    ({"router": "random"}, "router: expected one of round_robin, least_outstanding"),
])  # fmt: skip
def test_the_front_refuses(change: dict, message: str) -> None:
    front(GOOD)
    with pytest.raises(ValueError, match=message):
        front(GOOD._replace(**change))


def test_strided_arrays_are_read_as_what_they_show() -> None:
    strided = GOOD._replace(
        arrival=np.repeat(GOOD.arrival, 2)[::2],
        prompt=np.repeat(GOOD.prompt, 3)[::3],
        law=Law(np.repeat(GOOD.law.tokens_ps, 2)[::2]),
    )
    assert front(strided).finish_ps.tolist() == front(GOOD).finish_ps.tolist()


@simulators
def test_time_beyond_53_days_is_refused_not_wrapped(simulator) -> None:
    """Ten requests of 2**59 ps each on one seat."""
    slow = case(affine(2**59, 0, 8), Limits(1, 8, 6), [(0, 2, 1)] * 10)
    with pytest.raises(OverflowError, match="53 days"):
        solve(slow, simulator)
    assert solve(slow._replace(limits=Limits(4, 8, 6)), simulator).finish_ps.max() == 3 * 2**59


# --- the compiled module ---------------------------------------------------------------------


def test_status_says_which_simulator_runs() -> None:
    assert kernels.STATUS.startswith("compiled" if kernels.COMPILED else "plain Python")


def test_two_threads_get_the_answers_of_one() -> None:
    found: list[list[int]] = []
    threads = [Thread(target=lambda: found.append(front(GOOD).finish_ps.tolist())) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [front(GOOD).finish_ps.tolist()] * 2


def test_other_threads_run_while_the_compiled_simulator_works() -> None:
    """No thread is made to give way, so one that sees the other at work was let in by it.

    Sums in plain Python let nobody in.
    """
    ones = np.ones(200_000, np.int32)
    requests = (affine(10, 1, 8), Limits(2, 8, 6), np.arange(200_000), ones, ones, 1, 0)

    def look_once(task: Callable[[], object]) -> str:
        started, state = Event(), ["before"]

        def work() -> None:
            started.set()
            state[0] = "at work"
            task()
            state[0] = "done"

        thread = Thread(target=work)
        thread.start()
        started.wait()
        seen = state[0]
        thread.join()
        return seen

    usual = sys.getswitchinterval()
    sys.setswitchinterval(60)
    try:
        held = {look_once(lambda: sum(range(300_000))) for _ in range(10)}
        free = {look_once(lambda: compiled.run(*requests)) for _ in range(10 * compiled.COMPILED)}
    finally:
        sys.setswitchinterval(usual)
    assert "at work" not in held
    assert ("at work" in free) == compiled.COMPILED


def raw(**change: object) -> object:
    """Arguments of the compiled function, past all checks of the front."""
    wide, narrow = np.zeros(2, np.int64), np.zeros(2, np.int32)
    arguments = {
        "law": GOOD.law,
        "limits": GOOD.limits,
        "arrival": GOOD.arrival,
        "prompt": GOOD.prompt,
        "output": GOOD.output,
        "replicas": 1,
        "router": 0,
        "wide": (wide,) * 5,
        "narrow": (narrow,) * 2,
        "stages": (),
        "gaps": (),
        "totals": np.zeros(4, np.int64),
    } | change
    return compiled._module.simulate(*arguments.values())


@pytest.mark.parametrize("change", [
    {"prompt": np.ones(1, np.int32)},
    {"prompt": np.zeros(2, np.int32)},
    {"prompt": np.ones(2, np.int64)},
    {"output": np.ones(2, np.float32)},
    {"output": np.full(2, -5, np.int32)},
    {"arrival": np.zeros((2, 1), np.int64)},
    {"arrival": np.zeros(4, np.int64)[::2]},
    {"totals": np.zeros(3, np.int64)},
    {"replicas": 2**40},
    {"replicas": -1},
    {"router": 2},
    {"limits": Limits(2, 9, 6)},
    {"limits": Limits(-1, 8, 6)},
    {"limits": Limits(9, 8, 6)},
    {"limits": Limits(2, 8, 6, 0)},
    {"limits": Limits(2, 8, -6)},
    {"law": Law(np.zeros(9, np.int64))},
    {"wide": (np.zeros(2, np.int64),) * 7},
    {"wide": (np.zeros(1, np.int64),) * 5},
    {"wide": [np.zeros(2, np.int64)] * 5},
    {"narrow": (np.zeros(2, np.int64),) * 2},
    {"stages": (np.zeros(2, np.int64),) * 5},
    {"stages": (np.zeros(3, np.int64),) * 6},
    {"gaps": (np.zeros(2, np.int64),) * 4},
    {"gaps": (np.zeros(3, np.int64),) * 5},
])  # fmt: skip
def test_no_argument_leads_the_compiled_module_out_of_memory_bounds(change: dict) -> None:
    if compiled.COMPILED:
        raw()
        with pytest.raises((TypeError, ValueError)):
            raw(**change)
    else:
        with pytest.raises(ImportError, match="plain Python"):
            compiled.run(*GOOD[:6], 0)


def test_a_read_only_column_is_not_written() -> None:
    if compiled.COMPILED:
        frozen = np.zeros(4, np.int64)
        frozen.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            raw(totals=frozen)
