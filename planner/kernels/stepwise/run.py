"""The event loop: engines, routers and the link, moved from instant to instant.

Order of events at one instant, which is part of the semantics:

1. step completions, engines in index order (prefill engines before decode engines);
2. transfer completions, in the order in which the transfers were accepted;
3. arrivals, in rank order;
4. hand-offs to the decode side, in the order in which they were sent;
5. scheduling, engines in index order.

What scheduling makes due at the same instant (steps of no length) begins a new round.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from planner.kernels.stepwise.cluster import Cluster, LockStepCluster
from planner.kernels.stepwise.disaggregated import SplitCluster
from planner.kernels.stepwise.engine import Engine
from planner.kernels.stepwise.options import Colocated
from planner.kernels.stepwise.records import Outcome, Record
from planner.kernels.stepwise.router import Router
from planner.kernels.stepwise.stages import StageLedger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.kernels.stepwise.engine import Step
    from planner.kernels.stepwise.options import Disaggregated
    from planner.kernels.stepwise.request import Job

DEFAULT_MAX_STEPS: Final = 100_000_000


class StepLimitError(RuntimeError):
    """A simulation took more steps than it was allowed."""


def simulate(
    jobs: Sequence[Job],
    setup: Colocated | Disaggregated,
    *,
    keep_steps: bool = False,
    stages: bool = False,
    max_steps: int = DEFAULT_MAX_STEPS,
    last_tick: int | None = None,
) -> Outcome:
    """Serve all jobs, one loop iteration per engine step, and tell what happened to each.

    Args:
        jobs: What arrives, in ascending order of arrival; equal arrivals in the order given.
        setup: Engines, step laws, routers and link.
        keep_steps: Whether every step is returned.
        stages: Whether each record says where the request's time went.
        max_steps: Steps after which to give up.
        last_tick: The last tick at which anything may happen; ``None``: time has no end.

    Returns:
        Records in the order of ``jobs``, and totals. The same arguments give the same result.

    Raises:
        StepLimitError: More than ``max_steps`` steps were scheduled.
        OverflowError: Time passed ``last_tick``.

    Cost:
        O(requests scheduled) per step.
    """
    records = [Record(job.arrival) for job in jobs]
    cluster = _build(setup, records)
    if stages:
        cluster.ledger = StageLedger(len(cluster.engines))
    steps = _run(jobs, cluster, keep_steps, max_steps, last_tick)
    cluster.close()
    return Outcome(
        records=tuple(records),
        steps=tuple(map(tuple, steps)),
        n_steps=tuple(engine.steps for engine in cluster.engines),
        makespan=max((record.finish for record in records), default=0),
    )


def _build(setup: Colocated | Disaggregated, records: list[Record]) -> Cluster:
    if isinstance(setup, Colocated):
        engines = [Engine(setup.engine, setup.law) for _ in range(setup.replicas)]
        router = Router(setup.router, engines)
        if setup.lock_step:
            return LockStepCluster(engines, router, records, setup.ranks or setup.replicas)
        return Cluster(engines, router, records)
    return SplitCluster(setup, records)


def _run(
    jobs: Sequence[Job],
    cluster: Cluster,
    keep_steps: bool,
    max_steps: int,
    last_tick: int | None,
) -> list[list[Step]]:
    """Run the event loop until nothing is left to happen."""
    engines = cluster.engines
    kept: list[list[Step]] = [[] for _ in engines]
    ends: list[tuple[int, int]] = []  # heap of (end of a step, engine)
    arrived = 0
    while True:
        due = [tick for tick in (cluster.next_event(),) if tick is not None]
        due += [ends[0][0]] if ends else []
        due += [jobs[arrived].arrival] if arrived < len(jobs) else []
        if not due:
            return kept
        now = min(due)
        if last_tick is not None and now > last_tick:
            raise OverflowError(f"time passed tick {last_tick}")
        while ends and ends[0][0] == now:
            cluster.complete(heapq.heappop(ends)[1], now)
        cluster.advance(now)
        while arrived < len(jobs) and jobs[arrived].arrival == now:
            cluster.arrive(arrived, jobs[arrived], now)
            arrived += 1
        cluster.hand_off(now)
        for index, step in cluster.schedule(now):
            heapq.heappush(ends, (step.end, index))
            if keep_steps:
                kept[index].append(step)
        if sum(engine.steps for engine in engines) > max_steps:
            raise StepLimitError(f"more than {max_steps} steps by tick {now}")
