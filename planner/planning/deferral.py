"""Work that may wait is done by units that the other workloads leave free.

The fleet for the other workloads is found first and kept. In each period its pools need only
some of their units; the program lends the rest, or adds units where the valleys are too small.
Every period is then simulated as it would run: pools without the units they lend, and the lent
units under their work. What breaks a promise there is taken back, and the program solved again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from planner.candidates.frontier import measure_frontier, setup_of
from planner.candidates.screen import bounds_of
from planner.candidates.serve import templates_of
from planner.errors import InfeasibleError, LimitReachedError
from planner.fleet import Decision, DeferredPeriod, DeferredResult
from planner.milp import Deferral, choose
from planner.planning.fleet import Fleet
from planner.planning.moves import with_moves
from planner.planning.periods import PERIODS, period_results
from planner.planning.program import instance_of
from planner.planning.results import interval
from planner.planning.study import study_of
from planner.problem.arrivals import PoissonArrivals
from planner.simulation.effort import RunSize
from planner.simulation.fleet import FleetPool, sample_fleet, verdict_of

if TYPE_CHECKING:
    from planner.candidates.template import Template
    from planner.fleet import PeriodResult
    from planner.milp import Choice
    from planner.planning.answered import Answer
    from planner.planning.clock import Clock
    from planner.planning.refine import Refined, Verified
    from planner.planning.teller import Teller
    from planner.problem.periods import Calendar
    from planner.problem.resolve import Deferred, Problem
    from planner.simulation.fleet import Study

NOT_PLACED: Final = "a limit ended the work before units were found for the work that waits"
MOST_ROUNDS: Final = 8
LESS: Final = 0.97
"""By which the belief in what a lent unit does is lowered where its promise is not kept."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Deferred work in its place."""

    fleet: Fleet
    """With the units that were added for it."""
    results: tuple[DeferredResult, ...]
    periods: tuple[PeriodResult, ...]
    """Of the other workloads, beside what is lent."""
    busiest: tuple[PeriodResult, ...]
    """The same in the busiest window of each period."""
    decisions: tuple[Decision, ...]
    kept: bool
    """Whether every promise holds in every period in which units are lent."""


@dataclass(slots=True)
class _Work:
    """A deferrable workload, and what is believed of the units that may do it."""

    deferred: Deferred
    study: Study
    templates: dict[str, Template]
    """By pool of the fleet."""
    lent_rps: dict[str, float]


def place_deferred(
    answer: Answer, refined: Refined, fleet: Fleet, clock: Clock, tell: Teller
) -> Placed:
    """Find periods and units for all work that may wait, and simulate them.

    Args:
        answer: The question; it has deferrable workloads.
        refined: How the fleet was found.
        fleet: For the other workloads.
        clock: The time that is left.
        tell: Told what is being done.

    Raises:
        InfeasibleError: No pool can do some work, or the limits leave no units for it.
        LimitReachedError: The time was over before the first loans were simulated.
    """
    calendar = answer.problem.calendar
    assert calendar is not None  # the scenario was refused without
    works = [_work(answer, one, fleet, clock, tell) for one in answer.problem.deferred]
    need = _needed(answer.problem, calendar, refined, fleet)
    placed: Placed | None = None
    try:
        for _ in range(MOST_ROUNDS):
            clock.check()
            tell("finding time for work that may wait", 0.9)
            choice = _lend(answer, calendar, refined, fleet, works, need, clock)
            placed = _placed(answer, calendar, fleet, works, choice)
            if placed.kept or not _take_back(placed, calendar, fleet, works, need):
                break
    except (LimitReachedError, KeyboardInterrupt) as error:
        clock.stop_on(error)
        if placed is None:
            raise
    assert placed is not None  # the first round sets it or raises
    return placed


def grown(
    problem: Problem, refined: Refined, shown: Verified, placed: Placed
) -> tuple[Refined, Verified]:
    """Return how a fleet was found, and the fleet with the units that deferred work added.

    More units never break a promise, so the verdicts stay. Where a promise breaks in a period
    that lends, the fleet is no verified one. Fleets with one unit less are those without work.
    The bound is that of all fleets that hold the one found for the other workloads.
    """
    larger = replace(shown, fleet=placed.fleet)
    best = larger if refined.best is shown and placed.kept else None
    before, after = shown.fleet.usd_per_hour, placed.fleet.usd_per_hour
    bound = refined.choice.bound
    if problem.objective == "min_cost":
        bound += after - before
    elif problem.objective == "max_goodput_per_usd":
        bound *= before / after
    choice = replace(refined.choice, bound=bound)
    return replace(refined, best=best, last=larger, choice=choice), larger


def _work(answer: Answer, deferred: Deferred, fleet: Fleet, clock: Clock, tell: Teller) -> _Work:
    """Measure what a unit of each pool does of a workload if it is lent to it."""
    calm = replace(deferred.demand, arrivals=PoissonArrivals(deferred.demand.rate_rps))
    problem = replace(answer.problem, demands=(calm,), wholes=(), deferred=(), calendar=None)
    study = study_of(problem, answer.study.meter)
    templates, lent_rps = {}, {}
    for pool in fleet.pools:
        clock.check()
        build = pool.template.build
        groups, _ = templates_of(problem, study, [build])
        if (0,) not in groups:
            continue
        (template,) = groups[0,]
        tell(f"measuring {template.id}")
        bound = bounds_of(study, [template], [calm.slo.tpot])[0]
        guess = 0.75 * bound.load_rps
        router = problem.policies.router
        frontier = guess and measure_frontier(
            study, template, router, pool.units, guess, answer.effort, clock.check
        )
        if frontier:
            templates[pool.template.id] = template
            lent_rps[pool.template.id] = frontier.capacity_rps.low
    if not lent_rps:
        raise InfeasibleError(
            f"no pool of the fleet can do {calm.id} within its deadlines; loosen them, or leave"
            " its completion_window out so that it is planned for"
        )
    return _Work(deferred, study, templates, lent_rps)


def _level(problem: Problem, calendar: Calendar, w: int, t: int) -> float:
    """Return the highest load of a workload in a period, as a share of what is planned for."""
    demand = problem.demands[w]
    return calendar.periods[t].most[w] * demand.mean_rps / demand.rate_rps


def _needed(
    problem: Problem, calendar: Calendar, refined: Refined, fleet: Fleet
) -> dict[tuple[str, int], int]:
    """Return how many units of each pool each period needs, by their believed capacity."""
    need = {}
    for pool in fleet.pools:
        j = pool.template.id
        each = refined.frontiers[j].capacity_rps.value
        for t in range(len(calendar.periods)):
            load = sum(x * _level(problem, calendar, w, t) for w, x in enumerate(pool.load_rps))
            need[j, t] = min(math.ceil(load / each - 1e-9), pool.units)
    return need


def _lend(
    answer: Answer,
    calendar: Calendar,
    refined: Refined,
    fleet: Fleet,
    works: list[_Work],
    need: dict[tuple[str, int], int],
    clock: Clock,
) -> Choice:
    problem = answer.problem
    own = {p.template.id: refined.frontiers[p.template.id] for p in fleet.pools}
    slots = tuple(str(k) for k in range(len(calendar.slots)))
    deferral = Deferral(
        B=tuple(work.deferred.demand.id for work in works),
        T=tuple(str(t) for t in range(len(calendar.periods))),
        S=slots,
        period_of={k: str(slot.period) for k, slot in zip(slots, calendar.slots, strict=True)},
        arriving={
            (work.deferred.demand.id, k): work.deferred.demand.rate_rps
            * slot.level[b]
            * calendar.slot_s
            for b, work in enumerate(works)
            for k, slot in zip(slots, calendar.slots, strict=True)
        },
        slots_to_wait={
            work.deferred.demand.id: int(work.deferred.window_s / calendar.slot_s + 1e-9)
            for work in works
        },
        slot_s=calendar.slot_s,
        lent_rps={
            (j, work.deferred.demand.id): rate
            for work in works
            for j, rate in work.lent_rps.items()
        },
        kept={(j, str(t)): units for (j, t), units in need.items()},
    )
    data = replace(
        instance_of(problem, own),
        min_units={p.template.id: p.units for p in fleet.pools},
        deferral=deferral,
    )
    return choose(data, "min_cost", time_limit_s=clock.left_s, gap=problem.gap, seed=problem.seed)


def _placed(
    answer: Answer, calendar: Calendar, fleet: Fleet, works: list[_Work], choice: Choice
) -> Placed:
    grown_pools = tuple(replace(p, units=choice.units[p.template.id]) for p in fleet.pools)
    larger = with_moves(answer.problem, Fleet(grown_pools))
    lent: dict[tuple[str, str], int] = {}
    for (j, _, t), units in choice.lent.items():
        period = calendar.periods[int(t)].id
        lent[j, period] = lent.get((j, period), 0) + units
    run = (answer.problem, answer.study, larger, answer.effort)
    periods = period_results(*run, lent)
    busiest = period_results(*run, lent, busiest=True)
    busy = {period for (_, period), _ in lent.items()}
    fine = not [p for p in busiest if p.id in busy and _breaks(p)]
    results = tuple(_result(answer, calendar, work, b, choice) for b, work in enumerate(works))
    fine = fine and all(p.verdict == "kept" for r in results for p in r.periods)
    said = tuple(_decision(fleet, larger, work, r) for work, r in zip(works, results, strict=True))
    return Placed(larger, results, periods, busiest, said, fine)


def _result(
    answer: Answer, calendar: Calendar, work: _Work, b: int, choice: Choice
) -> DeferredResult:
    demand = work.deferred.demand
    done = [choice.deferred[demand.id, str(k)] for k in range(len(calendar.slots))]
    waits = [choice.waiting[demand.id, str(k)] for k in range(len(calendar.slots))]
    periods = []
    for t, period in enumerate(calendar.periods):
        mine = [k for k, slot in enumerate(calendar.slots) if slot.period == t]
        served = sum(done[k] for k in mine) / (max(len(mine), 1) * calendar.slot_s)
        units = {
            j: choice.lent[j, demand.id, str(t)]
            for j in work.lent_rps
            if choice.lent.get((j, demand.id, str(t)))
        }
        if served <= 1e-9 * demand.rate_rps or not units:
            continue
        busiest = max(done[k] for k in mine) / calendar.slot_s
        periods.append(_run(answer, work, period.id, served, busiest, units))
    cycle_s = len(calendar.slots) * calendar.slot_s
    brought = demand.rate_rps * sum(slot.level[b] for slot in calendar.slots) * calendar.slot_s
    return DeferredResult(
        id=demand.id,
        window_s=work.deferred.window_s,
        offered_rps=brought / cycle_s,
        served_rps=sum(done) / cycle_s,
        most_waiting=max(waits),
        promise=demand.slo.attainment,
        periods=tuple(periods),
    )


def _run(
    answer: Answer,
    work: _Work,
    period: str,
    served_rps: float,
    busiest_rps: float,
    units: dict[str, int],
) -> DeferredPeriod:
    """Simulate lent units at the most that a slot of the period asks of them."""
    verify = answer.effort.verify
    size = RunSize(verify.requests, max(verify.replications // 2, 3), verify.per_replica)
    room = sum(n * work.lent_rps[j] for j, n in units.items())
    router = answer.problem.policies.router
    pools = [
        FleetPool(
            setup_of(work.templates[j].build, n, router),
            (busiest_rps * n * work.lent_rps[j] / room,),
        )
        for j, n in units.items()
    ]
    sample = sample_fleet(work.study, pools, size, stream=PERIODS)
    (found,) = sample.intervals()
    promise = work.deferred.demand.slo.attainment
    return DeferredPeriod(
        id=period,
        served_rps=served_rps,
        busiest_rps=busiest_rps,
        units=units,
        attainment=interval(found),
        verdict="broken" if any(sample.unstable()) else verdict_of(found, promise),
    )


def _breaks(period: PeriodResult) -> bool:
    return any(w.verdict != "kept" for w in period.workloads)


def _take_back(
    placed: Placed,
    calendar: Calendar,
    fleet: Fleet,
    works: list[_Work],
    need: dict[tuple[str, int], int],
) -> bool:
    """Keep a unit more where a promise broke beside what was lent; believe less where work did.

    Returns:
        Whether anything changed.
    """
    changed = False
    lending = {(j, p.id) for r in placed.results for p in r.periods for j in p.units}
    for t, period in enumerate(calendar.periods):
        if not _breaks(next(p for p in placed.busiest if p.id == period.id)):
            continue
        for pool in fleet.pools:
            j = pool.template.id
            if (j, period.id) in lending:
                need[j, t] += 1
                changed = True
    for work, result in zip(works, placed.results, strict=True):
        for period_run in result.periods:
            if period_run.verdict != "kept":
                for j in period_run.units:
                    work.lent_rps[j] *= LESS
                changed = True
    return changed


def _decision(before: Fleet, after: Fleet, work: _Work, result: DeferredResult) -> Decision:
    """Say whether work that may wait needs units of its own, and what not to wait would cost."""
    more = after.usd_per_hour - before.usd_per_hour
    each = {p.template.id: p.template.build.usd_per_hour for p in before.pools}
    now = min(math.ceil(result.offered_rps / rate) * each[j] for j, rate in work.lent_rps.items())
    where = ", ".join(f"{p.id} ({p.served_rps:.4g} req/s)" for p in result.periods)
    return Decision(
        question=f"when is {result.id} done",
        answer=f"in {len(result.periods)} periods",
        because=(
            f"within {result.window_s / 3600:g} h of its coming, by units that are free then:"
            f" {where}; all work that waits adds {more:.2f} USD/h to the fleet; replicas of its"
            f" own for its mean rate would add {now:.2f} USD/h"
        ),
        numbers={"usd_per_hour_added": more, "usd_per_hour_on_replicas_of_its_own": now},
    )
