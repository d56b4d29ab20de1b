"""A stream counts what an array run records, however it is cut, and for as long as it likes."""

from __future__ import annotations

from threading import Thread

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.kernels import COMPILED, Deadlines, Law, Limits, Stream
from planner.kernels.tally import RELATIVE_ERROR, STAGES, bin_of
from tests.pools import Case, random_case, solve
from tests.property.test_kernels import pools

NATIVE = (True, False) if COMPILED else (False,)
natives = pytest.mark.parametrize("native", NATIVE)


def stream_of(case: Case, deadlines: Deadlines, kinds: np.ndarray, cuts: list[int], native: bool):
    stream = Stream(
        case.law,
        case.limits,
        deadlines,
        replicas=case.replicas,
        router=case.router,
        native=native,
    )
    zero, n = 0, len(case.arrival)
    for first, last in zip([0, *cuts], [*cuts, n], strict=True):
        if first == last:
            continue
        part = slice(first, last)
        stream.push(case.arrival[part] - zero, case.prompt[part], case.output[part], kinds[part])
        zero = case.arrival[last - 1]
    stream.drain()
    return stream.summary()


def deadlines_of(rng: np.random.Generator, case: Case, classes: int) -> Deadlines:
    """Near the middle of what happens, so that some are met and some are missed."""
    r = solve(case)
    done = r.finish_ps >= 0
    ttft = np.median((r.first_token_ps - case.arrival)[done]) if done.any() else 1
    tpot = np.median(((r.finish_ps - r.first_token_ps) / case.output)[done]) if done.any() else 1
    near = rng.choice([0.5, 1, 2], (5, classes))
    rows = (
        (ttft * near[0]).astype(np.int64),
        (tpot * near[1]).astype(np.int64),
        rng.choice([20, 200, 10**6], classes),
    )
    if rng.random() < 0.3:
        return Deadlines(*rows)
    whole = np.median((r.finish_ps - case.arrival)[done]) if done.any() else 1
    gap = np.median(r.gaps.longest_ps()[done]) if done.any() else 1
    edges = np.sort(rng.choice(np.arange(1, 60), (classes, 2), replace=False), axis=1)
    limits = (ttft * near[0][:, None] * rng.choice([0.5, 1], (classes, 3))).astype(np.int64)
    return Deadlines(
        *rows,
        None if rng.random() < 0.3 else (whole * near[2]).astype(np.int64),
        None if rng.random() < 0.3 else (gap * near[3]).astype(np.int64),
        None if rng.random() < 0.3 else tuple(zip(edges, limits, strict=True)),
    )


def check(summary, case: Case, deadlines: Deadlines, kinds: np.ndarray) -> None:
    """Every count and sum again, from the records of an array run."""
    r = solve(case)
    done = ~case.rejected
    ttft, decode = r.first_token_ps - case.arrival, r.finish_ps - r.first_token_ps
    steps = case.output.astype(np.int64) - 1
    due_ttft = deadlines.ttft_ps[kinds].copy()
    for i, kind in enumerate(kinds):
        edges, limits = deadlines.by_prompt[kind] if deadlines.by_prompt else ((), ())
        within = [t for edge, t in zip(edges, limits, strict=False) if case.prompt[i] <= edge]
        due_ttft[i] = within[0] if within else due_ttft[i]
    late_ttft = ttft > due_ttft
    late_other = np.zeros(len(kinds), bool)
    if deadlines.e2e_ps is not None:
        late_other |= ttft + decode > deadlines.e2e_ps[kinds]
    if deadlines.max_itl_ps is not None:
        late_other |= r.gaps.longest_ps() > deadlines.max_itl_ps[kinds]
    late_tpot = decode > deadlines.tpot_ps[kinds] * steps
    too_long = case.prompt.astype(np.int64) + case.output > deadlines.context_tokens[kinds]
    outcome = np.select(
        [too_long, late_ttft & late_tpot, late_tpot, late_ttft, late_other],
        ["too_long", "late_both", "late_tpot", "late_ttft", "late_other"],
        "compliant",
    )
    columns = dict(zip(STAGES, (*r.stages, r.decode_stall_ps, r.preempted_ps), strict=True))
    for kind, found in enumerate(summary.classes):
        mine = kinds == kind
        assert found.offered == mine.sum()
        assert found.rejected == (mine & ~done).sum()
        assert found.output_tokens == case.output[mine & done].sum()
        assert found.preemptions == r.preemptions[mine & done].sum()
        for name, count in found.outcomes.items():
            these = mine & done & (outcome == name)
            assert count == these.sum()
            assert found.stages_ps[name] == {s: c[these].sum() for s, c in columns.items()}
        check_histogram(found.ttft, ttft[mine & done])
        many = mine & done & (steps > 0)
        check_histogram(found.tpot, decode[many] // steps[many])
    assert summary.steps == r.steps
    assert summary.events == r.events
    assert summary.busy_ps == r.busy_ps
    assert summary.peak_kv_blocks == r.peak_kv_blocks
    assert summary.last_arrival_ps == case.arrival[-1]
    assert summary.last_finish_ps == max(r.finish_ps.max(), 0)
    check_backlog(summary, case, r)


def check_histogram(histogram, values: np.ndarray) -> None:
    assert histogram.total == values.size
    for share in (0.01, 0.5, 0.99) if values.size else ():
        rank = max(1, int(np.ceil(share * values.size)))
        exact = float(np.sort(values)[rank - 1])
        assert abs(histogram.quantile_ps(share) - exact) <= RELATIVE_ERROR * exact


def check_backlog(summary, case: Case, r) -> None:
    """Who had come before request i and had not been scheduled before its time, or had lost it."""
    if r.preemptions.max(initial=0) > 0:
        return
    sampled = range(0, len(case.arrival), summary.backlog_stride)
    waiting = []
    for i in sampled:
        before = np.arange(len(case.arrival)) < i
        waits = before & (r.first_scheduled_ps >= case.arrival[i])
        waiting.append(int(waits.sum()))
    assert summary.backlog.tolist() == waiting


@settings(max_examples=200, deadline=None)
@given(pools(), st.data())
def test_a_stream_counts_what_an_array_run_records(case: Case, data: st.DataObject) -> None:
    n = len(case.arrival)
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=3)))
    kinds = rng.integers(0, 2, n).astype(np.int32)
    deadlines = deadlines_of(rng, case, 2)
    for native in NATIVE:
        check(stream_of(case, deadlines, kinds, cuts, native), case, deadlines, kinds)


def test_long_streams_count_what_array_runs_record() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        case = random_case(rng, most=3000 if seed % 10 == 0 else 300)
        n = len(case.arrival)
        kinds = rng.integers(0, 3, n).astype(np.int32)
        deadlines = deadlines_of(rng, case, 3)
        cuts = sorted(rng.integers(0, n, 4).tolist())
        for native in NATIVE:
            check(stream_of(case, deadlines, kinds, cuts, native), case, deadlines, kinds)


@natives
def test_time_goes_on_past_what_64_bits_hold(native: bool) -> None:
    """Requests alone, 30 days apart, for more than ten times 106 days: each as the first one."""
    law = Law(1000 + np.arange(65), context_ps=2)
    day = 86_400 * 10**12
    deadlines = Deadlines(*(np.array([x]) for x in (1040, 10**6, 100)))
    stream = Stream(law, Limits(8, 64, 100), deadlines, native=native)
    for _ in range(40):
        stream.push(np.array([30 * day]), *(np.array([x], np.int32) for x in (40, 9, 0)))
    stream.drain()
    s = stream.summary()
    decodes = 8 * 1001 + 2 * sum(range(41, 49))
    assert s.classes[0].outcomes["compliant"] == 40
    assert s.last_arrival_ps == 40 * 30 * day > 2**63
    assert s.last_finish_ps == s.last_arrival_ps + 1040 + decodes
    assert s.busy_ps == 40 * (1040 + decodes)
    expected = dict.fromkeys(STAGES, 0) | {"prefill_own": 40 * 1040, "decode_solo": 40 * decodes}
    assert s.classes[0].stages_ps["compliant"] == expected


@natives
def test_sums_go_on_past_what_64_bits_hold(native: bool) -> None:
    """2000 at once on one seat, 2**45 ps each: they wait 2**45 * 2000 * 1999 / 2 in all."""
    law, n = Law(np.full(9, 2**45)), 2000
    deadlines = Deadlines(*(np.array([1]) for _ in range(3)))
    stream = Stream(law, Limits(1, 8, 9), deadlines, native=native)
    ones = np.ones(n, np.int32)
    stream.push(np.zeros(n, np.int64), ones, ones, np.zeros(n, np.int32))
    stream.drain()
    (only,) = stream.summary().classes
    assert only.stages_ps["too_long"]["queue"] == 2**45 * (n * (n - 1) // 2) > 2**63


@natives
def test_a_request_that_stays_for_more_than_53_days_is_refused_not_wrapped(native: bool) -> None:
    """One seat, steps of 2**60 ps; five requests at once: the last would stay for 5 * 2**60."""
    for requests in (4, 5):
        ones, zeros = np.ones(requests, np.int32), np.zeros(requests, np.int32)
        deadlines = Deadlines(*(np.array([1]) for _ in range(3)))
        stream = Stream(Law(np.full(9, 2**60 - 1)), Limits(1, 8, 9), deadlines, native=native)
        stream.push(np.zeros(requests, np.int64), ones, ones, zeros)
        if requests == 4:
            stream.drain()
            assert stream.summary().last_finish_ps == 4 * (2**60 - 1)
        else:
            with pytest.raises(OverflowError, match="53 days"):
                stream.drain()


def test_a_stay_of_53_days_is_noticed_across_chunks_too() -> None:
    """The second request waits behind one step of 2**61 ps while chunks shift the zero."""
    ones, zeros = np.ones(3, np.int32), np.zeros(3, np.int32)
    deadlines = Deadlines(*(np.array([1]) for _ in range(3)))
    for native in NATIVE:
        stream = Stream(Law(np.full(9, 2**61)), Limits(1, 8, 9), deadlines, native=native)

        def push_all(stream: Stream = stream) -> None:
            for _ in range(9):
                stream.push(np.array([0, 0, 2**60]), ones, ones, zeros)

        with pytest.raises(OverflowError, match="53 days"):
            push_all()


def test_bins_are_narrow_and_in_order() -> None:
    values = sorted({2**k + d for k in range(62) for d in (-1, 0, 1)} | set(range(5000)))
    bins = [bin_of(v) for v in values]
    assert bins == sorted(bins)
    assert [bin_of(v) for v in range(128)] == list(range(128))
    for value in values[200:]:
        halvings = value.bit_length() - 7
        low = value >> halvings << halvings
        assert bin_of(low) == bin_of(value) == bin_of(low + (1 << halvings) - 1)
        assert bin_of(low - 1) == bin_of(value) - 1


@natives
def test_overload_makes_the_backlog_grow_and_light_load_does_not(native: bool) -> None:
    """One seat of 1000 ps: arrivals every 900 ps pile up, every 1100 ps they do not."""
    law, n = Law(np.full(9, 1000, np.int64)), 4000
    ones = np.ones(n, np.int32)
    for gap, grows in ((900, True), (1100, False)):
        stream = Stream(
            law, Limits(1, 8, 9), Deadlines(*(np.array([9]) for _ in range(3))), native=native
        )
        stream.push(gap * np.arange(n), ones, ones, 0 * ones)
        stream.drain()
        assert stream.summary().backlog_grows is grows


@pytest.mark.parametrize(("change", "message"), [
    ({"classes": np.array([2, 0], np.int32)}, "classes"),
    ({"classes": np.array([-1, 0], np.int32)}, "classes"),
    ({"classes": np.array([0, 0])}, "classes"),
    ({"arrival_ps": np.array([-1, 0])}, "negative"),
    ({"output_tokens": np.array([0, 1], np.int32)}, "output_tokens"),
])  # fmt: skip
def test_a_stream_refuses(change: dict, message: str) -> None:
    good = {
        "arrival_ps": np.zeros(2, np.int64),
        "prompt_tokens": np.ones(2, np.int32),
        "output_tokens": np.ones(2, np.int32),
        "classes": np.zeros(2, np.int32),
    }
    two = Deadlines(*(np.array([9, 9]) for _ in range(3)))
    stream = Stream(Law(np.ones(9, np.int64)), Limits(1, 8, 9), two)
    with pytest.raises(ValueError, match=message):
        stream.push(**(good | change))
    stream.push(**good)
    stream.drain()
    with pytest.raises(ValueError, match="drained"):
        stream.push(**good)
    assert [c.offered for c in stream.summary().classes] == [2, 0]


@pytest.mark.parametrize("deadlines", [
    Deadlines(np.array([1]), np.array([1, 2]), np.array([1])),
    Deadlines(np.array([-1]), np.array([1]), np.array([1])),
    Deadlines(*(np.zeros(0, np.int64) for _ in range(3))),
])  # fmt: skip
def test_a_stream_needs_one_deadline_of_each_kind_per_class(deadlines: Deadlines) -> None:
    with pytest.raises(ValueError, match="deadlines"):
        Stream(Law(np.ones(9, np.int64)), Limits(1, 8, 9), deadlines)


def test_two_streams_in_two_threads_count_as_one_after_the_other() -> None:
    case = random_case(np.random.default_rng(2), most=300)
    kinds = np.zeros(len(case.arrival), np.int32)
    deadlines = deadlines_of(np.random.default_rng(2), case, 1)
    found: list = []

    def one() -> None:
        found.append(stream_of(case, deadlines, kinds, [5], NATIVE[0]))

    threads = [Thread(target=one) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for summary in found:
        check(summary, case, deadlines, kinds)
