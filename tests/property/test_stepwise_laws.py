"""Laws of the step-wise engine, on random traffic under every option."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from unittest.mock import patch

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.kernels.stepwise import (
    Colocated,
    Disaggregated,
    EngineOptions,
    Job,
    LinkOptions,
    RouterOptions,
    StepLaw,
    affine,
    simulate,
)
from planner.kernels.stepwise.blocks import UNLIMITED, CachingPool
from planner.kernels.stepwise.engine import Engine

MAX_STEPS = 20_000
MANY = settings(max_examples=100, deadline=None)

small = st.integers(0, 40)
laws = st.one_of(
    st.builds(affine, st.integers(1, 50), small, small, small),
    st.builds(
        StepLaw,
        st.just(((1, 500), (8, 700), (64, 3000))),
        *[small] * 4,
        shift=st.integers(0, 4),
    ),
)


@st.composite
def engines(draw, kinds=("v1", "v1", "v1", "v0", "sarathi"), pp_degrees=(1, 1, 1, 2, 3)):
    kind = draw(st.sampled_from(kinds))
    v1 = kind == "v1"
    block_size = draw(st.integers(1, 8))
    kv_tokens = draw(st.sampled_from([None, 30, 45, 60, 60, 80, 120]))
    return EngineOptions(
        max_num_seqs=draw(st.integers(1, 6)),
        max_num_batched_tokens=draw(st.integers(4, 40)),
        kind=kind,
        block_size=block_size,
        usable_blocks=None if kv_tokens is None else max(1, kv_tokens // block_size),
        enable_chunked_prefill=draw(st.sampled_from([True, True, True, False])),
        long_prefill_token_threshold=draw(st.sampled_from([0, 0, 3, 9])),
        reserve_full_isl=draw(st.booleans()),
        watermark_blocks=draw(st.sampled_from([0, 0, 1, 3])),
        policy=draw(st.sampled_from(["fcfs", "fcfs", "priority", "deadline"])),
        prefix_caching=v1 and draw(st.booleans()),
        async_scheduling=v1 and draw(st.booleans()),
        pp_degree=draw(st.sampled_from(pp_degrees)) if v1 else 1,
    )


@st.composite
def traffic(draw, longest=30):
    jobs = []
    arrival = 0
    for _ in range(draw(st.integers(1, 12))):
        arrival += draw(st.sampled_from([0, 0, 3, 50, 400, 3000]))
        output = draw(st.integers(1, longest))
        jobs.append(
            Job(
                arrival,
                prompt=draw(st.integers(1, longest)),
                output=output,
                max_tokens=draw(st.sampled_from([None, output + 5])),
                priority=draw(st.integers(0, 2)),
                deadline=draw(st.sampled_from([None, None, arrival + 600])),
                prefix=draw(st.sampled_from([(), ("a", "b"), ("a", "b", "c"), ("x",)])),
                group=draw(st.integers(0, 1)),
            )
        )
    return jobs


@st.composite
def fleets(draw):
    routes = [RouterOptions(r) for r in ("round_robin", "least_outstanding", "least_kv")]
    routes += [
        RouterOptions("prefix_affinity"),
        RouterOptions("by_length", (10,), ((0,), (1, 0))),
        RouterOptions("by_class", groups=((1,), (0,))),
    ]
    router = st.sampled_from(routes)
    if draw(st.booleans()):
        engine = draw(engines())
        lock_step = engine.depth == 1 and draw(st.booleans())
        return Colocated(engine, draw(laws), 2, draw(router), lock_step)
    return Disaggregated(
        draw(engines()),
        draw(laws),
        draw(engines(("v1",))),
        draw(laws),
        LinkOptions(
            draw(small),
            draw(small),
            draw(st.sampled_from(["fifo", "fair"])),
            draw(st.sampled_from([1, 2, 3])),
        ),
        n_prefill=2,
        n_decode=2,
        mode=draw(st.sampled_from(["nixl_pull", "distserve_push"])),
        hop=draw(st.sampled_from([0, 7])),
        prefill_router=draw(router),
        decode_router=draw(router),
        groups=draw(st.sampled_from([1, 2])),
    )


def run(jobs, fleet):
    return simulate(jobs, fleet, keep_steps=True, max_steps=MAX_STEPS)


def plain(outcome):
    """Everything that a simulation told, as comparable values."""
    steps = [
        [
            (
                s.scheduled_at,
                *(s.start, s.end, s.preempted),
                *((i.request.rank, i.new, i.before, i.decode, i.samples) for i in s.items),
            )
            for s in engine
        ]
        for engine in outcome.steps
    ]
    return (outcome.records, steps, outcome.n_steps, outcome.makespan)


@contextmanager
def watched(check):
    """Call ``check(engine)`` after every schedule and every completion; yield the engines."""
    seen: dict[int, Engine] = {}
    schedule, complete, release = Engine.schedule, Engine.complete, Engine.release

    def then_check(method):
        def wrapped(self, *args):
            seen[id(self)] = self
            result = method(self, *args)
            check(self)
            return result

        return wrapped

    with (
        patch.object(Engine, "schedule", then_check(schedule)),
        patch.object(Engine, "complete", then_check(complete)),
        patch.object(Engine, "release", then_check(release)),
    ):
        yield seen


@MANY
@given(traffic(), fleets())
def test_every_request_is_finished_or_refused_and_gets_each_token_once(jobs, fleet):
    outcome = run(jobs, fleet)
    for job, record in zip(jobs, outcome.records, strict=True):
        assert record.fate in ("finished", "rejected", "failed")
        assert (len(record.token_times) == job.output) == (record.fate == "finished")
        if record.fate == "rejected":
            assert record.token_times == []
    assert outcome.makespan == max((r.finish for r in outcome.records), default=0)


@MANY
@given(traffic(), fleets())
def test_nothing_happens_before_its_cause(jobs, fleet):
    outcome = run(jobs, fleet)
    split = isinstance(fleet, Disaggregated)
    for job, record in zip(jobs, outcome.records, strict=True):
        if record.fate != "finished":
            continue
        times = [job.arrival, record.first_scheduled]
        if split and record.kv_start >= 0:
            pull = fleet.mode == "nixl_pull"
            assert record.prefill_done > record.first_scheduled
            reached = [record.decode_arrival] if pull else []
            reached += [record.kv_start, record.kv_end]
            reached += [] if pull else [record.decode_arrival]
            times += [record.prefill_done, *reached, record.decode_first_scheduled]
            assert times == sorted(times)
            times = times if pull else times[:3]
        times += record.token_times
        assert times == sorted(times)
        assert (record.first_token, record.finish) == (times[-job.output], times[-1])
    for steps in outcome.steps:
        for step in steps:
            assert step.scheduled_at <= step.start <= step.end
            assert all(jobs[i.request.rank].arrival <= step.scheduled_at for i in step.items)


@MANY
@given(traffic(), fleets())
def test_kv_blocks_are_never_negative_overbooked_or_leaked(jobs, fleet):
    def check(engine):
        state = engine.state
        assert 0 <= state.pool.free <= state.pool.usable
        if isinstance(state.pool, CachingPool):
            unused = state.pool.usable - state.pool._fresh
            assert state.pool.free == unused + len(state.pool._idle)
            users = Counter(b for r in state.running + state.parked for b in r.block_ids)
            assert all(state.pool._users[block] >= n for block, n in users.items())
        else:
            held = sum(r.blocks for r in state.running + state.parked)
            assert held <= state.pool.held
        for request in state.running:
            assert request.blocks >= state.pool.blocks_of(request.computed)

    with watched(check) as seen:
        outcome = run(jobs, fleet)
    assert all(engine.state.pool.held == 0 for engine in seen.values())
    assert all(engine.outstanding == 0 for engine in seen.values())
    assert {r.fate for r in outcome.records} <= {"finished", "rejected", "failed"}


@MANY
@given(traffic(), fleets())
def test_steps_keep_to_budget_slots_and_stages(jobs, fleet):
    outcome = run(jobs, fleet)
    for k, steps in enumerate(outcome.steps):
        if isinstance(fleet, Colocated):
            engine = fleet.engine
        else:
            engine = fleet.prefill if k < fleet.groups * fleet.n_prefill else fleet.decode
        for step in steps:
            prompts = [item.new for item in step.items if not item.decode]
            decodes = len(step.items) - len(prompts)
            within = sum(prompts) if engine.kind != "v1" else sum(prompts) + decodes
            assert within <= engine.max_num_batched_tokens
            assert len(step.items) <= engine.max_num_seqs
            assert len({item.request.rank for item in step.items}) == len(step.items)
            if engine.kind == "v0":
                assert not (prompts and decodes)
        for before, after in pairwise(steps):
            assert before.scheduled_at <= after.scheduled_at
            assert before.end <= after.end
            if engine.pp_degree == 1:
                assert before.end <= after.start
        for late, later in zip(steps, steps[engine.depth :], strict=False):
            assert late.end <= later.scheduled_at


@MANY
@given(traffic(), engines(), laws)
def test_first_come_is_first_scheduled(jobs, engine, law):
    engine = replace(engine, policy="fcfs")
    records = run(jobs, Colocated(engine, law)).records
    starts = [record.first_scheduled for record in records if record.first_scheduled >= 0]
    assert starts == sorted(starts)


@MANY
@given(traffic(), fleets())
def test_the_same_input_gives_the_same_output(jobs, fleet):
    assert plain(run(jobs, fleet)) == plain(run(jobs, fleet))


@MANY
@given(traffic(), fleets(), st.data())
def test_a_longer_output_changes_nothing_before_the_shorter_one_would_have_ended(jobs, fleet, data):
    """The scheduler must not read the true output length: only the declared limit."""
    limit = max(job.output for job in jobs) + 10
    jobs = [replace(job, max_tokens=limit) for job in jobs]
    who = data.draw(st.integers(0, len(jobs) - 1))
    assume(isinstance(fleet, Colocated) or fleet.mode == "nixl_pull" or jobs[who].output > 1)
    longer = list(jobs)
    longer[who] = replace(jobs[who], output=jobs[who].output + data.draw(st.integers(1, 10)))
    one, other = run(jobs, fleet), run(longer, fleet)
    end = one.records[who].finish
    if end < 0:
        assert plain(one) == plain(other)
        return

    def until_end(outcome):
        return [[s for s in engine if s[0] < end] for engine in plain(outcome)[1]]

    assert until_end(one) == until_end(other)


@MANY
@given(traffic(), fleets(), st.integers(1, 10**12))
def test_later_traffic_is_served_later_and_not_otherwise(jobs, fleet, shift):
    later = [
        replace(
            job,
            arrival=job.arrival + shift,
            deadline=None if job.deadline is None else job.deadline + shift,
        )
        for job in jobs
    ]
    one, other = run(jobs, fleet), run(later, fleet)
    assert one.n_steps == other.n_steps
    for left, right in zip(one.records, other.records, strict=True):
        assert [t + shift for t in left.token_times] == right.token_times
        assert (left.fate, left.preemptions, left.cached_tokens) == (
            right.fate,
            right.preemptions,
            right.cached_tokens,
        )


@MANY
@given(traffic(), fleets())
def test_other_names_for_the_same_prefixes_change_nothing(jobs, fleet):
    renamed = [replace(job, prefix=tuple(("new", name) for name in job.prefix)) for job in jobs]
    assert plain(run(jobs, fleet)) == plain(run(renamed, fleet))


@MANY
@given(traffic(), engines(pp_degrees=(1,)), laws)
def test_an_engine_rests_only_when_nobody_is_there(jobs, engine, law):
    """Work conservation of one engine: between two steps apart, no request is in the system."""
    assume(engine.policy != "deadline")
    outcome = run(jobs, Colocated(engine, law))
    steps = outcome.steps[0]
    for before, after in pairwise(steps):
        if after.start > before.end:
            for job, record in zip(jobs, outcome.records, strict=True):
                gone = record.fate == "rejected" or 0 <= record.finish <= before.end
                failed = record.fate == "failed"
                assert gone or failed or job.arrival >= after.start


@MANY
@given(st.integers(1, 60), st.integers(1, 30), st.integers(1, 20), laws)
def test_a_lone_request_takes_the_sum_of_its_steps(prompt, output, budget, law):
    """Closed form: chunks of the budget, then one decode per token against its context."""
    from planner.kernels.stepwise import StepWork

    engine = EngineOptions(4, budget, usable_blocks=None)
    end = law.alone(prompt, budget)
    expected = [end]
    for context in range(prompt, prompt + output - 1):
        work = StepWork()
        work.add_decode(context)
        end += law.ticks(work)
        expected.append(end)
    assert run([Job(0, prompt, output)], Colocated(engine, law)).records[0].token_times == expected


@MANY
@given(traffic(), engines(("v1",), (1,)), laws)
def test_unused_features_cost_nothing(jobs, engine, law):
    """Two routes to one result: caching without a common prefix or pressure, and counting."""
    jobs = [replace(job, prefix=()) for job in jobs]
    engine = replace(engine, usable_blocks=None)
    caching = run(jobs, Colocated(replace(engine, prefix_caching=True), law))
    counting = run(jobs, Colocated(replace(engine, prefix_caching=False), law))
    assert plain(caching) == plain(counting)
    roomy = run(jobs, Colocated(replace(engine, usable_blocks=10**6, watermark_blocks=0), law))
    assert plain(roomy) == plain(counting)
    assert UNLIMITED > 10**6
