"""What each workload gets of a fleet that was simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.fleet import Interval, Quantiles, RoutingShare, WorkloadResult
from planner.simulation.capacity import VERIFYING
from planner.simulation.fleet import sample_fleet
from planner.simulation.pool import Latencies

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.planning.fleet import Fleet
    from planner.problem.resolve import Problem
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import Judgement, Study
    from planner.simulation.interval import Estimate


def interval(estimate: Estimate) -> Interval:
    """Write an estimate as a document."""
    return Interval(value=estimate.value, low=estimate.low, high=estimate.high)


def workload_results(
    problem: Problem, study: Study, effort: Effort, fleet: Fleet, judgement: Judgement
) -> tuple[WorkloadResult, ...]:
    """Return rates, attainment, verdict and latencies of every workload."""
    results = []
    latencies = _latencies(problem, study, effort, fleet)
    for w, demand in enumerate(problem.demands):
        estimate = judgement.intervals[w]
        mine = latencies.workload == w
        results.append(
            WorkloadResult(
                id=demand.id,
                offered_rps=demand.rate_rps,
                goodput_rps=demand.rate_rps * estimate.value,
                attainment=interval(estimate),
                promise=demand.slo.attainment,
                verdict=judgement.verdicts[w],
                ttft_s=_quantiles(latencies.ttft_s[mine]),
                tpot_s=_quantiles(latencies.tpot_s[mine]),
                misses=None,
                routing=tuple(
                    RoutingShare(pool=p.template.id, share=p.load_rps[w] / demand.rate_rps)
                    for p in fleet.pools
                    if p.load_rps[w] > 0
                ),
            )
        )
    return tuple(results)


def _latencies(problem: Problem, study: Study, effort: Effort, fleet: Fleet) -> Latencies:
    """Simulate the fleet once more on the first draws of its verification, keeping latencies."""
    sample = sample_fleet(
        study,
        fleet.for_simulation(problem.policies.router),
        effort.verify,
        stream=VERIFYING,
        keep=True,
    )
    kept = [run.latencies for pool in sample.runs for run in pool if run.latencies is not None]
    return Latencies(
        np.concatenate([part.workload for part in kept]),
        np.concatenate([part.ttft_s for part in kept]),
        np.concatenate([part.tpot_s for part in kept]),
    )


def _quantiles(values: NDArray[np.float64]) -> Quantiles:
    if values.size == 0:
        return Quantiles(p50=0.0, p90=0.0, p95=0.0, p99=0.0)
    p50, p90, p95, p99 = np.quantile(values, (0.5, 0.9, 0.95, 0.99)).tolist()
    return Quantiles(p50=p50, p90=p90, p95=p95, p99=p99)
