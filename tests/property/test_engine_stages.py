"""Where the time of each request went, as the fleet simulator tells it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.kernels.engine import COMPILED, FATES, FleetRecords, Traffic, plain, simulate_fleet
from planner.kernels.stepwise import Colocated, EngineOptions, StepLimitError, affine
from tests.fleets import Case, differences, random_case
from tests.property.test_engine import long_case

BATCHES = 10
SIZE = 220 if COMPILED else 10
MAX_STEPS = 100_000


def accounted(case: Case) -> FleetRecords | None:
    """Serve a case with accounts of time; None if it takes too many steps."""
    try:
        return simulate_fleet(case.traffic, case.setup, stages=True, max_steps=MAX_STEPS)
    except StepLimitError:
        return None


@pytest.mark.parametrize("batch", range(BATCHES))
def test_accounts_are_those_of_the_stepwise_engine(batch: int) -> None:
    found = []
    for seed in range(50_000 + batch * SIZE, 50_000 + (batch + 1) * SIZE):
        case = random_case(seed)
        mine = accounted(case)
        if mine is None:
            continue
        theirs = plain.run(
            *case, token_times=False, keep_steps=False, stages=True, max_steps=MAX_STEPS
        )
        found += [f"seed {seed}: {line}" for line in differences(theirs, mine)]
    assert found == []


@pytest.mark.parametrize("seed", range(4) if COMPILED else range(1))
def test_accounts_at_the_scale_of_real_fleets_are_those_of_the_stepwise_engine(seed: int) -> None:
    case = long_case(2_000 + seed, 60)
    theirs = plain.run(*case, token_times=False, keep_steps=False, stages=True, max_steps=10**7)
    assert differences(theirs, simulate_fleet(*case, stages=True)) == []


def check_sums(case: Case, records: FleetRecords) -> None:
    stages = records.stages
    assert stages is not None
    done = records.fate == FATES.index("finished")
    total = np.sum(stages, axis=0)
    assert (total[done] == (records.finish - case.traffic.arrival)[done]).all()
    assert all((stage >= 0).all() for stage in stages)
    if isinstance(case.setup, Colocated):
        assert not (stages.transfer + stages.transfer_wait + stages.hand_off).any()
        begun = stages.queue + stages.kv_block_wait + stages.prefill + stages.prefill_sharing
        rest = (records.first_token - case.traffic.arrival - begun)[done]
        assert ((rest >= 0) & (rest <= stages.preemption[done])).all()
        assert records.gaps is not None
        longest = np.maximum(records.gaps.decode, records.gaps.preempted)
        assert (longest == records.max_token_gap)[done].all()


def test_accounts_leave_no_remainder_and_no_stage_is_never_charged() -> None:
    """The time to the first token is waiting, prefill and early preemption, in replicas."""
    charged = np.zeros(11, bool)
    for seed in range(400 if COMPILED else 100):
        case = random_case(60_000 + seed)
        records = accounted(case)
        if records is not None:
            check_sums(case, records)
            charged |= [bool(stage.any()) for stage in records.stages]
    assert charged.all()


@pytest.mark.parametrize("seed", range(20) if COMPILED else range(2))
def test_keeping_accounts_changes_nothing(seed: int) -> None:
    case = long_case(3_000 + seed, 2_000 if COMPILED else 40)
    records = simulate_fleet(*case, stages=True, token_times=True)
    check_sums(case, records)
    without = simulate_fleet(*case, token_times=True)
    assert differences(records._replace(stages=None, gaps=None), without) == []


def test_a_prompt_that_is_found_is_not_charged_to_prefill() -> None:
    """Two equal prompts of 8 one after the other: 18 ticks, then only what cannot be found.

    A step takes 10 and 1 for each token. Of 8 tokens in blocks of 2 the last is always computed,
    so 3 blocks are found and 2 tokens computed: 12 ticks.
    """
    names = np.tile(np.arange(4, dtype=np.int32), 2)
    traffic = Traffic(
        np.array([0, 100]),
        np.array([8, 8], np.int32),
        np.array([1, 1], np.int32),
        prefix_start=np.array([0, 4, 8]),
        prefix_name=names,
    )
    engine = EngineOptions(8, 100, block_size=2, prefix_caching=True)
    for caching, prefill in ((True, [18, 12]), (False, [18, 18])):
        setup = Colocated(replace(engine, prefix_caching=caching), affine(10, 1))
        records = simulate_fleet(traffic, setup, stages=True)
        assert records.stages is not None
        assert records.stages.prefill.tolist() == prefill
        assert np.sum(records.stages, axis=0).tolist() == prefill


def test_a_request_refused_on_arrival_has_no_account() -> None:
    traffic = Traffic(np.array([3]), np.array([90], np.int32), np.array([1], np.int32))
    setup = Colocated(EngineOptions(8, 100, block_size=2, usable_blocks=4), affine(10, 1))
    records = simulate_fleet(traffic, setup, stages=True)
    assert FATES[records.fate[0]] == "rejected"
    assert np.sum(records.stages) == 0


def test_nobody_there_has_no_accounts() -> None:
    none = np.zeros(0, np.int32)
    traffic = Traffic(np.zeros(0, np.int64), none, none)
    records = simulate_fleet(traffic, Colocated(EngineOptions(8, 100), affine(10, 1)), stages=True)
    assert records.stages is not None
    assert all(stage.shape == (0,) for stage in records.stages)
