"""The fleet simulator against the step-wise engine, and its skipping against its stepping."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from planner.kernels.engine import COMPILED, FATES, Traffic, plain, simulate_fleet
from planner.kernels.stepwise import (
    Colocated,
    Disaggregated,
    EngineOptions,
    LinkOptions,
    RouterOptions,
    StepLaw,
)
from tests.fleets import Case, Draw, compare, differences, random_case, random_router

BATCHES, SIZE = 10, 70
REGRESSIONS = (1316, 1857, 1914, 2669, 3106)
"""The head lost its cached prefix inside of a window, and no uncut step could hold the rest."""


@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_field_is_that_of_the_stepwise_engine(batch: int) -> None:
    assert [line for k in range(SIZE) for line in compare(batch * SIZE + k)] == []


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_cases_that_once_differed(seed: int) -> None:
    assert compare(seed) == []


def lognormal(rng: np.random.Generator, mean: float, n: int) -> np.ndarray:
    draw = rng.lognormal(np.log(mean) - 0.4, 0.9, n)
    return np.rint(draw).clip(1, 20_000).astype(np.int32)


def long_case(seed: int, n: int) -> Case:
    """Lengths, times and limits of the order that real fleets have."""
    draw = Draw(np.random.default_rng(seed))
    rng = draw.rng
    prompt_mean, output_mean = draw.of((1155, 211), (300, 600), (2000, 30))
    law = StepLaw(
        ((0, 6 * 10**9), (512, 18 * 10**9), (8192, 200 * 10**9)),
        c_x=33_000_000,
        c_k=draw.of(49_000, 49_123),
        c_n=draw.of(0, 777),
        shift=16,
    )

    def engine() -> EngineOptions:
        return EngineOptions(
            max_num_seqs=draw.of(8, 64, 256),
            max_num_batched_tokens=draw.of(512, 2048, 8192),
            usable_blocks=draw.of(3000, 6000, 25_700, None),
            block_size=draw.of(16, 16, 32, 5),
            policy=draw.of("fcfs", "priority", "deadline"),
            prefix_caching=draw.chance(0.5),
            reserve_full_isl=draw.chance(0.7),
            watermark_blocks=draw.of(0, 100),
            long_prefill_token_threshold=draw.of(0, 300),
            enable_chunked_prefill=draw.chance(0.8),
            async_scheduling=draw.chance(0.4),
        )

    if draw.chance(0.5):
        replicas = draw(1, 4)
        setup = Colocated(engine(), law, replicas, random_router(draw, replicas))
    else:
        prefill, replicas = draw(1, 3), draw(1, 4)
        per_token, sharing = draw.of(0, 10**4, 6 * 10**5), draw.of("fifo", "fair")
        link = LinkOptions(per_token, 10**9, sharing, draw.of(1, 1, 2, 5))
        setup = Disaggregated(
            *(engine(), law, engine(), law, link, prefill, replicas),
            mode=draw.of("nixl_pull", "distserve_push"),
            hop=draw.of(0, 2 * 10**9),
            prefill_router=random_router(draw, prefill),
            decode_router=random_router(draw, replicas),
            groups=draw.of(1, 2, 3),
        )
    rate = draw.of(1, 5, 20, 60) * replicas
    arrival = np.cumsum(rng.exponential(1e12 / rate, n)).astype(np.int64)
    blocks = draw.of(0, 4, 60)
    system = rng.integers(0, draw.of(1, 5, 50), n)
    traffic = Traffic(
        arrival,
        lognormal(rng, prompt_mean, n),
        lognormal(rng, output_mean, n),
        priority=rng.integers(0, 3, n).astype(np.int32),
        group=rng.integers(0, 3, n).astype(np.int32),
        deadline=arrival + rng.integers(10**11, 2 * 10**13, n),
        prefix_start=np.arange(n + 1, dtype=np.int64) * blocks,
        prefix_name=(system[:, None] * blocks + np.arange(blocks)).astype(np.int32).reshape(-1),
    )
    return Case(traffic, setup)


@pytest.mark.parametrize("seed", range(30) if COMPILED else range(2))
def test_skipping_steps_changes_nothing_at_the_scale_of_real_fleets(seed: int) -> None:
    """A traced run takes every step on its own; so does plain Python, which is slow."""
    traffic, setup = long_case(seed, 400 if COMPILED else 40)
    stepped = simulate_fleet(traffic, setup, token_times=True, keep_steps=True)
    skipped = simulate_fleet(traffic, setup, token_times=True)
    assert differences(stepped._replace(steps=None), skipped) == []


@pytest.mark.parametrize("seed", range(30) if COMPILED else range(2))
def test_each_request_ends_once_and_in_order(seed: int) -> None:
    traffic, setup = long_case(1000 + seed, 3000 if COMPILED else 40)
    r = simulate_fleet(traffic, setup, token_times=True)
    finished = r.fate == FATES.index("finished")
    assert ((r.tokens == traffic.output) == finished).all()
    assert (r.fate != FATES.index("unfinished")).all()
    assert (r.finish >= 0).tolist() == finished.tolist()
    steps = [traffic.arrival, r.first_scheduled]
    if isinstance(setup, Disaggregated):
        assert r.prefill_done is not None
        steps.append(r.prefill_done)
    steps += [r.first_token, r.finish]
    for before, after in pairwise(steps):
        assert (before[finished] <= after[finished]).all()
    assert r.token_times is not None
    last = np.cumsum(traffic.output, dtype=np.int64) - 1
    first = last + 1 - traffic.output
    assert (r.token_times[last[finished]] == r.finish[finished]).all()
    assert (r.token_times[first[finished]] == r.first_token[finished]).all()
    gaps = np.diff(r.token_times)
    for a, b, longest in zip(
        first[finished], last[finished], r.max_token_gap[finished], strict=True
    ):
        assert gaps[a:b].max(initial=0) == longest


def test_routers_see_the_instant_though_steps_are_skipped() -> None:
    """``least_kv`` looks at blocks that long windows take one by one."""
    for seed in range(20):
        traffic, setup = random_case(seed)
        if isinstance(setup, Colocated):
            for route in ("least_kv", "prefix_affinity"):
                routed = setup.__class__(setup.engine, setup.law, 3, RouterOptions(route))
                stepwise = plain.run(
                    traffic, routed, token_times=False, keep_steps=False, max_steps=100_000
                )
                assert differences(stepwise, simulate_fleet(traffic, routed)) == []
