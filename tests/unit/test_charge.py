"""Misses are charged to what caused them, by hand-worked requests and by laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.attribution.charge import BETWEEN, OWN, REMOVABLE, GapDeadline, charge_misses
from planner.simulation.stages import GapParts, Parts

NAMES = Parts._fields


def parts(**given: int) -> Parts:
    return Parts(*(np.array([given.get(name, 0)], np.int64) for name in NAMES))


def charged(
    first_by: int, rest_by: int, whole_by: int | None = None, **given: int
) -> dict[str, float]:
    whole = None if whole_by is None else np.array([whole_by])
    found = charge_misses(parts(**given), np.array([first_by]), np.array([rest_by]), whole)
    return {name: pytest.approx(float(x[0])) for name, x in found.items() if abs(x[0]) > 1e-12}


def test_a_late_transfer_and_a_late_hand_off_are_charged_like_any_wait():
    assert charged(100, 0, prefill=60, kv_transfer=50) == {"kv_transfer": 1.0}
    assert charged(100, 0, prefill=60, kv_transfer=30, handoff=30) == {
        "kv_transfer": 0.5,
        "handoff": 0.5,
    }


def test_a_request_in_time_is_charged_to_nobody():
    assert charged(100, 100, prefill=40, queue=60, decode_solo=100) == {}


def test_the_only_part_that_is_needed_and_enough_is_charged_in_full():
    assert charged(100, 100, prefill=40, queue=80, prefill_interference=10) == {"queue": 1.0}


def test_two_parts_of_which_either_would_do_share_equally():
    found = charged(100, 100, prefill=50, queue=60, kv_block_wait=60)
    # 170 > 100; without one of them 110 > 100: both are needed.
    assert found == {"queue": 0.5, "kv_block_wait": 0.5}
    either = charged(100, 100, prefill=30, queue=40, kv_block_wait=40)
    # 110 > 100; without either 70: each alone is enough.
    assert either == {"queue": 0.5, "kv_block_wait": 0.5}


def test_one_that_is_enough_and_two_that_are_only_together():
    """Excess 10 of parts 10, 5, 5 over the deadline: {a}, {b, c} are minimal.

    Shapley: a 2/3, b and c 1/6 each (orders in which each turns the outcome).
    """
    found = charged(100, 100, prefill=90, queue=10, kv_block_wait=5, prefill_interference=5)
    assert found == {"queue": 2 / 3, "kv_block_wait": 1 / 6, "prefill_interference": 1 / 6}


def test_both_deadlines_missed_need_both_mended():
    found = charged(100, 100, prefill=50, queue=60, decode_solo=50, decode_interference=60)
    assert found == {"queue": 0.5, "decode_interference": 0.5}


def test_preemption_counts_on_either_side_of_the_first_token():
    assert charged(100, 100, prefill=50, preemption_before=60) == {"preemption": 1.0}
    assert charged(100, 100, decode_solo=50, preemption_after=60) == {"preemption": 1.0}


def test_what_is_late_even_alone_is_charged_to_itself():
    assert charged(100, 100, prefill=120, queue=500) == {"prefill": 1.0}
    assert charged(100, 100, decode_solo=101) == {"decode_solo": 1.0}
    assert charged(100, 100, prefill=120, decode_solo=101) == {"prefill": 0.5, "decode_solo": 0.5}


def test_a_deadline_of_the_whole_charges_what_would_mend_it():
    """50 + 40 and 50 + 30 against 160 in all: without the queue 130, without the batch 140."""
    far = 10**6
    both = charged(far, far, 160, prefill=50, queue=40, decode_solo=50, decode_batch=30)
    assert both == {"queue": 0.5, "decode_batch": 0.5}
    alone = charged(far, far, 99, prefill=50, queue=40, decode_solo=50, decode_batch=30)
    assert alone == {"prefill": 0.5, "decode_solo": 0.5}


def torn(by: int, **given: int) -> dict[str, float]:
    """Charges of a request with one long gap and all the time in the world for the rest."""
    names = ("decode", "unstalled", "stall", "solo", "preempted")
    gap = GapParts(*(np.array([given.get(name, 0)], np.int64) for name in names))
    far = np.array([10**6])
    found = charge_misses(
        parts(decode_batch=40, decode_interference=200, decode_solo=50, preemption_after=30),
        far,
        far,
        None,
        GapDeadline(np.array([by]), gap),
    )
    return {name: pytest.approx(float(x[0])) for name, x in found.items() if abs(x[0]) > 1e-12}


def test_a_long_gap_is_charged_to_what_tore_it():
    """Steps of 8 alone and 12 in company; a chunk of another request made one of them 100."""
    step = {"decode": 100, "unstalled": 12, "stall": 88, "solo": 8}
    assert torn(50, **step) == {"decode_interference": 1.0}
    assert torn(100, **step) == {}
    assert torn(10, **step) == {"decode_interference": 0.5, "decode_batch": 0.5}
    assert torn(7, **step) == {"decode_solo": 1.0}
    lost = {"decode": 12, "unstalled": 12, "solo": 8, "preempted": 300}
    assert torn(50, **lost) == {"preemption": 1.0}
    assert torn(50, **step | {"preempted": 300}) == {"decode_interference": 0.5, "preemption": 0.5}


times = st.lists(st.integers(-3, 60), min_size=11, max_size=11)


@given(st.lists(times, min_size=1, max_size=20), st.integers(0, 120), st.integers(0, 120))
def test_charges_sum_to_the_misses_and_absent_parts_are_charged_nothing(rows, first_by, rest_by):
    table = np.array(rows, np.int64).T
    table[[2, 5]] = np.abs(table[[2, 5]])
    p = Parts(*table)
    n = len(rows)
    found = charge_misses(p, np.full(n, first_by), np.full(n, rest_by))
    first = p.queue + p.kv_block_wait + p.prefill + p.prefill_interference + p.preemption_before
    first = first + p.kv_transfer + p.handoff
    rest = p.decode_solo + p.decode_batch + p.decode_interference + p.preemption_after
    late = (first > first_by) | (rest > rest_by)
    moved = (p.kv_transfer != 0).any() or (p.handoff != 0).any()
    assert set(found) == {*REMOVABLE, *OWN, *(BETWEEN if moved else ())}
    assert sum(found.values()) == pytest.approx(late.astype(float))
    assert all((x >= -1e-12).all() for x in found.values())
    assert (found["queue"][p.queue <= 0] == 0).all()
    assert (found["decode_batch"][p.decode_batch <= 0] == 0).all()
