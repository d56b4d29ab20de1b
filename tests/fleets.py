"""Random fleets and traffic in which every option matters, and how two results are compared."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from planner.kernels.engine import (
    FleetGaps,
    FleetRecords,
    FleetStages,
    Traffic,
    plain,
    simulate_fleet,
)
from planner.kernels.engine.records import NEVER
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

ACCOUNTS = (FleetStages, FleetGaps)
Tables = FleetRecords | FleetStages | FleetGaps


class Case(NamedTuple):
    traffic: Traffic
    setup: Colocated | Disaggregated


class Draw:
    """Shorthand for a generator's choices."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def __call__(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def of(self, *choices: Any) -> Any:
        return choices[self(0, len(choices) - 1)]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)


def random_case(seed: int) -> Case:
    """A small fleet and 5 to 60 requests; the same for the same seed."""
    draw = Draw(np.random.default_rng(seed))
    longest = draw.of(12, 40, 40, 150)
    setup = random_fleet(draw, longest)
    case = Case(random_traffic(draw, longest), setup)
    return with_cached(Draw(np.random.default_rng([seed, 1])), case)


def with_cached(draw: Draw, case: Case) -> Case:
    """Let some requests bring KV with them, share stretches of names, and bound affinity."""
    traffic, setup = case
    n, prompt = len(traffic.arrival), traffic.prompt
    if draw.chance(0.5) and traffic.prefix_start is not None:
        start = traffic.prefix_start
        count = np.minimum(np.diff(start), draw.rng.integers(0, 13, n)).astype(np.int32)
        traffic = traffic._replace(prefix_start=start[:-1], prefix_count=count)
    if isinstance(setup, Disaggregated):
        return Case(traffic, setup)
    if setup.engine.kind == "v1" and draw.chance(0.4):
        cached = (draw.rng.random(n) * prompt * draw.rng.integers(0, 2, n)).astype(np.int32)
        traffic = traffic._replace(cached=cached)
    if setup.router.route == "prefix_affinity" and draw.chance(0.6):
        setup = replace(setup, router=replace(setup.router, slack=draw(0, 4)))
    return Case(traffic, setup)


def random_law(draw: Draw) -> StepLaw:
    kind = draw(0, 3)
    if kind == 0:
        return affine(draw(1, 60), draw(0, 20), draw(0, 10), draw(0, 3))
    knots = ((1, draw(50, 900)), (8, draw(500, 1500)), (64, draw(1000, 9000)))
    if kind == 1:
        return StepLaw(knots, draw(0, 3), draw(0, 9), draw(0, 40), draw(0, 9), draw(0, 4))
    if kind == 2:  # like a law in picoseconds whose attention term has digits after the point
        return StepLaw(knots, draw(0, 90_000), draw(0, 5), draw(0, 3), 0, 16)
    # steps of no length, and coefficients that fall
    return StepLaw(knots, draw(-2, 2), draw(-3, 9), draw(-9, 9), draw(-3, 3), draw(4, 11))


def random_engine(draw: Draw, longest: int, kinds: tuple[str, ...]) -> EngineOptions:
    kind = draw.of(*kinds)
    v1 = kind == "v1"
    size = draw.of(1, 2, 3, 4, 8, 16)
    tokens = draw.of(None, 2 * longest, 2 * longest + 9, 3 * longest, 5 * longest)
    seats = draw.of(1, 2, 4, 6, 10, 30)
    budget = draw.of(draw(4, 40), draw(max(seats, 4), 40 + seats), draw(longest, 4 * longest))
    return EngineOptions(
        max_num_seqs=seats,
        max_num_batched_tokens=budget,
        kind=kind,
        block_size=size,
        usable_blocks=None if tokens is None else max(1, tokens // size),
        enable_chunked_prefill=draw.chance(0.75),
        long_prefill_token_threshold=draw.of(0, 0, 0, 3, 9),
        reserve_full_isl=draw.chance(0.6),
        watermark_blocks=draw.of(0, 0, 1, 3),
        policy=draw.of("fcfs", "fcfs", "priority", "deadline"),
        prefix_caching=v1 and draw.chance(0.5),
        async_scheduling=v1 and draw.chance(0.2),
        pp_degree=draw.of(2, 3) if v1 and draw.chance(0.1) else 1,
    )


def random_router(draw: Draw, replicas: int) -> RouterOptions:
    route = draw.of(
        "round_robin",
        "least_outstanding",
        "least_kv",
        "prefix_affinity",
        "by_length",
        "by_class",
    )
    if route not in ("by_length", "by_class"):
        return RouterOptions(route)
    bands = draw(1, 3)
    edges = sorted(draw(1, 40) for _ in range(bands - 1))
    groups = [tuple(draw(0, replicas - 1) for _ in range(draw(1, 3))) for _ in range(bands)]
    return RouterOptions(route, tuple(edges) if route == "by_length" else (), tuple(groups))


def random_fleet(draw: Draw, longest: int) -> Colocated | Disaggregated:
    every = ("v1", "v1", "v1", "v1", "v0", "sarathi")
    if draw.chance(0.5):
        engine = random_engine(draw, longest, every)
        replicas = draw.of(1, 1, 2, 3)
        lock_step = engine.depth == 1 and draw.chance(0.1)
        ranks = draw.of(0, 1, 2) if lock_step else 0
        replicas *= max(ranks, 1)
        router = random_router(draw, replicas)
        return Colocated(engine, random_law(draw), replicas, router, lock_step, ranks)
    n_prefill, n_decode = draw(1, 3), draw(1, 3)
    return Disaggregated(
        prefill=random_engine(draw, longest, every),
        prefill_law=random_law(draw),
        decode=random_engine(draw, longest, ("v1",)),
        decode_law=random_law(draw),
        link=LinkOptions(draw.of(0, 1, 7, 40), draw.of(0, 0, 5, 300), draw.of("fifo", "fair")),
        n_prefill=n_prefill,
        n_decode=n_decode,
        mode=draw.of("nixl_pull", "distserve_push"),
        hop=draw.of(0, 0, 7, 500),
        prefill_router=random_router(draw, n_prefill),
        decode_router=random_router(draw, n_decode),
    )


def random_traffic(draw: Draw, longest: int) -> Traffic:
    rng, n = draw.rng, draw.of(draw(5, 15), draw(5, 60))
    gap = draw.of(0, 1, 30, 300, 3000)
    gaps = rng.integers(0, gap + 1, n) * rng.integers(0, draw.of(1, 2, 5) + 1, n)
    arrival = np.cumsum(gaps).astype(np.int64)
    output = rng.integers(1, longest + 1, n).astype(np.int32)
    if draw.chance(0.5):
        output = np.maximum(1, output // draw(1, 5))
    ticks = draw.of(20, 600, 9000)
    deadline = arrival + rng.integers(0, ticks, n)
    deadline[rng.random(n) < 0.3] = NEVER
    start, names = random_prefixes(draw, n)
    return Traffic(
        arrival=arrival,
        prompt=rng.integers(1, longest + 1, n).astype(np.int32),
        output=output,
        limit=None if draw.chance(0.5) else output + rng.integers(0, 6, n).astype(np.int32),
        priority=None if draw.chance(0.2) else rng.integers(-1, 2, n).astype(np.int32),
        group=None if draw.chance(0.2) else rng.integers(0, 4, n).astype(np.int32),
        deadline=None if draw.chance(0.2) else deadline,
        prefix_start=start,
        prefix_name=names,
    )


def random_prefixes(draw: Draw, n: int) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Paths down a small tree: what is common, is common from the first block on."""
    if draw.chance(0.2):
        return None, None
    names: dict[tuple[int, ...], int] = {}
    start, all_names = [0], []
    for _ in range(n):
        path: tuple[int, ...] = ()
        for _ in range(draw.of(0, 1, 3, 12)):
            path = (*path, int(draw.rng.random() < 0.15))
            all_names.append(names.setdefault(path, len(names)))
        start.append(len(all_names))
    return np.array(start, np.int64), np.array(all_names, np.int32)


def differences(one: Tables, other: Tables) -> list[str]:
    """Fields in which two results differ; a few words on each."""
    found = []
    for name, left, right in zip(one._fields, one, other, strict=True):
        if isinstance(left, ACCOUNTS) and isinstance(right, ACCOUNTS):
            found += [f"{name}.{line}" for line in differences(left, right)]
        elif isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
            if left.dtype != right.dtype or left.shape != right.shape:
                found.append(f"{name}: {left.dtype} {left.shape}, {right.dtype} {right.shape}")
            elif (where := np.flatnonzero(left != right)).size:
                i = where[0]
                found.append(f"{name}: {where.size} differ, first [{i}] {left[i]} {right[i]}")
        elif name == "steps" and left is not None and right is not None:
            found += [f"steps[{k}]" for k in range(len(left)) if left[k] != right[k]]
        elif left is not right and left != right:
            found.append(f"{name}: {left} {right}")
    return found


def compare(seed: int) -> list[str]:
    """Serve a random case by both simulators, in four ways; one line per difference."""
    traffic, setup = random_case(seed)
    options: dict[str, Any] = {"token_times": True, "max_steps": 100_000}
    try:
        stepwise = plain.run(traffic, setup, keep_steps=True, stages=True, **options)
    except StepLimitError:
        try:
            simulate_fleet(traffic, setup, **options)
        except StepLimitError:
            return []
        return [f"seed {seed}: only the step-wise engine takes too many steps"]
    accounted = simulate_fleet(traffic, setup, stages=True, **options)
    found = differences(stepwise._replace(steps=None), accounted)
    stepwise = stepwise._replace(stages=None, gaps=None)
    found += differences(stepwise, simulate_fleet(traffic, setup, keep_steps=True, **options))
    fast = simulate_fleet(traffic, setup, **options)
    found += differences(stepwise._replace(steps=None), fast)
    found += differences(fast._replace(token_times=None), simulate_fleet(traffic, setup))
    return [f"seed {seed}: {line}" for line in found]


if __name__ == "__main__":  # python -m tests.fleets FIRST LAST
    first, last = map(int, sys.argv[1:])
    lines = [line for seed in range(first, last) for line in compare(seed)]
    print(*lines, f"{len(lines)} differences in {last - first} cases", sep="\n")
