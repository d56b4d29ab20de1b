"""The course of each request is laid out without a hole, and sums to the engine's own accounts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from planner.attribution.timeline import timelines
from planner.kernels.engine import COMPILED, FATES, simulate_fleet
from planner.kernels.stepwise import Colocated, StepLimitError
from tests.fleets import Case, random_case

RUNS = 700 if COMPILED else 60
OF_STAGE = {
    "queue": ("queue", "kv_block_wait"),
    "prefill": ("prefill", "prefill_sharing"),
    "kv_transfer": ("transfer", "transfer_wait"),
    "handoff": ("hand_off",),
    "decode": ("decode_solo", "decode_batch"),
    "gap": ("decode_interference",),
    "preempted": ("preemption",),
}


def depth(case: Case) -> int:
    if isinstance(case.setup, Colocated):
        return case.setup.engine.depth
    return max(case.setup.prefill.depth, case.setup.decode.depth)


@pytest.mark.parametrize("batch", range(7))
def test_pieces_tile_the_time_and_sum_to_the_accounts(batch: int) -> None:
    """Whole fleets of any options; with several steps in flight the split of gaps is looser."""
    laid_out = exact = 0
    for seed in range(80_000 + batch * RUNS // 7, 80_000 + (batch + 1) * RUNS // 7):
        case = random_case(seed)
        try:
            records = simulate_fleet(*case, keep_steps=True, stages=True, max_steps=100_000)
        except StepLimitError:
            continue
        done = np.flatnonzero(records.fate == FATES.index("finished"))
        found = timelines(*case, records, done.tolist())
        assert sorted(found) == done.tolist()
        for rank, pieces in found.items():
            at = int(case.traffic.arrival[rank])
            for piece in pieces:
                assert piece.start == at < piece.end, (seed, rank, pieces)
                at = piece.end
            assert at == records.finish[rank], (seed, rank, pieces)
            told: Counter[str] = Counter()
            for piece in pieces:
                told[piece.stage] += piece.end - piece.start
            accounts = {
                stage: sum(int(getattr(records.stages, name)[rank]) for name in names)
                for stage, names in OF_STAGE.items()
            }
            laid_out += 1
            if depth(case) == 1:
                assert {s: told[s] for s in accounts} == accounts, (seed, rank, pieces)
                exact += 1
    assert exact > laid_out / 2 > 0
