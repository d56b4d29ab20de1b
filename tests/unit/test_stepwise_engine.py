"""One engine, worked out by hand. A step of n tokens lasts 10 + n ticks throughout."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.kernels.stepwise import Colocated, EngineOptions, Job, affine, simulate

LAW = affine(10, 1)


def serve(jobs, *, law=LAW, **options):
    """Serve on one engine with ample slots and budget, unless told otherwise."""
    options = {"max_num_seqs": 8, "max_num_batched_tokens": 100, "block_size": 2} | options
    return simulate(jobs, Colocated(EngineOptions(**options), law), keep_steps=True)


def tokens(outcome):
    return [record.token_times for record in outcome.records]


def planned(outcome, engine=0):
    """Each step as (start, end, [(rank, new tokens, computed before)])."""
    return [
        (step.start, step.end, [(i.request.rank, i.new, i.before) for i in step.items])
        for step in outcome.steps[engine]
    ]


def test_a_lone_request_takes_a_prefill_and_then_one_step_a_token():
    # prefill of 4: 0..14; two decodes of 11 each
    assert tokens(serve([Job(0, 4, 3)])) == [[14, 25, 36]]


def test_the_second_waits_for_the_only_slot():
    # A: 0..14, 14..25. B gets the slot at 25: 25..38
    outcome = serve([Job(0, 4, 2), Job(1, 3, 1)], max_num_seqs=1)
    assert tokens(outcome) == [[14, 25], [38]]
    assert outcome.records[1].first_scheduled == 25
    assert outcome.makespan == 38
    assert outcome.n_steps == (3,)


def test_an_arrival_at_a_step_boundary_is_in_the_next_step():
    # A: 0..14; B comes at 14 and joins A's decode: 14..27 (1 + 2 tokens)
    assert tokens(serve([Job(0, 4, 2), Job(14, 2, 1)])) == [[14, 27], [27]]


def test_prompts_are_cut_to_the_budget_and_running_requests_go_first():
    # 0..14 A 4; 14..28 A 2 + B 2; 28..40 A's decode + B's last prompt token
    outcome = serve([Job(0, 6, 2), Job(0, 3, 1)], max_num_batched_tokens=4)
    assert planned(outcome) == [
        (0, 14, [(0, 4, 0)]),
        (14, 28, [(0, 2, 4), (1, 2, 0)]),
        (28, 40, [(0, 1, 6), (1, 1, 2)]),
    ]
    assert tokens(outcome) == [[28, 40], [40]]


def test_without_chunking_a_prompt_that_does_not_fit_blocks_those_behind_it():
    # 0..14 A 4; B (4) does not fit beside A's decode, and C (1) must not pass it:
    # 14..25 A, 25..36 A; 36..50 B; 50..61 C
    outcome = serve(
        [Job(0, 4, 3), Job(0, 4, 1), Job(0, 1, 1)],
        max_num_batched_tokens=4,
        enable_chunked_prefill=False,
    )
    assert tokens(outcome) == [[14, 25, 36], [50], [61]]


def test_the_long_prefill_threshold_cuts_each_request():
    # 0..14 A 2 + B 2; 14..26 A 2; 26..37 A 1
    outcome = serve([Job(0, 5, 1), Job(0, 2, 1)], long_prefill_token_threshold=2)
    assert tokens(outcome) == [[37], [14]]


PRESSED = [Job(0, 3, 4), Job(0, 3, 3)]


def test_the_last_admitted_is_preempted_and_computes_everything_again():
    # 4 blocks of 2. 0..16 A 3 + B 3 (2 blocks each); 16..28 both decode (4 tokens, 2 blocks).
    # 28: A's 5th token needs a third block: B goes, nothing is admitted in this step: 28..39.
    # 39: B needs 3 blocks for its 5 tokens, 1 is free: 39..50 A alone, its last.
    # 50..65: B computes 3 + 2 tokens and samples its third.
    outcome = serve(PRESSED, usable_blocks=4)
    assert tokens(outcome) == [[16, 28, 39, 50], [16, 28, 65]]
    assert [record.preemptions for record in outcome.records] == [0, 1]
    assert outcome.records[1].max_token_gap == 37
    assert [step.preempted for step in outcome.steps[0]] == [(), (), (1,), (), ()]


def test_a_preempted_request_stands_before_those_that_wait():
    # as above, and C (1 block) comes at 20: at 39 one block is free, but B is the head and
    # does not fit; at 50 both are admitted: 50..67 (5 + 2 tokens)
    outcome = serve([*PRESSED, Job(20, 2, 1)], usable_blocks=4)
    assert tokens(outcome) == [[16, 28, 39, 50], [16, 28, 67], [67]]


def test_a_step_that_preempted_admits_nobody():
    # B is preempted at 28, and a block is left over; C is more important than B and would fit
    # it, but is admitted at 39 only: 39..52 (1 + 2 tokens); B when both are gone: 52..67
    jobs = [replace(PRESSED[0], priority=1), replace(PRESSED[1], priority=2), Job(20, 2, 1)]
    outcome = serve(jobs, usable_blocks=4, policy="priority")
    assert tokens(outcome) == [[16, 28, 39, 52], [16, 28, 67], [52]]


@pytest.mark.parametrize("kind", ["v1", "v0", "sarathi"])
def test_every_scheduler_preempts_the_latest_first(kind):
    # 6 blocks, three prompts of 3: 0..19, 19..32; at 32 A wants a third block: C goes, whose
    # two blocks serve A and B: 32..44, their last; C computes 5: 44..59
    outcome = serve([Job(0, 3, 3)] * 3, kind=kind, usable_blocks=6)
    assert tokens(outcome) == [[19, 32, 44], [19, 32, 44], [19, 32, 59]]
    assert [record.preemptions for record in outcome.records] == [0, 0, 1]


def test_the_gate_wants_room_for_the_whole_prompt_though_a_chunk_is_taken():
    # 3 blocks of 2, budget 3. 0..13 A 3 (2 blocks). At 13 B's prompt needs 2 blocks, 1 free.
    jobs = [Job(0, 4, 1), Job(0, 4, 1)]
    gated = serve(jobs, usable_blocks=3, max_num_batched_tokens=3)
    # 13..24 A 1; 24..37 B 3; 37..48 B 1
    assert tokens(gated) == [[24], [48]]
    open_ = serve(jobs, usable_blocks=3, max_num_batched_tokens=3, reserve_full_isl=False)
    # 13..26 A 1 + B 2 (1 block); 26..38 B 2
    assert tokens(open_) == [[26], [38]]


def test_the_watermark_holds_back_admission_only_while_something_runs():
    # 4 blocks of 2, 1 kept free: A 1 block, B 2; C would leave 0. 0..16 A 2 + B 4; B leaves.
    # 16: A grows to 2 blocks, 2 free: C fits and leaves 1: 16..29 A 1 + C 2
    jobs = [Job(0, 2, 2), Job(0, 4, 1), Job(0, 2, 1)]
    outcome = serve(jobs, usable_blocks=4, watermark_blocks=1)
    assert tokens(outcome) == [[16, 29], [16], [29]]
    # alone, a request may take the last block
    assert tokens(serve([Job(0, 8, 1)], usable_blocks=4, watermark_blocks=1)) == [[18]]


def test_the_least_important_is_preempted_even_if_it_needs_the_block_itself():
    # 4 blocks. A (priority 1) 0..13; 13..27 A + B's prompt; 27: A's third block is not there,
    # and A is the least important: it goes, the pass ends, and the scheduler is called again
    # at once: 27..38 B; 38..49 B, its last; 49..64 A computes 5; 64..75
    jobs = [Job(0, 3, 4, priority=1), Job(1, 3, 3, priority=0)]
    outcome = serve(jobs, usable_blocks=4, policy="priority")
    assert tokens(outcome) == [[13, 27, 64, 75], [27, 38, 49]]
    assert [step.preempted for step in outcome.steps[0]] == [(), (), (0,), (), (), ()]


def test_a_victim_already_scheduled_in_the_step_is_taken_back_out():
    # A (priority 5): 0..11 (1 block). 11..26 A 1 + B 4 (1 + 2 blocks). 26: A takes the last
    # block, B wants one, A is scheduled but gives way: 26..37 B alone, its last.
    # 37..50 A computes 3 tokens and samples its third
    jobs = [Job(0, 1, 3, priority=5), Job(1, 4, 2, priority=0)]
    outcome = serve(jobs, usable_blocks=4, policy="priority")
    assert tokens(outcome) == [[11, 26, 50], [26, 37]]
    assert planned(outcome)[2] == (26, 37, [(1, 1, 4)])


def test_the_budget_of_a_victim_taken_back_out_goes_to_those_behind_it():
    # Budget 7, 8 blocks, no gate. L (priority 5) 0..17; 17..34 L 1 + H 4 + M 2 (4 + 2 + 1
    # blocks). 34: L takes the 8th block, H wants one: L gives way (5 blocks), H takes 1, and M
    # gets all the 6 tokens left: 34..51
    jobs = [Job(0, 7, 9, priority=5), Job(1, 4, 9, priority=0), Job(2, 8, 1, priority=1)]
    outcome = serve(
        jobs,
        usable_blocks=8,
        max_num_batched_tokens=7,
        policy="priority",
        reserve_full_isl=False,
    )
    assert planned(outcome)[:3] == [
        (0, 17, [(0, 7, 0)]),
        (17, 34, [(0, 1, 7), (1, 4, 0), (2, 2, 0)]),
        (34, 51, [(1, 1, 4), (2, 6, 2)]),
    ]


def test_equals_do_not_preempt_each_other_for_ever():
    # 4 blocks, pieces of 2, no gate: 0..14 both; 14..28 both (2 blocks each); at 28 A wants a
    # third: B, the later of two equals, goes. A: 28..40; B 40..52, 52..64, 64..76
    outcome = serve(
        [Job(0, 6, 1, priority=1), Job(0, 6, 1, priority=1)],
        usable_blocks=4,
        policy="priority",
        long_prefill_token_threshold=2,
        reserve_full_isl=False,
    )
    assert tokens(outcome) == [[40], [76]]
    assert [record.preemptions for record in outcome.records] == [0, 1]


def test_admission_follows_priority_then_arrival():
    jobs = [Job(0, 1, 1), Job(1, 1, 1, priority=1), Job(2, 1, 1), Job(3, 1, 1)]
    outcome = serve(jobs, max_num_seqs=1, policy="priority")
    assert [record.first_scheduled for record in outcome.records] == [0, 33, 11, 22]


def test_deadlines_order_admission_and_the_hopeless_are_refused_unserved():
    # one slot; at 14 the order is D (37), C (40), B (60): D 14..26, C 26..38, B 38..50
    jobs = [
        Job(0, 4, 1),
        Job(1, 2, 1, deadline=60),
        Job(2, 2, 1, deadline=40),
        Job(3, 2, 1, deadline=37),
    ]
    outcome = serve(jobs, max_num_seqs=1, policy="deadline")
    assert tokens(outcome) == [[14], [50], [38], [26]]
    jobs[3] = Job(3, 2, 1, deadline=25)  # even alone it would end at 26
    outcome = serve(jobs, max_num_seqs=1, policy="deadline")
    assert tokens(outcome) == [[14], [38], [26], []]
    assert outcome.records[3].fate == "rejected"


def test_what_can_never_fit_is_rejected_and_does_not_block_the_rest():
    # 3 blocks of 2 hold 6 tokens; the last token's KV needs no place
    outcome = serve([Job(0, 4, 4), Job(0, 4, 3)], usable_blocks=3)
    assert [record.fate for record in outcome.records] == ["rejected", "finished"]


def test_a_request_that_outgrew_an_unchunked_step_fails_when_its_turn_comes():
    # Budget 4, 5 blocks. 0..13 A 3; 13..27 A 1 + B 3; 27..39 both (3 + 2 blocks). At 39 B wants
    # a third block, and is itself the last: preempted with 5 tokens, which no step can hold.
    outcome = serve(
        [Job(0, 3, 5), Job(0, 3, 6)],
        usable_blocks=5,
        max_num_batched_tokens=4,
        enable_chunked_prefill=False,
    )
    assert tokens(outcome) == [[13, 27, 39, 50, 61], [27, 39]]
    assert [record.fate for record in outcome.records] == ["finished", "failed"]


def test_asynchronous_scheduling_sees_an_arrival_one_step_later():
    jobs = [Job(0, 4, 3), Job(5, 2, 1)]
    # 0..14 A; 14..27 A + B; 27..38 A
    assert tokens(serve(jobs)) == [[14, 27, 38], [27]]
    # 0..14 A and 14..25 A are both scheduled at 0; at 14: A + B for 25..38
    outcome = serve(jobs, async_scheduling=True)
    assert tokens(outcome) == [[14, 25, 38], [38]]
    assert [step.scheduled_at for step in outcome.steps[0]] == [0, 0, 14]


def test_an_asynchronous_engine_that_found_nothing_waits_for_its_step():
    # A's only token is in flight, so the second call at 0 finds nothing; B and C are seen at
    # 14, together: 14..28
    outcome = serve([Job(0, 4, 1), Job(5, 2, 1), Job(10, 2, 1)], async_scheduling=True)
    assert tokens(outcome) == [[14], [28], [28]]
    assert outcome.records[1].first_scheduled == 14


def test_an_unforeseen_end_costs_an_asynchronous_engine_a_step():
    # A may have 5 tokens but stops after 1: its second step 14..25 was scheduled at 0 and runs
    outcome = serve([Job(0, 4, 1, max_tokens=5), Job(5, 2, 1)], async_scheduling=True)
    assert tokens(outcome) == [[14], [37]]
    assert outcome.n_steps == (3,)


def test_asynchronous_preemption_keeps_the_token_in_flight():
    # 4 blocks. 0..16 A 3 + B 3; 16..28 both (scheduled at 0, 2 blocks each). At 16 A's next
    # token needs a third block: B goes while its second token is in flight; that token comes
    # at 28. A: 28..39 (scheduled at 16), 39..50 (at 28), its last. At 28 and 39 B does not
    # fit (5 tokens, 3 blocks); A's blocks are free at 50: 50..65 B
    outcome = serve(PRESSED, usable_blocks=4, async_scheduling=True)
    assert tokens(outcome) == [[16, 28, 39, 50], [16, 28, 65]]


def test_pipeline_stages_overlap_batches_but_not_a_request_with_itself():
    # 2 stages, half a step each. A 4 tokens: 0..7..14. B is scheduled at 0 as well (the budget
    # is spent by A), and enters at 7: 7..14..21. A's decode (11 ticks, 6 a stage) enters at 14,
    # is through the first stage at 20 and waits for the second till 21: 27. B's decode,
    # scheduled at 21: 21..27..33
    outcome = serve([Job(0, 4, 2), Job(0, 4, 2)], max_num_batched_tokens=4, pp_degree=2)
    assert tokens(outcome) == [[14, 27], [21, 33]]


def test_a_preempted_request_is_not_admitted_before_its_token_in_flight_is_known():
    # 3 stages, budget 3, 6 blocks; one request a batch. Prefills (13 ticks, 5 a stage): A 0..15,
    # B 5..20, C 10..25. Decodes (4 a stage): A 15..29, B 20..33, C 25..37.
    # 29: A wants a third block: C goes, though its step is under way; A 29..41, its last.
    # 33: B ends. C would fit, but its second token is not known before 37; then it computes
    # 3 + 2 tokens in two pieces: 37..52 and 42..56
    outcome = serve(
        [Job(0, 3, 3), Job(0, 3, 2), Job(0, 3, 3)],
        usable_blocks=6,
        max_num_batched_tokens=3,
        pp_degree=3,
    )
    assert tokens(outcome) == [[15, 29, 41], [20, 33], [25, 37, 56]]


SHARED = ("x", "y")


def test_a_prefix_is_hit_in_the_step_that_computes_it():
    # A 5 tokens, B only the one after two cached blocks: 6 tokens, 0..16
    outcome = serve([Job(0, 5, 1, prefix=SHARED), Job(0, 5, 1, prefix=SHARED)], prefix_caching=True)
    assert tokens(outcome) == [[16], [16]]
    assert [record.cached_tokens for record in outcome.records] == [0, 4]


def test_the_last_token_is_always_computed():
    # both blocks of C's prompt are cached, but only one may be hit: 2 tokens to compute
    outcome = serve(
        [Job(0, 4, 1, prefix=SHARED), Job(50, 4, 1, prefix=SHARED)], prefix_caching=True
    )
    assert tokens(outcome)[1] == [62]
    assert outcome.records[1].cached_tokens == 2


@pytest.mark.parametrize(
    ("between", "cached"),
    [
        (1, 4),  # takes the block never used: x and y stay
        (4, 2),  # takes that and the head of the queue, y: the last block was freed first
        (6, 0),  # takes all three
    ],
)
def test_freed_blocks_are_reused_oldest_first_and_tails_before_heads(between, cached):
    jobs = [
        Job(0, 4, 1, prefix=SHARED),
        Job(50, between, 1),
        Job(100, 5, 1, prefix=SHARED),
    ]
    outcome = serve(jobs, prefix_caching=True, usable_blocks=3)
    assert outcome.records[2].cached_tokens == cached
    assert tokens(outcome)[2] == [110 + 5 - cached]


def test_a_preempted_request_finds_what_is_left_of_its_own_blocks():
    # as PRESSED; of B's two full blocks the second is given to A, the first is hit at 50:
    # 3 of 5 tokens to compute, 50..63
    outcome = serve(PRESSED, usable_blocks=4, prefix_caching=True)
    assert tokens(outcome)[1] == [16, 28, 63]
    assert outcome.records[1].cached_tokens == 0  # at first admission


def test_a_block_is_not_hit_before_its_last_token_was_known_to_a_schedule():
    # 4 blocks, asynchronous. 0..15 A 2 + B 3; 15..27 both (scheduled at 0; A takes the fourth
    # block). At 15 B wants a third: it is the last, and goes. Its second block is filled by the
    # token of 0..15, whose KV the step under way computes: it was never named. A: 27..38, its
    # last; then B finds one block and computes 3 of 5 tokens: 38..51
    outcome = serve(
        [Job(0, 2, 3), Job(0, 3, 3)], usable_blocks=4, prefix_caching=True, async_scheduling=True
    )
    assert tokens(outcome) == [[15, 27, 38], [15, 27, 51]]


def test_v0_stops_decoding_while_prompts_can_be_admitted():
    # 0..14 A; 14..26 B's prompt only; 26..38 A and B; 38..49 A
    outcome = serve([Job(0, 4, 3), Job(5, 2, 2)], kind="v0")
    assert tokens(outcome) == [[14, 38, 49], [26, 38]]


def test_v0_preempts_the_latest_arrival():
    # as in V1, but B's whole 5 tokens come in a step of their own at 50
    outcome = serve(PRESSED, kind="v0", usable_blocks=4)
    assert tokens(outcome) == [[16, 28, 39, 50], [16, 28, 65]]
    assert [record.preemptions for record in outcome.records] == [0, 1]


def test_v0_rejects_a_prompt_that_fits_no_step():
    outcome = serve([Job(0, 5, 1), Job(0, 4, 1)], kind="v0", max_num_batched_tokens=4)
    assert [record.fate for record in outcome.records] == ["rejected", "finished"]


def test_sarathi_decodes_first_and_never_keeps_a_decode_waiting():
    # budget 2. 0..12 A 2: sampled; 12..24 A 1 + B 1; 24..36 A 1 + B 1 ... B's prompt of 3
    # gets one token a step beside A: 12..24, 24..36, then A is done: 36..47
    outcome = serve([Job(0, 2, 3), Job(0, 3, 1)], kind="sarathi", max_num_batched_tokens=2)
    assert tokens(outcome) == [[12, 24, 36], [47]]


def test_sarathi_takes_the_blocks_of_the_whole_prompt_at_admission():
    # budget 4, 4 blocks: A's prompt of 6 holds 3, B's of 3 needs 2: B waits for A's end
    outcome = serve(
        [Job(0, 6, 1), Job(0, 3, 1)], kind="sarathi", max_num_batched_tokens=4, usable_blocks=4
    )
    # 0..14 A 4; 14..26 A 2; 26..39 B 3
    assert tokens(outcome) == [[26], [39]]


def test_sarathi_preempts_the_latest_and_recomputes_it():
    outcome = serve(PRESSED, kind="sarathi", usable_blocks=4)
    assert tokens(outcome) == [[16, 28, 39, 50], [16, 28, 65]]
