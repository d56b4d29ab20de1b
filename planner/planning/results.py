"""What each workload gets of a fleet that was simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.attribution.charge import charge_misses
from planner.fleet import Interval, Misses, Quantiles, RoutingShare, WaitingUsers, WorkloadResult
from planner.problem.arrivals import UserArrivals
from planner.simulation.capacity import VERIFYING
from planner.simulation.fleet import sample_fleet
from planner.simulation.stages import Parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.planning.fleet import Fleet
    from planner.problem.arrivals import ArrivalLaw
    from planner.problem.resolve import Problem
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import Judgement, Study
    from planner.simulation.interval import Estimate
    from planner.simulation.pool import Latencies


def interval(estimate: Estimate) -> Interval:
    """Write an estimate as a document."""
    return Interval(value=estimate.value, low=estimate.low, high=estimate.high)


def workload_results(
    problem: Problem, study: Study, effort: Effort, fleet: Fleet, judgement: Judgement
) -> tuple[WorkloadResult, ...]:
    """Return rates, attainment, verdict and latencies of every workload."""
    results = []
    paces = judgement.sample.paces().tolist()
    kept = _latencies(problem, study, effort, fleet)
    for w, demand in enumerate(problem.demands):
        estimate, offered = judgement.intervals[w], demand.rate_rps * paces[w]
        ttft = np.concatenate([part.ttft_s[part.workload == w] for _, part in kept])
        tpot = np.concatenate([part.tpot_s[part.workload == w] for _, part in kept])
        results.append(
            WorkloadResult(
                id=demand.id,
                offered_rps=offered,
                goodput_rps=offered * estimate.value,
                attainment=interval(estimate),
                promise=demand.slo.attainment,
                verdict=judgement.verdicts[w],
                ttft_s=_quantiles(ttft),
                tpot_s=_quantiles(tpot),
                misses=_misses(study, kept, w),
                routing=tuple(
                    RoutingShare(pool=p.template.id, share=p.load_rps[w] / demand.rate_rps)
                    for p in fleet.pools
                    if p.load_rps[w] > 0
                ),
                users=_users(demand.arrivals, offered),
            )
        )
    return tuple(results)


def _users(law: ArrivalLaw, offered_rps: float) -> WaitingUsers | None:
    """Return what users who wait for their answers see; None of other workloads."""
    if not isinstance(law, UserArrivals):
        return None
    return WaitingUsers(
        users=round(law.users),
        think_s=law.think_s,
        response_s=law.users / offered_rps - law.think_s,
        user_rps=law.user_rps,
    )


def _latencies(
    problem: Problem, study: Study, effort: Effort, fleet: Fleet
) -> list[tuple[tuple[float, ...], Latencies]]:
    """Simulate the fleet once more on the first draws of its verification, keeping latencies.

    Returns:
        The load of the pool, and the latencies, of each pool and replication.
    """
    sample = sample_fleet(
        study,
        fleet.for_simulation(problem.policies.router),
        effort.verify,
        stream=VERIFYING,
        keep=True,
    )
    return [
        (pool.load_rps, run.latencies)
        for pool, runs in zip(sample.pools, sample.runs, strict=True)
        for run in runs
        if run.latencies is not None
    ]


def _misses(study: Study, kept: list[tuple[tuple[float, ...], Latencies]], w: int) -> Misses:
    """Return the missed deadlines of a workload by cause, as shares of its offered requests.

    A request that no replica can hold, or longer than the model's context, has failed.
    """
    due = study.deadlines
    shares = dict.fromkeys(Misses.model_fields, 0.0)
    weight = sum(load[w] for load, _ in kept)
    for load, part in kept:
        served = part.workload == w
        offered = int(served.sum()) + int(part.refused[w])
        if load[w] == 0 or offered == 0:
            continue
        length = part.prompt.astype(np.int64) + part.output
        fits = np.flatnonzero(served & (length <= due.context_tokens[w]))
        charged = charge_misses(
            Parts(*(column[fits] for column in part.parts)),
            due.ttft_limit_ps(part.workload[fits], part.prompt[fits]),
            due.tpot_ps[w] * (part.output[fits].astype(np.int64) - 1),
            None if due.e2e_ps is None else np.full(fits.size, due.e2e_ps[w]),
        )
        scale = load[w] / weight / offered
        for cause, share in charged.items():
            shares[cause] += scale * float(share.sum())
        shares["failed"] += scale * (offered - fits.size)
    return Misses(**shares)


def _quantiles(values: NDArray[np.float64]) -> Quantiles:
    if values.size == 0:
        return Quantiles(p50=0.0, p90=0.0, p95=0.0, p99=0.0)
    p50, p90, p95, p99 = np.quantile(values, (0.5, 0.9, 0.95, 0.99)).tolist()
    return Quantiles(p50=p50, p90=p90, p95=p95, p99=p99)
