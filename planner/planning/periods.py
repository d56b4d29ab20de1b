"""The chosen fleet in every period: it was planned for one load and meets them all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.fleet import PeriodResult, PeriodWorkload
from planner.planning.fleet import Fleet
from planner.planning.results import interval
from planner.simulation.effort import RunSize
from planner.simulation.fleet import FleetPool, sample_fleet, verdict_of, worst
from planner.simulation.interval import attainment_interval
from planner.units import LEAST_RPS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from planner.problem.periods import Period
    from planner.problem.resolve import Problem
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import FleetSample, Judgement, Study, Verdict
    from planner.simulation.interval import Estimate

PERIODS: Final = 5
"""Stream of random draws for this purpose, beside those of ``planner.simulation.capacity``."""
JUDGING: Final = 6
"""The same for verdicts on promises that count over the periods."""
JUDGING_AGAIN: Final = 7
"""The same for a plan that is simulated anew."""


def period_results(
    problem: Problem,
    study: Study,
    fleet: Fleet,
    effort: Effort,
    lent: Mapping[tuple[str, str], int] | None = None,
    *,
    busiest: bool = False,
    over: Callable[[], bool] = lambda: False,
) -> tuple[PeriodResult, ...]:
    """Simulate a fleet at the load of each period, routed as it is at the load planned for.

    Args:
        problem: The question.
        study: Draws, deadlines and promises of the problem.
        fleet: Its pools and their loads.
        effort: How much to simulate.
        lent: Units that a pool, by id, lacks in a period, by id.
        busiest: Take the highest load of each workload in the period instead of the mean.
        over: Asked before each period.

    Returns:
        One result per period, busiest first; none where the load does not change, or where the
        time was over before the last.
    """
    if problem.calendar is None:
        return ()
    size = short(effort)
    found = []
    for period in problem.calendar.periods:
        if over():
            return ()
        left = _without(fleet, lent or {}, period)
        at = replace(period, level=period.most) if busiest else period
        found.append(in_period(problem, study, left, at, size))
    return tuple(found)


def _without(fleet: Fleet, lent: Mapping[tuple[str, str], int], period: Period) -> Fleet:
    """Return the fleet without the units that it lends in a period."""
    return Fleet(
        tuple(
            replace(p, units=p.units - lent.get((p.template.id, period.id), 0)) for p in fleet.pools
        )
    )


def judge_over_time(
    problem: Problem,
    study: Study,
    fleet: Fleet,
    effort: Effort,
    judged: Judgement,
    *,
    stream: int = JUDGING,
) -> Judgement:
    """Add what a fleet attains in every period to its verdicts, where promises count there.

    A promise over ``period`` is judged by the compliant share of all requests of all periods
    and by nothing else; one in the ``worst_hour`` by each period, and at the load planned for. A
    period in which a pool's backlog grows has no compliant request of those the pool serves.
    The runs double while a verdict is undecided.

    Args:
        problem: The question.
        study: Draws, deadlines and promises of the problem.
        fleet: The fleet, routed in every period as at the load planned for.
        effort: How long and how often at first, and how long at most.
        judged: The fleet at the load planned for.
        stream: Purpose of the random draws.
    """
    over = {w: d.slo.attainment_over for w, d in enumerate(problem.demands)}
    if problem.calendar is None or not any(over.values()):
        return judged
    size = short(effort)
    while True:
        found = _Periods(problem, study, fleet, size, stream)
        intervals: list[Estimate | None] = [None] * len(over)
        verdicts: list[Verdict] = list(judged.verdicts)
        for w, what in over.items():
            promise = problem.demands[w].slo.attainment
            if what == "period":
                mean = intervals[w] = found.over_all(w)
                verdicts[w] = verdict_of(mean, promise)
            elif what == "worst_hour":
                hours = found.each(w)
                intervals[w] = min(hours, key=lambda e: e.low)
                verdicts[w] = worst((judged.verdicts[w], *(verdict_of(e, promise) for e in hours)))
        undecided = any(verdicts[w] == "undecided" for w, what in over.items() if what)
        if not undecided or 2 * size.requests > effort.verify_limit:
            return replace(judged, verdicts=tuple(verdicts), over_time=tuple(intervals))
        size = size.doubled()


class _Periods:
    """What a fleet attains in every period, by replication and workload."""

    def __init__(
        self, problem: Problem, study: Study, fleet: Fleet, size: RunSize, stream: int
    ) -> None:
        assert problem.calendar is not None  # who asks has periods
        self.weights: list[NDArray[np.float64]] = []  # requests of each workload, relative
        self.attained: list[NDArray[np.float64]] = []  # (replications, workloads)
        self.counted: list[NDArray[np.int64]] = []
        for period in problem.calendar.periods:
            loaded, rates = _loads(problem, fleet, period)
            if not loaded:
                continue
            sample = sample_fleet(study, loaded, size, stream=stream)
            self.weights.append(period.share * np.array(rates) * sample.paces())
            self.attained.append(_steady(sample))
            self.counted.append(np.sum([r.offered for pool in sample.runs for r in pool], axis=0))

    def over_all(self, w: int) -> Estimate:
        """Return the compliant share of a workload's requests of all periods."""
        weight = np.array([row[w] for row in self.weights])
        by_replication = weight @ np.array([rows[:, w] for rows in self.attained]) / weight.sum()
        requests = sum(int(row[w]) for row in self.counted)
        return attainment_interval(by_replication.tolist(), requests)

    def each(self, w: int) -> list[Estimate]:
        """Return the compliant share in each period in which the workload has requests."""
        return [
            attainment_interval(rows[:, w].tolist(), int(counted[w]))
            for rows, counted, weight in zip(self.attained, self.counted, self.weights, strict=True)
            if weight[w] > 0
        ]


def _steady(sample: FleetSample) -> NDArray[np.float64]:
    """Return attainment by replication and workload, nothing in pools whose backlog grows."""
    runs = tuple(
        tuple(replace(run, compliant=0 * run.compliant) for run in pool) if grows else pool
        for pool, grows in zip(sample.runs, sample.unstable(), strict=True)
    )
    return replace(sample, runs=runs).attainment()


def _loads(problem: Problem, fleet: Fleet, period: Period) -> tuple[list[FleetPool], list[float]]:
    """Return the pools that have a load in a period, and the rate of each workload."""
    means = [d.mean_rps * level for d, level in zip(problem.demands, period.level, strict=True)]
    rates = [rate if rate >= LEAST_RPS else 0.0 for rate in means]
    scale = [rate / d.rate_rps for rate, d in zip(rates, problem.demands, strict=True)]
    pools = [
        FleetPool(pool.setup, tuple(load * x for load, x in zip(pool.load_rps, scale, strict=True)))
        for pool in fleet.for_simulation(problem.policies.router)
        if pool.setup.replicas > 0
    ]
    return [pool for pool in pools if sum(pool.load_rps) > 0], rates


def short(effort: Effort) -> RunSize:
    """Return the size of the runs of a period: a verification has many."""
    return RunSize(
        max(effort.verify.requests // 2, 1),
        max(effort.verify.replications // 2, 3),
        max(effort.verify.per_replica // 2, 1),
    )


def in_period(
    problem: Problem, study: Study, fleet: Fleet, period: Period, size: RunSize
) -> PeriodResult:
    """Simulate a fleet at the load of a period, routed as it is at the load planned for."""
    loaded, rates = _loads(problem, fleet, period)
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
