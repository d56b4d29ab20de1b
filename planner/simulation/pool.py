"""One pool of equal replicas under one draw of requests: who is compliant, who is late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.kernels import simulate_pool
from planner.simulation.cached_pool import Replicas, serve_with_cache
from planner.simulation.group import (
    GroupServed,
    GroupSetup,
    GroupShares,
    gaps_of_groups,
    parts_of_groups,
    serve_groups,
)
from planner.simulation.stages import GapParts, Parts, parts_of, parts_of_replicas
from planner.simulation.users import serve_users

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.kernels import Law, Limits, Records, Router
    from planner.kernels.engine import FleetGaps, FleetStages
    from planner.problem.deadlines import Deadlines
    from planner.simulation.cached_pool import PrefixCache
    from planner.simulation.draw import Draw, Traffic

WARM_UP: Final = 0.05
"""Least share of a run's span that is not counted: the pool starts empty, which flatters."""
WARM_UP_RESIDENCES: Final = 3.0
"""The same in mean residence times of a request; the longer of the two counts."""
COOL_DOWN: Final = 0.02
"""Share at the end that is not counted, or one residence time: nobody arrives behind them."""
MOST_REPLICAS: Final = 16
"""Larger pools are simulated as this many replicas at the same load each: routing among fewer
is a little worse, so the answer is not optimistic."""
STEP_WISE_SHORTER: Final = 8
"""By how much runs are shorter of pools whose every step is simulated on its own."""
MOST_GROWTH: Final = 0.01
"""Growth of waiting per unit of time above which a run is called unstable. A steady queue that
starts empty grows by a few mean waits over a whole run, which is far less."""


@dataclass(frozen=True, slots=True)
class PoolSetup:
    """How a pool is built: numbers for the kernel."""

    law: Law
    limits: Limits
    replicas: int
    router: Router
    cache: PrefixCache | None = None
    """None: every prompt is computed whole."""
    path_ps: int = 0
    """From client to engine and back, without load: part of every TTFT, told as queueing."""
    priority: tuple[int, ...] | None = None
    """Of each workload, lower first, where priority decides the order; None: who comes first."""
    group: GroupSetup | None = None
    """Where each replica is a group that prefills and decodes apart: law and limits are then of
    its decode side."""
    ranks: int = 1
    """Attention data parallel: ranks of a replica, each with the limits above for itself."""
    stages: int = 1
    """Pipeline stages of a replica."""

    @property
    def simulated(self) -> int:
        """How many replicas stand for the pool in a simulation."""
        if self.group is not None:
            return sum(cell.groups for cell in self.group.cells(self.replicas))
        return min(self.replicas, max(1, MOST_REPLICAS // self.ranks))

    @property
    def simulated_share(self) -> float:
        """Share of a pool's load that comes to the groups that are simulated."""
        assert self.group is not None  # other pools share their load out evenly
        return sum(cell.groups * cell.weight for cell in self.group.cells(self.replicas))

    @property
    def engines(self) -> int:
        """Ranks that are simulated, each a scheduler of its own."""
        return self.simulated * self.ranks

    @property
    def step_wise(self) -> bool:
        """Whether every step must be simulated on its own, which costs ten times as much."""
        return self.ranks > 1 or self.stages > 1

    def run_requests(self, in_all: int, per_engine: int) -> int:
        """Return the length of a run: the larger of a total and so many of each engine.

        Shorter where every step is simulated on its own: intervals are wider then, and verdicts
        that stay open lengthen the run as ever.
        """
        wanted = max(in_all, per_engine * self.engines)
        return wanted // STEP_WISE_SHORTER if self.step_wise else wanted


@dataclass(frozen=True, slots=True)
class Latencies:
    """Of the counted, completed requests of a run; arrays of shape ``(n,)``."""

    workload: NDArray[np.int32]
    ttft_s: NDArray[np.float64]
    tpot_s: NDArray[np.float64]
    prompt: NDArray[np.int32]
    output: NDArray[np.int32]
    max_itl_s: NDArray[np.float64] | None
    """Longest time between two tokens; only where some workload has a deadline on it."""
    parts: Parts | None
    """Where the time went, ps, if asked for."""
    gaps: GapParts | None
    """What the longest times between tokens are made of, ps; as the two before."""
    refused: NDArray[np.int64]
    """Counted requests that no replica could ever hold, by workload; shape ``(workloads,)``."""


@dataclass(frozen=True, slots=True)
class PoolRun:
    """What one run of a pool showed. Counts are by workload, warm-up and cool-down removed."""

    offered: NDArray[np.int64]
    compliant: NDArray[np.int64]
    backlog_growth: float
    """Seconds by which waiting grows per second of the run; about 0 in a steady state and
    load / capacity - 1 in overload."""
    completed_rps: float
    """Requests that finish per second of the counted span, of all replicas of the pool."""
    busy_share: float
    simulated: int
    """Requests, counted or not."""
    response_s: NDArray[np.float64] | None
    """Mean time from a request to the end of its answer, by workload, where users wait for it;
    rejected ones are answered at once."""
    latencies: Latencies | None
    """Kept on request; they are most of a run's memory."""
    prompt_tokens: NDArray[np.int64]
    cached_tokens: NDArray[np.int64]
    """Of the prompt tokens, those that a replica held when the request was first admitted."""
    group: GroupShares | None = None
    """How busy the sides of groups were, where the pool has such."""

    @property
    def unstable(self) -> bool:
        """Whether the backlog trends upward: nothing here is then an average of a steady state."""
        return self.backlog_growth > MOST_GROWTH

    @property
    def attainment(self) -> NDArray[np.float64]:
        """Compliant / offered by workload; 1 where nothing was offered."""
        return np.where(self.offered > 0, self.compliant / np.maximum(self.offered, 1), 1.0)


def counted_span(arrival_ps: NDArray[np.int64], finish_ps: NDArray[np.int64]) -> slice:
    """Return which requests count: those that arrive after warm-up and before cool-down.

    Args:
        arrival_ps: Ascending; shape ``(n,)``.
        finish_ps: -1 where a request was rejected; shape ``(n,)``.
    """
    span = float(arrival_ps[-1] - arrival_ps[0])
    done = finish_ps >= 0
    residence = float((finish_ps - arrival_ps)[done].mean()) if done.any() else 0.0
    warm = min(max(WARM_UP * span, WARM_UP_RESIDENCES * residence), 0.5 * span)
    cool = min(max(COOL_DOWN * span, residence), 0.2 * span)
    first, last = arrival_ps[0] + warm, arrival_ps[-1] - cool
    return slice(*(int(i) for i in np.searchsorted(arrival_ps, (first, last))))


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of the requests of a run; arrays of shape ``(n,)``, ps, -1 where rejected."""

    first_scheduled_ps: NDArray[np.int64]
    first_token_ps: NDArray[np.int64]
    finish_ps: NDArray[np.int64]
    cached_tokens: NDArray[np.int32] | None
    longest_gap_ps: NDArray[np.int64] | None
    """Longest time between two tokens, if asked for."""
    busy_ps: int
    """Summed over the simulated replicas."""
    stages: FleetStages | None
    """Of the engine that keeps prefixes and knows priorities, if asked for."""
    replica_gaps: FleetGaps | None
    """With them."""
    records: Records | None
    """Of the kernel that knows no prefixes and no priorities."""
    sides: GroupServed | None = None
    """Of groups: what became of their sides and links."""

    def parts(
        self, arrival_ps: NDArray[np.int64], chosen: NDArray[np.int64], path_ps: int
    ) -> Parts:
        """Return where the time of chosen, finished requests went; it must have been asked for."""
        if self.records is not None:
            return parts_of(self.records, chosen, path_ps)
        assert self.stages is not None
        ttft_ps = (self.first_token_ps - arrival_ps)[chosen]
        if self.sides is not None:
            return parts_of_groups(self.stages, ttft_ps, chosen, path_ps)
        return parts_of_replicas(self.stages, ttft_ps, chosen, path_ps)

    def gaps(self, chosen: NDArray[np.int64]) -> GapParts | None:
        """Return what the longest times between tokens are made of; None if not asked for."""
        if self.sides is not None and self.replica_gaps is not None:
            assert self.longest_gap_ps is not None  # groups always tell it
            return gaps_of_groups(self.replica_gaps, self.longest_gap_ps, chosen)
        told = self.replica_gaps if self.records is None else self.records.gaps
        return None if told is None else GapParts(*(column[chosen] for column in told))


def _serve(
    setup: PoolSetup, draw: Draw, rate_rps: float, *, stages: bool, gaps: bool
) -> tuple[Traffic, _Outcome]:
    """Simulate the replicas that stand for the pool, under their share of its load.

    Where users wait for their answers, or none can find anything, as if there were no cache.
    """
    if draw.closed:
        if setup.step_wise:
            raise ValueError("users who wait are served by replicas of one rank and one stage")
        traffic, records = serve_users(setup, draw, rate_rps, stages=stages, gaps=gaps)
        return traffic, _without_cache(records)
    replicas, cache = setup.simulated, setup.cache
    traffic = draw.at(rate_rps, block_tokens=None if cache is None else cache.block_tokens)
    if setup.group is not None:
        own = serve_groups(
            setup.group,
            (setup.law, setup.limits),
            traffic,
            setup.replicas,
            setup.router,
            stages=stages,
        )
        times = own.first_token_ps, own.finish_ps
        return traffic, _Outcome(
            own.started_ps,
            *times,
            None,
            own.longest_gap_ps,
            own.prefill_busy_ps + own.decode_busy_ps,
            own.stages,
            own.gaps,
            None,
            own,
        )
    finds = cache is not None and (traffic.prefix is not None or traffic.cached is not None)
    if finds or setup.priority is not None or setup.step_wise:
        served = serve_with_cache(
            setup.law,
            setup.limits,
            cache if finds else None,
            traffic,
            Replicas(replicas, setup.router, setup.priority, setup.ranks, setup.stages),
            stages=stages,
        )
        return traffic, _Outcome(*served, None)
    records = simulate_pool(
        setup.law,
        setup.limits,
        traffic.arrival_ps,
        traffic.prompt,
        traffic.output,
        replicas=replicas,
        router=setup.router,
        stages=stages,
        gaps=gaps,
    )
    return traffic, _without_cache(records)


def _without_cache(records: Records) -> _Outcome:
    return _Outcome(
        records.first_scheduled_ps,
        records.first_token_ps,
        records.finish_ps,
        None,
        None if records.gaps is None else records.gaps.longest_ps(),
        records.busy_ps,
        None,
        None,
        records,
    )


def run_pool(
    setup: PoolSetup,
    draw: Draw,
    rate_rps: float,
    deadlines: Deadlines,
    *,
    keep: bool = False,
    parts: bool = True,
) -> PoolRun:
    """Simulate a pool under a total load in requests per second.

    Args:
        setup: The pool.
        draw: Its requests.
        rate_rps: Their rate, all workloads together.
        deadlines: Of each workload.
        keep: Keep the latencies of every request.
        parts: With them where the time went, which makes prefix caches several times slower.
    """
    replicas = setup.simulated
    gaps = deadlines.max_itl_ps is not None
    share_rps = rate_rps * replicas / setup.replicas
    if setup.group is not None:
        share_rps = rate_rps * setup.simulated_share
    traffic, outcome = _serve(setup, draw, share_rps, stages=keep and parts, gaps=gaps)
    arrival = traffic.arrival_ps
    counted = counted_span(arrival, outcome.finish_ps)
    workload = traffic.workload[counted]
    first, finish = outcome.first_token_ps[counted], outcome.finish_ps[counted]
    ttft = first - arrival[counted] + setup.path_ps
    classes = deadlines.ttft_ps.size
    steps = traffic.output[counted].astype(np.int64) - 1
    done = finish >= 0
    lengths = traffic.prompt[counted], traffic.output[counted]
    every = outcome.longest_gap_ps if gaps else None
    longest = None if every is None else every[counted]
    good = done & deadlines.met(workload, lengths, ttft, finish - first, longest)
    kept = None
    if keep:
        tpot = (finish - first).astype(np.float64) * 1e-12 / np.maximum(steps, 1)
        chosen = np.flatnonzero(done) + counted.start
        kept = Latencies(
            workload=workload[done],
            ttft_s=ttft[done].astype(np.float64) * 1e-12,
            tpot_s=tpot[done],
            prompt=lengths[0][done],
            output=lengths[1][done],
            max_itl_s=None if longest is None else longest[done].astype(np.float64) * 1e-12,
            parts=outcome.parts(arrival, chosen, setup.path_ps) if parts else None,
            gaps=outcome.gaps(chosen) if parts and gaps else None,
            refused=np.bincount(workload[~done], minlength=classes),
        )
    span_ps = max(int(outcome.finish_ps.max(initial=0)), 1)
    shares = None
    engines = replicas
    if setup.group is not None and outcome.sides is not None:
        shares = setup.group.shares(outcome.sides, span_ps, setup.replicas)
        engines = replicas * (setup.group.n_prefill + setup.group.n_decode)
    found = outcome.cached_tokens
    return PoolRun(
        offered=np.bincount(workload, minlength=classes),
        compliant=np.bincount(workload[good], minlength=classes),
        backlog_growth=backlog_growth(arrival, outcome.first_scheduled_ps),
        completed_rps=_completed_rps(arrival[counted], outcome.finish_ps)
        * (setup.replicas / replicas if setup.group is None else 1 / setup.simulated_share),
        busy_share=outcome.busy_ps / span_ps / engines,
        simulated=arrival.size,
        response_s=_responses(workload, finish - arrival[counted], done, classes)
        if draw.closed
        else None,
        latencies=kept,
        prompt_tokens=_sums(workload, lengths[0], classes),
        cached_tokens=np.zeros(classes, np.int64)
        if found is None
        else _sums(workload, found[counted], classes),
        group=shares,
    )


def _responses(
    workload: NDArray[np.int32],
    response_ps: NDArray[np.int64],
    done: NDArray[np.bool_],
    classes: int,
) -> NDArray[np.float64]:
    """Return the mean time to the last token by workload, in seconds; 0 of none."""
    total = np.bincount(workload, np.where(done, response_ps, 0), minlength=classes)
    return np.asarray(total * 1e-12 / np.maximum(np.bincount(workload, minlength=classes), 1))


def _sums(
    workload: NDArray[np.int32], tokens: NDArray[np.int32], classes: int
) -> NDArray[np.int64]:
    return np.bincount(workload, weights=tokens, minlength=classes).astype(np.int64)


def backlog_growth(arrival_ps: NDArray[np.int64], start_ps: NDArray[np.int64]) -> float:
    """Return by how much the wait for the first step grows per unit of time.

    From the second quarter of a run to the last: the first is left out as warm-up. In an
    overloaded queue the wait of each next request grows by load / capacity - 1.

    Args:
        arrival_ps: Ascending; shape ``(n,)``.
        start_ps: First scheduled; -1 where a request was rejected. Shape ``(n,)``.

    Returns:
        Seconds per second; 0 for fewer than 100 served requests, which tell nothing.
    """
    served = start_ps >= 0
    wait = (start_ps - arrival_ps)[served].astype(np.float64)
    n = wait.size
    if n < 100:
        return 0.0
    when = arrival_ps[served].astype(np.float64)
    early, late = slice(n // 4, n // 2), slice(n - n // 4, n)
    apart = when[late].mean() - when[early].mean()
    return float((wait[late].mean() - wait[early].mean()) / apart) if apart > 0 else 0.0


def _completed_rps(arrival_ps: NDArray[np.int64], finish_ps: NDArray[np.int64]) -> float:
    """Return completions per second between the first and the last counted arrival."""
    if arrival_ps.size < 2 or arrival_ps[-1] <= arrival_ps[0]:
        return 0.0
    within = (finish_ps >= arrival_ps[0]) & (finish_ps < arrival_ps[-1])
    return float(np.count_nonzero(within) / (int(arrival_ps[-1] - arrival_ps[0]) * 1e-12))
