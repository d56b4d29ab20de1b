"""The event-skipping kernel equals the step-wise engine, to the tick, wherever it applies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.kernels import Law, Limits, simulate_pool
from planner.kernels.stepwise import (
    Colocated,
    EngineOptions,
    Job,
    RouterOptions,
    StepLaw,
    simulate,
)
from tests.pools import ROUTERS


@st.composite
def pools(draw):
    budget = draw(st.integers(4, 64))
    uneven = draw(st.booleans())  # else steps of 1,000 each, which end as others arrive
    steps = draw(st.lists(st.integers(0, 300 * uneven), min_size=budget, max_size=budget))
    coefficient = st.integers(0, 50 * uneven)
    law = Law(
        np.concatenate([[0], 1000 + np.cumsum(steps)]).astype(np.int64),
        draw(st.integers(0, 2**16 * uneven)),
        *(draw(coefficient) for _ in range(3)),
    )
    block_size = draw(st.sampled_from([1, 4, 16]))
    limits = Limits(
        max_num_seqs=draw(st.integers(1, budget)),
        max_num_batched_tokens=budget,
        kv_blocks=draw(st.integers(90, 300)) // block_size + 1,
        block_size=block_size,
        reserve_full_prompt=draw(st.booleans()),
        watermark_blocks=draw(st.sampled_from([0, 0, 1, 3])),
    )
    gaps = st.sampled_from([0, 0, 1, 700, 5000, 100_000] if uneven else [0, 1000, 3000])
    rows = draw(st.lists(st.tuples(gaps, st.integers(1, 60), st.integers(1, 60)), min_size=1))
    gap, prompt, output = (np.array(column) for column in zip(*rows, strict=True))
    traffic = (np.cumsum(gap).astype(np.int64), prompt.astype(np.int32), output.astype(np.int32))
    return law, limits, traffic, draw(st.integers(1, 3))


@pytest.mark.parametrize("router", ROUTERS)
@settings(max_examples=200, deadline=None)
@given(pool=pools())
def test_the_fast_kernel_equals_the_step_wise_engine(router, pool):
    law, limits, traffic, replicas = pool
    fast = simulate_pool(law, limits, *traffic, replicas=replicas, router=router, gaps=True)
    engine = EngineOptions(
        limits.max_num_seqs,
        limits.max_num_batched_tokens,
        block_size=limits.block_size,
        usable_blocks=limits.kv_blocks,
        reserve_full_isl=limits.reserve_full_prompt,
        watermark_blocks=limits.watermark_blocks,
    )
    step_law = StepLaw(
        tuple(enumerate(law.tokens_ps.tolist())),
        c_x=law.square_ps_2p15,
        shift=16,
        c_k=law.context_ps,
        c_n=law.sequence_ps,
        c_c=law.chunk_context_ps,
    )
    jobs = [Job(*map(int, row)) for row in zip(*traffic, strict=True)]
    setup = Colocated(engine, step_law, replicas, RouterOptions(router))
    slow = simulate(jobs, setup, stages=True)
    assert sum(slow.n_steps) == fast.steps
    for i, record in enumerate(slow.records):
        if record.fate == "rejected":
            assert fast.finish_ps[i] == -1
            continue
        assert record.first_scheduled == fast.first_scheduled_ps[i]
        assert record.first_token == fast.first_token_ps[i]
        assert record.finish == fast.finish_ps[i]
        assert record.preemptions == fast.preemptions[i]
        assert record.replica == fast.replica[i]
        assert record.stages.decode_interference == fast.decode_stall_ps[i]
        assert record.stages.preemption == fast.preempted_ps[i]
        assert record.max_token_gap == fast.gaps.longest_ps()[i]
