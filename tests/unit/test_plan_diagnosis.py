"""What stands behind a pool's misses, who slows whom, and what was served in vain; by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.attribution.interference import harm
from planner.attribution.plan_diagnosis import diagnose_pool
from planner.attribution.traced import TracedRun, no_deadline
from planner.attribution.waste import waste_of
from planner.kernels.engine import Traffic, simulate_fleet
from planner.kernels.stepwise import Colocated, EngineOptions, affine

ENGINE = EngineOptions(8, 100, block_size=2)
LAW = affine(10, 1)


def run_of(arrival, prompt, output, *, workload, engine=ENGINE, ttft=2**62) -> TracedRun:
    """A tick is a second; a step takes 10 and 1 for each token."""
    traffic = Traffic(
        np.array(arrival, np.int64), np.array(prompt, np.int32), np.array(output, np.int32)
    )
    setup, n = Colocated(engine, LAW), len(arrival)
    return TracedRun(
        "pool",
        1.0,
        traffic,
        setup,
        simulate_fleet(traffic, setup, stages=True, keep_steps=True),
        ("chat", "batch"),
        np.array(workload, np.int32),
        ("m", "m"),
        np.full(n, ttft),
        no_deadline(n),
        no_deadline(n),
        no_deadline(n),
        np.arange(n),
        accelerators=4,
        usd_per_hour=10.0,
    )


def test_who_slows_whom():
    """Chat (4, 3) at 0 and a batch prompt (2, 2) at 5: steps 0..14, 14..27 with the prompt,
    27..39 with its decode. The prompt adds 2 to chat's step, its decode 1 to the next; chat's
    decodes add 1 to the prefill and 1 to the decode of batch."""
    run = run_of([0, 5], [4, 2], [3, 2], workload=[0, 1])
    table = harm(run)
    assert table["decode_interference"].tolist() == [[0, 2], [0, 0]]
    assert table["decode_batch"].tolist() == [[0, 1], [1, 0]]
    assert table["prefill_interference"].tolist() == [[0, 0], [1, 0]]


def test_what_is_added_is_shared_by_the_tokens_of_those_who_add_it():
    """A decode of chat in a step with chunks of 6 (chat) and 2 (batch): 8 s, in shares of 6 : 2."""
    run = run_of([0, 5, 5], [4, 6, 2], [2, 1, 1], workload=[0, 0, 1])
    assert harm(run)["decode_interference"].tolist() == [[6, 2], [0, 0]]


def test_served_in_vain_and_served_twice():
    """B loses its blocks at 28 and computes 5 tokens again: all steps 0..65 are busy.

    Of the step that recomputes, 15 s of prompt 3 and outputs 2, all tokens had been computed but
    the last of them.
    """
    engine = replace(ENGINE, usable_blocks=4)
    run = run_of([0, 0], [3, 3], [4, 3], workload=[0, 1], engine=engine, ttft=2**62)
    waste = waste_of(run)
    assert (waste.busy, waste.in_vain) == (1.0, 0.0)
    steps = run.records.steps[0]
    again = next(step for step in steps if any(i[0] == 1 and i[1] > 1 for i in step.items[:1]))
    assert again.items == ((1, 5, 0, False, True),)
    assert again.end - again.start == 15
    assert waste.twice == pytest.approx(15 * 4 / 5 / 65)
    late = run_of([0, 0], [3, 3], [4, 3], workload=[0, 1], engine=engine, ttft=0)
    assert waste_of(late).in_vain == pytest.approx(1.0)
    found = diagnose_pool(late)
    assert (found.missed, found.in_vain.accelerators) == (2, pytest.approx(4.0))
    assert found.in_vain.usd_per_hour == pytest.approx(10.0)
    assert found.recomputed.usd_per_hour == pytest.approx(10 * 15 * 4 / 5 / 65)


def test_the_budget_is_of_each_workload_by_itself():
    """Batch waits 9 s for chat's step; 12 s alone and 1 of sharing make 22, due within 20."""
    run = run_of([0, 5], [4, 2], [3, 2], workload=[0, 1], ttft=20)
    found = diagnose_pool(run)
    assert [(row.workload, row.cause, row.share) for row in found.misses] == [
        ("batch", "queue", 1.0)
    ]
    assert found.missed == 1
