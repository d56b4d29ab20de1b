"""One pool that only the engine of all options can simulate.

Its replicas keep the KV of prefixes, schedule by priority, or are pipelines or lock-step ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.kernels.engine import Traffic as EngineTraffic
from planner.kernels.engine import simulate_fleet
from planner.kernels.stepwise import Colocated, EngineOptions, RouterOptions, StepLaw

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.kernels import Law, Limits, Router
    from planner.kernels.engine import FleetGaps, FleetStages
    from planner.simulation.draw import Traffic

NO_LIMIT = 2**62
"""Steps at which a simulation gives up: none."""


@dataclass(frozen=True, slots=True)
class PrefixCache:
    """How replicas keep prefixes, and whether the router looks at what they hold."""

    block_tokens: int
    """Tokens of a KV block: what is shared is shared in whole blocks."""
    affinity_slack: int | None = None
    """A request goes where the longest part of its prompt is kept, but to no replica with more
    requests than this above the fewest on any, nor than one less than a replica's seats (it would
    queue beside one that is empty); None: the pool's router does not look."""


class Replicas(NamedTuple):
    """How many replicas there are, and whom they serve when."""

    number: int
    router: Router = "round_robin"
    """How requests are shared out, if not by what replicas hold."""
    priority: tuple[int, ...] | None = None
    """Of each workload, lower first: the order in which replicas admit, and the reverse of that
    in which they preempt; None: that of coming."""
    ranks: int = 1
    """Attention data parallel: ranks of each replica, which take their steps together; the router
    sees ranks, and limits are those of one."""
    stages: int = 1
    """Pipeline stages of each replica; as many steps are under way at once."""


class Served(NamedTuple):
    """Arrays of shape ``(n,)``; ps, -1 where rejected."""

    first_scheduled_ps: NDArray[np.int64]
    first_token_ps: NDArray[np.int64]
    finish_ps: NDArray[np.int64]
    cached_tokens: NDArray[np.int32]
    """Prompt tokens found when first admitted."""
    longest_gap_ps: NDArray[np.int64]
    """Longest time between two tokens; 0 for one-token outputs."""
    busy_ps: int
    """Time in steps, summed over the replicas."""
    stages: FleetStages | None
    """If asked for."""
    gaps: FleetGaps | None
    """With them."""


def serve_with_cache(
    law: Law,
    limits: Limits,
    cache: PrefixCache | None,
    traffic: Traffic,
    replicas: Replicas,
    *,
    stages: bool = False,
) -> Served:
    """Serve requests whose prompts may begin with what a replica still holds.

    Memory is counted in the cache's blocks: of another size than the limits' there are as many
    whole ones as the same memory holds.

    Args:
        law: Time of a step.
        limits: Of each replica.
        cache: How prefixes are kept; None: they are not.
        traffic: With names of blocks of the cache's size, or tokens found by assumption.
        replicas: How many, and how requests come to them.
        stages: Keep accounts of where the time of each request goes; several times slower.
    """
    asked, setup = engine_question(law, limits, cache, traffic, replicas)
    records = simulate_fleet(asked, setup, stages=stages, max_steps=NO_LIMIT)
    count = replicas.number * replicas.ranks
    done = records.finish >= 0
    stays = [done & (records.replica == index) for index in range(count)]
    return Served(
        records.first_scheduled,
        records.first_token,
        records.finish,
        records.cached_tokens,
        records.max_token_gap,
        sum(time_with_someone(traffic.arrival_ps[own], records.finish[own]) for own in stays)
        // replicas.ranks,
        records.stages,
        records.gaps,
    )


def engine_question(
    law: Law,
    limits: Limits,
    cache: PrefixCache | None,
    traffic: Traffic,
    replicas: Replicas,
) -> tuple[EngineTraffic, Colocated]:
    """Return the requests and the replicas as the engine that knows blocks wants them.

    Arguments as :func:`serve_with_cache`.
    """
    count, router, priority, ranks, pipeline = replicas
    memory = limits.kv_blocks * limits.block_size
    kept_free = limits.watermark_blocks * limits.block_size
    prefix = None if cache is None else traffic.prefix
    block_tokens = limits.block_size if cache is None else cache.block_tokens
    engine = EngineOptions(
        limits.max_num_seqs,
        limits.max_num_batched_tokens,
        block_size=block_tokens,
        usable_blocks=memory // block_tokens,
        reserve_full_isl=limits.reserve_full_prompt,
        watermark_blocks=-(-kept_free // block_tokens),
        prefix_caching=prefix is not None,
        policy="fcfs" if priority is None else "priority",
        pp_degree=pipeline,
    )
    slack = None if cache is None or prefix is None else cache.affinity_slack
    return (
        EngineTraffic(
            traffic.arrival_ps,
            np.ascontiguousarray(traffic.prompt),
            np.ascontiguousarray(traffic.output),
            prefix_start=None if prefix is None else prefix.start,
            prefix_name=None if prefix is None else prefix.name,
            prefix_count=None if prefix is None else prefix.count,
            cached=None if cache is None else traffic.cached,
            priority=None if priority is None else np.array(priority, np.int32)[traffic.workload],
        ),
        Colocated(
            engine,
            step_law_of(law.tokens_ps.tobytes(), law[1:]),
            count * ranks,
            RouterOptions(router)
            if slack is None
            else RouterOptions("prefix_affinity", slack=min(slack, limits.max_num_seqs - 1)),
            lock_step=ranks > 1,
            ranks=ranks if ranks > 1 else 0,
        ),
    )


def time_with_someone(arrival: NDArray[np.int64], finish: NDArray[np.int64]) -> int:
    """Return how long a replica had a request: an engine rests only when nobody is there.

    Args:
        arrival: Of its requests, ascending; shape ``(n,)``.
        finish: Their last tokens, same unit; shape ``(n,)``.
    """
    if arrival.size == 0:
        return 0
    until = np.maximum.accumulate(finish)
    since = np.maximum(arrival[1:], until[:-1])
    return int(finish[0] - arrival[0] + np.maximum(until[1:] - since, 0).sum())


@lru_cache(maxsize=64)
def step_law_of(tokens_ps: bytes, coefficients: tuple[int, int, int, int]) -> StepLaw:
    """Return the same law as a list of knots, one for each number of tokens.

    Args:
        tokens_ps: ``Law.tokens_ps`` as bytes: an array is no key.
        coefficients: The law's others, in their order.
    """
    square, context, sequence, chunk_context = coefficients
    table = np.frombuffer(tokens_ps, np.int64).tolist()
    return StepLaw(
        tuple(enumerate(table)),
        c_x=square,
        c_k=context,
        c_n=sequence,
        c_c=chunk_context,
        shift=16,
    )
