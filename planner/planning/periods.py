"""The chosen fleet in every period: it was planned for one load and meets them all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from planner.fleet import PeriodResult, PeriodWorkload
from planner.planning.fleet import Fleet
from planner.planning.results import interval
from planner.simulation.effort import RunSize
from planner.simulation.fleet import FleetPool, sample_fleet, verdict_of
from planner.units import LEAST_RPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.problem.periods import Period
    from planner.problem.resolve import Problem
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import Study

PERIODS: Final = 5
"""Stream of random draws for this purpose, beside those of ``planner.simulation.capacity``."""


def period_results(
    problem: Problem,
    study: Study,
    fleet: Fleet,
    effort: Effort,
    lent: Mapping[tuple[str, str], int] | None = None,
    *,
    busiest: bool = False,
) -> tuple[PeriodResult, ...]:
    """Simulate a fleet at the load of each period, routed as it is at the load planned for.

    Args:
        problem: The question.
        study: Draws, deadlines and promises of the problem.
        fleet: Its pools and their loads.
        effort: How much to simulate.
        lent: Units that a pool, by id, lacks in a period, by id.
        busiest: Take the highest load of each workload in the period instead of the mean.

    Returns:
        One result per period, busiest first; none where the load does not change.
    """
    if problem.calendar is None:
        return ()
    size = RunSize(
        max(effort.verify.requests // 2, 1),
        max(effort.verify.replications // 2, 3),
        max(effort.verify.per_replica // 2, 1),
    )
    return tuple(
        _result(
            problem,
            study,
            _without(fleet, lent or {}, period),
            replace(period, level=period.most) if busiest else period,
            size,
        )
        for period in problem.calendar.periods
    )


def _without(fleet: Fleet, lent: Mapping[tuple[str, str], int], period: Period) -> Fleet:
    """Return the fleet without the units that it lends in a period."""
    return Fleet(
        tuple(
            replace(p, units=p.units - lent.get((p.template.id, period.id), 0)) for p in fleet.pools
        )
    )


def _result(
    problem: Problem, study: Study, fleet: Fleet, period: Period, size: RunSize
) -> PeriodResult:
    means = [d.mean_rps * level for d, level in zip(problem.demands, period.level, strict=True)]
    rates = [rate if rate >= LEAST_RPS else 0.0 for rate in means]
    scale = [rate / d.rate_rps for rate, d in zip(rates, problem.demands, strict=True)]
    pools = [
        FleetPool(pool.setup, tuple(load * x for load, x in zip(pool.load_rps, scale, strict=True)))
        for pool in fleet.for_simulation(problem.policies.router)
        if pool.setup.replicas > 0
    ]
    loaded = [pool for pool in pools if sum(pool.load_rps) > 0]
    served: list[PeriodWorkload] = []
    if loaded:
        sample = sample_fleet(study, loaded, size, stream=PERIODS)
        growing = {
            w
            for pool, grows in zip(loaded, sample.unstable(), strict=True)
            if grows
            for w, load in enumerate(pool.load_rps)
            if load > 0
        }
        paces = sample.paces().tolist()
        groups = [whole.parts for whole in problem.asked]
        for whole, found in zip(problem.asked, sample.intervals(groups), strict=True):
            demand = whole.demand
            offered = sum(rates[w] * paces[w] for w in whole.parts)
            if offered <= 0:
                continue
            grows = growing.intersection(whole.parts)
            verdict = "broken" if grows else verdict_of(found, demand.slo.attainment)
            served.append(
                PeriodWorkload(
                    id=demand.id,
                    offered_rps=offered,
                    goodput_rps=offered * found.value,
                    attainment=interval(found),
                    promise=demand.slo.attainment,
                    verdict=verdict,
                )
            )
    return PeriodResult(id=period.id, share=period.share, workloads=tuple(served))


def over_all_periods(periods: tuple[PeriodResult, ...]) -> tuple[str, ...]:
    """Say what each workload attains over all time, and where it attains least."""
    said = []
    for name in dict.fromkeys(w.id for p in periods for w in p.workloads):
        rows = [(p, w) for p in periods for w in p.workloads if w.id == name]
        offered = sum(p.share * w.offered_rps for p, w in rows)
        good = sum(p.share * w.goodput_rps for p, w in rows)
        worst, least = min(rows, key=lambda row: row[1].attainment.value)
        text = (
            f"over all periods {good / offered:.2%} of {name} are compliant; least in"
            f" {worst.id}: {least.attainment.value:.2%}"
        )
        broken = sum(p.share for p, w in rows if w.verdict == "broken")
        if broken > 0:
            text += f"; its promise is broken in {broken:.1%} of the time"
        said.append(text)
    return tuple(said)
