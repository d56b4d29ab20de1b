"""The front of the fleet simulator: answers worked out by hand, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from threading import Thread

import numpy as np
import pytest

from planner.kernels import engine
from planner.kernels.engine import Traffic, compiled, plain, simulate_fleet
from planner.kernels.engine.magnitude import fits_64_bits
from planner.kernels.stepwise import (
    Colocated,
    Disaggregated,
    EngineOptions,
    LinkOptions,
    RouterOptions,
    StepLaw,
    StepLimitError,
    affine,
)
from tests.fleets import differences

ENGINE = EngineOptions(max_num_seqs=8, max_num_batched_tokens=100, block_size=2)
LAW = affine(10, 1)  # a step of n tokens lasts 10 + n ticks
ONE = Colocated(ENGINE, LAW)
SPLIT = Disaggregated(ENGINE, LAW, ENGINE, LAW, LinkOptions(2, 3), hop=1)


def traffic(*rows: tuple[int, int, int], **optional: list[int]) -> Traffic:
    """``rows``: (arrival, prompt, output)."""
    arrival, prompt, output = zip(*rows, strict=True)
    wide = ("deadline", "prefix_start")
    arrays = {k: np.array(v, np.int64 if k in wide else np.int32) for k, v in optional.items()}
    return Traffic(
        np.array(arrival, np.int64),
        np.array(prompt, np.int32),
        np.array(output, np.int32),
        **arrays,
    )


# --- by hand ---------------------------------------------------------------------------------


def test_decode_steps_in_a_row_grow_with_their_context() -> None:
    # L = 10 + n + K: prefill 0..14 and then K = 5, 6, 7, 8: 16, 17, 18, 19 ticks
    law = StepLaw(((0, 10), (1, 11)), c_k=1)
    r = simulate_fleet(traffic((0, 4, 5)), Colocated(ENGINE, law), token_times=True)
    assert r.token_times.tolist() == [14, 30, 47, 65, 84]
    assert (r.max_token_gap.tolist(), r.n_steps, r.makespan) == ([19], (5,), 84)


def test_only_the_attention_of_prefill_has_digits_after_the_point() -> None:
    # 2X = 4 * 4 = 16 for the prompt, at 3/4 tick each: 12; L = 10 and K = 5, 6, 7, 8 are whole
    law = StepLaw(((0, 10),), c_x=3, c_k=1, shift=2)
    r = simulate_fleet(traffic((0, 4, 5)), Colocated(ENGINE, law), token_times=True)
    assert r.token_times.tolist() == [22, 37, 53, 70, 88]


def test_an_arrival_cuts_a_window_at_the_next_boundary() -> None:
    # A decodes from 14 on, 11 ticks a token: 25, 36, 47, ...; B comes at 30 and is seen at 36:
    # 36..49 (1 + 2 tokens); then A alone until its tenth token
    r = simulate_fleet(traffic((0, 4, 10), (30, 2, 1)), ONE, token_times=True)
    assert r.first_scheduled.tolist() == [0, 36]
    assert r.token_times.tolist() == [14, 25, 36, 49, 60, 71, 82, 93, 104, 115, 49]


def test_an_arrival_at_a_boundary_inside_of_a_window_is_seen_there() -> None:
    r = simulate_fleet(traffic((0, 4, 10), (36, 2, 1)), ONE)
    assert r.first_scheduled.tolist() == [0, 36]


def test_a_full_engine_lets_nobody_cut_its_window() -> None:
    # one seat: B waits for A's end at 14 + 4 * 11 = 58
    setup = Colocated(replace(ENGINE, max_num_seqs=1), LAW)
    assert simulate_fleet(traffic((0, 4, 5), (20, 2, 1)), setup).first_scheduled.tolist() == [0, 58]


def test_a_window_ends_where_blocks_end() -> None:
    # 4 blocks of 2. 0..16 both (2 blocks each), 16..28 both; at 28 A wants a third: B goes
    setup = Colocated(replace(ENGINE, usable_blocks=4), LAW)
    r = simulate_fleet(traffic((0, 3, 4), (0, 3, 3)), setup, token_times=True)
    assert r.token_times.tolist() == [16, 28, 39, 50, 16, 28, 65]
    assert r.preemptions.tolist() == [0, 1]
    assert r.max_token_gap.tolist() == [12, 37]


def test_a_deadline_that_passes_inside_of_a_window_frees_the_head_for_the_next() -> None:
    # Budget 8, 5 blocks, no watermark: A (3 blocks for 5 tokens) 0..14, 14..25, 25..36, ...
    # B (6 tokens, 3 blocks) cannot enter, and from 31 on could not make its deadline of 46 even
    # alone (16 ticks): refused at 36; C (2 tokens) enters then: 36..49
    setup = Colocated(replace(ENGINE, usable_blocks=5, policy="deadline"), LAW)
    r = simulate_fleet(traffic((0, 4, 5), (20, 6, 1), (21, 2, 1), deadline=[2**62, 46, 90]), setup)
    assert engine.FATES[r.fate[1]] == "rejected"
    assert r.first_scheduled.tolist() == [0, -1, 36]


def test_a_prompt_is_handed_over_read_and_decoded() -> None:
    # P 0..14, D queues at 15 and reads 15..26, steps 26..37 and 37..48
    r = simulate_fleet(traffic((0, 4, 2)), SPLIT, token_times=True)
    assert [c.tolist() for c in (r.prefill_done, r.decode_arrival, r.kv_start, r.kv_end)] == [
        *([14], [15], [15], [26])
    ]
    assert (r.decode_first_scheduled.tolist(), r.token_times.tolist()) == ([26], [37, 48])
    assert (r.replica.tolist(), r.decode_replica.tolist(), r.n_steps) == ([0], [0], (1, 2))


def test_a_prompt_of_one_token_whose_kv_has_come_is_not_refused_any_more() -> None:
    # P 0..15, both read from 16 on: A until 27, B until 29. D: A 27..38; B, whose only token is
    # redone, waits for the watermark until A's end at 60, long after its deadline: 60..71
    decode = replace(ENGINE, usable_blocks=10, watermark_blocks=8, policy="deadline")
    requests = traffic((0, 4, 3), (0, 1, 1), deadline=[25, 30])
    r = simulate_fleet(requests, replace(SPLIT, decode=decode), token_times=True)
    assert r.token_times.tolist() == [38, 49, 60, 71]


def test_a_fair_link_shares_its_rate_exactly() -> None:
    # two prompts of 3 leave two prefill engines at 13 and read 6 ticks of work each at half
    # the rate: both through at 14 + 12, complete 3 later
    setup = replace(SPLIT, n_prefill=2, n_decode=2, link=LinkOptions(2, 3, "fair"))
    r = simulate_fleet(traffic((0, 3, 1), (0, 3, 1)), setup)
    assert (r.kv_start.tolist(), r.kv_end.tolist()) == ([14, 14], [29, 29])


def test_a_crowd_on_a_fair_link_leaves_at_the_ticks_of_exact_fractions() -> None:
    """Up to 90 share the link at once: its clock's denominator passes 64 and 128 bits."""
    rng = np.random.default_rng(3)
    rows = [(int(t), int(rng.integers(1, 60)), 1) for t in np.sort(rng.integers(0, 3000, 90))]
    for ticks_per_token in (1_000, 10**6 + 3):
        link = LinkOptions(ticks_per_token, 3, "fair")
        setup = replace(SPLIT, n_prefill=4, n_decode=40, link=link)
        r = simulate_fleet(traffic(*rows), setup)
        stepwise = plain.run(
            traffic(*rows), setup, token_times=False, keep_steps=False, max_steps=10**6
        )
        assert differences(stepwise, r) == []
        assert (r.kv_end > r.kv_start.max()).sum() > 60


def test_a_traced_step_tells_what_it_computed() -> None:
    r = simulate_fleet(traffic((0, 4, 2), (5, 2, 1)), ONE, keep_steps=True)
    assert r.steps == (
        (
            (0, 0, 14, ((0, 4, 0, False, True),), ()),
            (14, 14, 27, ((0, 1, 4, True, True), (1, 2, 0, False, True)), ()),
        ),
    )


def test_no_traffic_takes_no_time() -> None:
    none = Traffic(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
    r = simulate_fleet(none, SPLIT, token_times=True, keep_steps=True)
    assert (r.makespan, r.n_steps, r.steps, len(r.fate)) == (0, (0, 0), ((), ()), 0)


# --- what does not fit 64 bits -----------------------------------------------------------------


@pytest.mark.parametrize(
    "law",
    [
        affine(10**30, 1),
        affine(10, 10**30),
        affine(10, 1, per_context=2**60),
        StepLaw(((0, 10**20), (10**12, 10**40)), shift=70),
        affine(2**58, 1),  # each step fits, the clock does not
    ],
)
def test_numbers_beyond_64_bits_are_served_in_python(law: StepLaw) -> None:
    requests = traffic((0, 4, 9), (5, 2, 20))
    setup = Colocated(ENGINE, law)
    options = {"token_times": False, "keep_steps": False, "max_steps": 1000}
    try:
        expected = plain.run(requests, setup, **options)
    except OverflowError:  # ... but results are 64-bit numbers
        with pytest.raises(OverflowError):
            simulate_fleet(requests, setup, max_steps=1000)
    else:
        assert differences(expected, simulate_fleet(requests, setup, max_steps=1000)) == []


def test_realistic_laws_in_picoseconds_fit() -> None:
    law = StepLaw(((0, 6 * 10**9 << 16), (8192, 10**12 << 16)), c_x=33 * 10**6, c_k=49_000 << 16)
    options = EngineOptions(max_num_seqs=256, max_num_batched_tokens=8192)
    requests = traffic(*[(0, 30_000, 4_000)] * 300)
    assert fits_64_bits(requests, Colocated(options, law))


@pytest.mark.parametrize("kind", ["synchronous", "asynchronous"])
def test_arrivals_over_46_days_in_picoseconds_are_served_by_compiled_code(kind: str) -> None:
    # the sparsest traffic that is simulated: 4e6 s
    options = replace(ENGINE, prefix_caching=True, async_scheduling=kind == "asynchronous")
    days = 4 * 10**18
    requests = traffic(
        (0, 9, 5), (days // 2, 8, 30), (days - 40, 7, 20), (days, 9, 9),
        prefix_start=[0, 2, 4, 6, 8], prefix_name=[0, 1, 0, 1, 0, 1, 0, 1],
    )  # fmt: skip
    setup = Colocated(options, StepLaw(((0, 10**10), (100, 10**11)), c_k=10**6))
    assert fits_64_bits(requests, setup)
    options = {"token_times": True, "keep_steps": False, "max_steps": 1000}
    expected = plain.run(requests, setup, **options)
    assert differences(expected, simulate_fleet(requests, setup, **options)) == []


# --- limits, threads, refusals -----------------------------------------------------------------


def test_too_many_steps_are_an_error() -> None:
    simulate_fleet(traffic((0, 4, 5)), ONE, max_steps=5)
    with pytest.raises(StepLimitError, match="more than 4 steps"):
        simulate_fleet(traffic((0, 4, 5)), ONE, max_steps=4)


def test_threads_do_not_disturb_each_other() -> None:
    rng = np.random.default_rng(5)
    rows = [
        (int(t), int(p), 20)
        for t, p in zip(range(0, 8000, 40), rng.integers(1, 50, 200), strict=True)
    ]
    alone, results = simulate_fleet(traffic(*rows), SPLIT), []
    threads = [
        Thread(target=lambda: results.append(simulate_fleet(traffic(*rows), SPLIT)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [differences(alone, result) for result in results] == [[]] * 4


GOOD = traffic((0, 4, 2), (5, 3, 1))
NOT_V1 = replace(ENGINE, kind="sarathi")


@pytest.mark.parametrize(
    ("requests", "setup", "word"),
    [
        (GOOD._replace(arrival=GOOD.arrival[::-1]), ONE, "ascend"),
        (GOOD._replace(arrival=GOOD.arrival - 1), ONE, "negative"),
        (GOOD._replace(arrival=GOOD.arrival.astype(float)), ONE, "int64"),
        (GOOD._replace(prompt=GOOD.prompt.astype(np.int64)), ONE, "int32"),
        (GOOD._replace(prompt=GOOD.prompt * 0), ONE, "prompt"),
        (GOOD._replace(output=GOOD.output[:1]), ONE, "2 entries"),
        (GOOD._replace(output=GOOD.output * 0), ONE, "output"),
        (GOOD._replace(limit=GOOD.output - 1), ONE, "limit"),
        (GOOD._replace(group=GOOD.output * -1), ONE, "group"),
        (GOOD._replace(deadline=GOOD.arrival - 9), ONE, "deadline"),
        (GOOD._replace(prefix_start=np.array([0, 1, 1])), ONE, "prefix"),
        (
            GOOD._replace(prefix_start=np.array([0, 2, 1]), prefix_name=GOOD.prompt[:1]),
            ONE,
            "prefix_start",
        ),
        (
            GOOD._replace(prefix_start=np.array([0, 0, 1]), prefix_name=-GOOD.prompt[:1]),
            ONE,
            "prefix_name",
        ),
        (GOOD._replace(prefix_count=GOOD.output), ONE, "prefix_count"),
        (
            GOOD._replace(
                prefix_start=np.array([0, 0]),
                prefix_name=np.array([1], np.int32),
                prefix_count=np.array([1, 2], np.int32),
            ),
            ONE,
            "prefix_count",
        ),
        (GOOD._replace(cached=GOOD.prompt), ONE, "cached"),
        (GOOD._replace(cached=GOOD.prompt - 1), SPLIT, "cached"),
        (GOOD._replace(cached=GOOD.prompt - 1), replace(ONE, engine=NOT_V1), "cached"),
        (GOOD, replace(ONE, router=RouterOptions("prefix_affinity", slack=-1)), "slack"),
        (GOOD, replace(ONE, replicas=0), "replicas"),
        (GOOD, replace(ONE, engine=replace(ENGINE, max_num_seqs=0)), "max_num_seqs"),
        (GOOD, replace(ONE, engine=replace(ENGINE, block_size=0)), "block_size"),
        (GOOD, replace(ONE, engine=replace(ENGINE, usable_blocks=-1)), "usable_blocks"),
        (GOOD, replace(ONE, engine=replace(ENGINE, watermark_blocks=-1)), "watermark"),
        (GOOD, replace(ONE, engine=replace(NOT_V1, prefix_caching=True)), "prefix_caching"),
        (GOOD, replace(ONE, engine=replace(NOT_V1, pp_degree=2)), "pp_degree"),
        (GOOD, Colocated(replace(ENGINE, pp_degree=2), LAW, 2, lock_step=True), "lock_step"),
        (GOOD, Colocated(ENGINE, LAW, 3, lock_step=True, ranks=2), "ranks"),
        (GOOD, replace(SPLIT, decode=NOT_V1), "v1"),
        (GOOD, replace(SPLIT, hop=-1), "link"),
        (GOOD, replace(ONE, law=StepLaw(())), "knots"),
        (GOOD, replace(ONE, law=StepLaw(((2, 1), (1, 1)))), "ascend"),
        (GOOD, replace(ONE, router=RouterOptions("by_class")), "groups"),
        (GOOD, replace(ONE, router=RouterOptions("by_class", (), ((1,),))), "does not exist"),
        (GOOD, replace(ONE, router=RouterOptions("by_length", (2, 1), ((0,),))), "boundaries"),
    ],
)
def test_what_makes_no_sense_is_refused(requests: Traffic, setup, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        simulate_fleet(requests, setup)


def test_the_status_says_which_simulator_runs() -> None:
    assert engine.STATUS.startswith("compiled" if engine.COMPILED else "step-wise")


def test_a_wrong_array_cannot_crash_the_compiled_simulator() -> None:
    """Unchecked arrays, straight to the module: an error, whatever they are."""
    options = {"token_times": True, "keep_steps": False, "max_steps": 1000}
    bad = [
        GOOD._replace(arrival=GOOD.arrival[::-1]),
        GOOD._replace(prompt=GOOD.prompt - 9),
        GOOD._replace(prompt=GOOD.prompt[::-2]),
        GOOD._replace(arrival=GOOD.prompt),
        GOOD._replace(limit=GOOD.output * 0),
        GOOD._replace(group=GOOD.output * -1),
        GOOD._replace(deadline=GOOD.arrival - 9),
        GOOD._replace(prefix_start=np.array([0, 5, 1]), prefix_name=GOOD.prompt[:1]),
        GOOD._replace(prefix_start=np.array([0, 1]), prefix_name=GOOD.prompt[:1]),
        GOOD._replace(prefix_start=np.array([0, 1, 1]), prefix_name=None),
        GOOD._replace(prefix_count=GOOD.output),
        GOOD._replace(
            prefix_start=np.array([0, -1]), prefix_name=GOOD.prompt[:1], prefix_count=GOOD.output
        ),
        GOOD._replace(cached=GOOD.prompt),
    ]
    expected = (ValueError, TypeError) if compiled.COMPILED else ImportError
    for requests in bad:
        with pytest.raises(expected):
            compiled.run(requests, ONE, **options)
    for setup in (
        replace(ONE, engine=replace(ENGINE, max_num_seqs=0)),
        replace(ONE, engine=replace(ENGINE, block_size=2**40)),
        replace(ONE, law=StepLaw(())),
        replace(ONE, law=StepLaw(((2, 1), (1, 1)))),
        replace(ONE, router=RouterOptions("by_class", (), ((7,),))),
        replace(SPLIT, n_decode=0),
        replace(SPLIT, decode=NOT_V1),
    ):
        with pytest.raises(expected):
            compiled.run(GOOD, setup, **options)
