"""A plan's fleet under more and less demand: rates, and what its misses are charged to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from planner.fleet import Misses
from planner.planning.replay import fleet_in
from planner.planning.results import misses_of
from planner.planning.study import effort_for, study_of
from planner.simulation.capacity import REPLAYING
from planner.simulation.effort import RunSize
from planner.simulation.fleet import sample_fleet
from planner.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from planner.fleet import FleetPlan

MULTIPLES: Final = (0.5, 0.7, 0.85, 1.0, 1.1, 1.2, 1.35, 1.5)
REQUESTS: Final = 30_000
"""Of a run; its first part, while queues fill, is not counted."""
REPLICATIONS: Final = 2


class WorkloadAtLoad(Spec):
    """One workload at one multiple of the demand."""

    workload: str
    offered_rps: float
    goodput_rps: float
    attainment: float
    misses: Misses
    """Shares of the offered requests, by cause."""


class LoadPoint(Spec):
    """The fleet at one multiple of the demand, all workloads alike."""

    multiple: float
    offered_rps: float
    completed_rps: float
    """Throughput: compliant or not."""
    goodput_rps: float
    workloads: tuple[WorkloadAtLoad, ...]


def against_load(
    plan: FleetPlan,
    folder: Path,
    multiples: Sequence[float] = MULTIPLES,
    progress: Callable[[str, float], None] | None = None,
) -> tuple[LoadPoint, ...]:
    """Simulate a plan's fleet at multiples of its demand, on the same draws.

    Args:
        plan: A plan with pools.
        folder: Where files that the scenario names by a relative path lie.
        multiples: Of the demand, all workloads alike.
        progress: Told what is being done and which share of the whole is done.

    Raises:
        InputError: The plan has no pools, or cannot be rebuilt here.
    """
    problem, fleet = fleet_in(plan, None, folder)
    study = study_of(problem)
    verify = effort_for(problem).verify
    size = RunSize(
        min(verify.requests, REQUESTS), REPLICATIONS, min(verify.per_replica, REQUESTS // 10)
    )
    pools = fleet.for_simulation(problem.policies.router)
    groups = [whole.parts for whole in problem.asked]
    found = []
    for i, multiple in enumerate(multiples):
        if progress is not None:
            progress(f"at {multiple:g} times the demand", i / len(multiples))
        sample = sample_fleet(study, pools, size, stream=REPLAYING, multiple=multiple, keep=True)
        kept = [
            (pool.load_rps, run.latencies)
            for pool, runs in zip(sample.pools, sample.runs, strict=True)
            for run in runs
            if run.latencies is not None
        ]
        rows = []
        for whole, estimate in zip(problem.asked, sample.intervals(groups), strict=True):
            offered = multiple * sum(problem.demands[w].rate_rps for w in whole.parts)
            rows.append(
                WorkloadAtLoad(
                    workload=whole.demand.id,
                    offered_rps=offered,
                    goodput_rps=offered * estimate.value,
                    attainment=estimate.value,
                    misses=misses_of(problem, study, kept, whole.parts),
                )
            )
        found.append(
            LoadPoint(
                multiple=multiple,
                offered_rps=sum(row.offered_rps for row in rows),
                completed_rps=sum(
                    sum(run.completed_rps for run in runs) / len(runs) for runs in sample.runs
                ),
                goodput_rps=sum(row.goodput_rps for row in rows),
                workloads=tuple(rows),
            )
        )
    return tuple(found)
