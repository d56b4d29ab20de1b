"""Where the time went: stages add up, and are what they say in cases without others."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from planner.kernels.stepwise import (
    Colocated,
    Disaggregated,
    EngineOptions,
    Job,
    LinkOptions,
    Stages,
    affine,
    simulate,
)
from tests.property.test_stepwise_laws import MANY, MAX_STEPS, fleets, laws, plain, run, traffic

LAW = affine(10, 1)
ENGINE = EngineOptions(8, 100, block_size=2)


def stages_of(jobs, fleet):
    outcome = simulate(jobs, fleet, stages=True, max_steps=MAX_STEPS)
    return [record.stages for record in outcome.records]


@MANY
@given(traffic(), fleets())
def test_stages_leave_no_remainder_and_none_is_negative(jobs, fleet):
    outcome = simulate(jobs, fleet, stages=True, max_steps=MAX_STEPS)
    for record in outcome.records:
        if record.fate == "finished":
            assert record.stages.total == record.finish - record.arrival
            assert all(getattr(record.stages, name) >= 0 for name in Stages.__slots__)


@MANY
@given(traffic(), fleets())
def test_accounting_changes_nothing(jobs, fleet):
    with_stages = simulate(jobs, fleet, keep_steps=True, stages=True, max_steps=MAX_STEPS)
    for record in with_stages.records:
        record.stages = record.gaps = None
    assert plain(with_stages) == plain(run(jobs, fleet))


@MANY
@given(st.integers(1, 60), st.integers(1, 30), st.integers(1, 20), laws)
def test_a_lone_request_has_prefill_and_solo_decode_only(prompt, output, budget, law):
    fleet = Colocated(EngineOptions(4, budget), law)
    (stages,) = stages_of([Job(5, prompt, output)], fleet)
    prefill = law.alone(prompt, budget)
    assert stages == Stages(prefill=prefill, decode_solo=stages.total - prefill)


@MANY
@given(traffic(), fleets())
def test_without_pressure_nobody_is_charged_for_blocks(jobs, fleet):
    if isinstance(fleet, Colocated):
        fleet = replace(fleet, engine=replace(fleet.engine, usable_blocks=None))
    else:
        prefill = replace(fleet.prefill, usable_blocks=None)
        decode = replace(fleet.decode, usable_blocks=None)
        fleet = replace(fleet, prefill=prefill, decode=decode)
    for stages in stages_of(jobs, fleet):
        assert stages is None or (stages.kv_block_wait, stages.preemption) == (0, 0)


def test_sharing_is_split_by_the_step_law():
    # A (4, 3): 0..14 alone; 14..27 with B's prompt of 2: solo 11, interference 2; 27..39 with
    # B's decode: solo 11, batch 1. B comes at 5: queue 9; its prefill alone 12, shared 1
    law, jobs = LAW, [Job(0, 4, 3), Job(5, 2, 2)]
    assert stages_of(jobs, Colocated(ENGINE, law)) == [
        Stages(prefill=14, decode_solo=22, decode_batch=1, decode_interference=2),
        Stages(queue=9, prefill=12, prefill_sharing=1, decode_solo=11, decode_batch=1),
    ]


def test_waiting_for_a_slot_is_queueing_and_for_blocks_is_not():
    # one slot: B waits 0..25 while A runs
    jobs = [Job(0, 4, 2), Job(0, 3, 1)]
    one_slot = stages_of(jobs, Colocated(replace(ENGINE, max_num_seqs=1), LAW))
    assert one_slot[1] == Stages(queue=25, prefill=13)
    # three blocks: A has 2, then 3; the schedule at 0 already lacked blocks for B
    few_blocks = stages_of(jobs, Colocated(replace(ENGINE, usable_blocks=3), LAW))
    assert few_blocks[1] == Stages(kv_block_wait=25, prefill=13)


def test_preemption_lasts_from_the_loss_of_blocks_to_the_next_new_token():
    # B loses its blocks at 28 and has its next token at 65; before: 16 of prefill with A (13
    # alone), 12 of decode with A (11 alone)
    stages = stages_of(
        [Job(0, 3, 4), Job(0, 3, 3)], Colocated(replace(ENGINE, usable_blocks=4), LAW)
    )
    assert stages[1] == Stages(
        prefill=13, prefill_sharing=3, decode_solo=11, decode_batch=1, preemption=37
    )


def test_a_pulled_request_pays_hop_transfer_and_one_decode_side_step():
    # P 0..14, hop to 15, transfer 15..26 (8 + 3), 26..37 and 37..48
    fleet = Disaggregated(ENGINE, LAW, ENGINE, LAW, LinkOptions(2, 3), hop=1)
    stages = stages_of([Job(0, 4, 2)], fleet)
    assert stages == [Stages(prefill=14, hand_off=1, transfer=11, decode_solo=22)]


def test_the_second_transfer_waits_for_the_link_and_the_decode_side_for_its_step():
    # Both prompts 0..18 (14 alone), hop to 19. First: 19..30, then steps 30..41, 41..53, ...
    # Second: the link is free at 27: 27..38; it waits for the step that ends at 41: hand-off 3
    fleet = Disaggregated(ENGINE, LAW, ENGINE, LAW, LinkOptions(2, 3), hop=1)
    stages = stages_of([Job(0, 4, 3), Job(0, 4, 1)], fleet)
    assert stages[1] == Stages(
        prefill=14,
        prefill_sharing=4,
        hand_off=1 + 3,
        transfer_wait=8,
        transfer=11,
        decode_solo=11,
        decode_batch=1,
    )
