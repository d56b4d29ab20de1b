"""From a scenario to a plan: the whole way, one stage after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.candidates.enumerate import enumerate_builds
from planner.candidates.groups import screen_groups, together
from planner.candidates.screen import Screened, screen
from planner.candidates.serve import templates_of
from planner.catalogue import Catalogue
from planner.errors import InfeasibleError, InputError, LimitReachedError
from planner.milp import NoFleetError
from planner.planning.answered import Answer, Tried
from planner.planning.breaking import where_it_breaks
from planner.planning.chances import promise_kept
from planner.planning.clock import Clock
from planner.planning.column_prices import columns_of
from planner.planning.deferral import NOT_PLACED, grown, place_deferred
from planner.planning.document import plan_document
from planner.planning.hourly import NOT_ADAPTED, adapt, no_terms, settled
from planner.planning.infeasible import explain_barriers, explain_limits, infeasible_plan, no_time
from planner.planning.lengths_sweep import sweep_lengths
from planner.planning.margins import margins_of
from planner.planning.periods import period_results
from planner.planning.policy_search import (
    Known,
    Peak,
    added_to,
    climb_all,
    known_of,
    settings_decision,
    with_peaks,
)
from planner.planning.prefixes import Cold, cold_sample, keeps_prefixes, without_prefixes
from planner.planning.priced import MEASURED_TO, coarsely, refine_priced
from planner.planning.pricing import Pricing
from planner.planning.refine import INTERRUPTED, LIMIT_ENDED, Refined, Refinement, Verified
from planner.planning.robust import NOT_KNOWN, RobustSearch, not_robust, robust_result
from planner.planning.scenarios import planned_for, scenario_results
from planner.planning.settings_document import settings_section
from planner.planning.split import is_better, limits_of_a_split, price_splits, split_decisions
from planner.planning.stress import stress_results
from planner.planning.study import effort_for, study_of
from planner.planning.sweep import sweep_arrivals, sweep_demand
from planner.planning.teller import Teller
from planner.problem.resolve import Problem, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.candidates.groups import Grouped
    from planner.candidates.template import Removed, Template
    from planner.fleet import Decision, FleetPlan, PeriodResult, RobustResult
    from planner.planning.deferral import Placed
    from planner.planning.fleet import Fleet
    from planner.planning.hourly import Adapted
    from planner.scenario.load import LoadedScenario
    from planner.simulation.effort import Effort


def plan_scenario(
    loaded: LoadedScenario,
    *,
    created: str | None = None,
    progress: Callable[[str, float], None] | None = None,
    catalogue: Catalogue | None = None,
    effort: Effort | None = None,
    clock: Clock | None = None,
) -> FleetPlan:
    """Find the best fleet for a scenario, verify it by simulation, and say what is known of it.

    An infeasible scenario gives a plan document too, with status ``infeasible`` and the reasons;
    so does one for which no plan was found in time (``unknown``).

    Args:
        loaded: The scenario.
        created: Date or other text to write into the plan.
        progress: Told what is being done and about which share of the whole is done.
        catalogue: Facts; the shipped ones if left out.
        effort: How much to simulate; what suits the kernel if left out.
        clock: The time that is left; the scenario's limit, from now on, if left out.

    Raises:
        InputError: The scenario names what does not exist or cannot be read.
    """
    catalogue = catalogue or Catalogue()
    problem = resolve(loaded, catalogue)
    tell = Teller(progress)
    clock = clock or Clock(problem.time_limit_s)
    study = study_of(problem)
    effort = effort or effort_for(problem)
    answer = Answer(loaded, problem, study, catalogue, created, effort)
    try:
        problem = planned_for(answer, clock.check)
        answer = replace(answer, problem=problem, study=study_of(problem, study.meter))
        return _plan(answer, clock, tell)
    except (LimitReachedError, KeyboardInterrupt) as error:
        clock.stop_on(error)
        return infeasible_plan(answer, "unknown", ())


@dataclass(frozen=True, slots=True)
class Found:
    """A fleet, and what it was chosen from."""

    answer: Answer
    refined: Refined
    screened: tuple[Screened, ...]
    left_out: tuple[Removed, ...]
    peaks: tuple[Peak, ...] = ()
    """Where searches for scheduler settings ended."""
    robust: RobustResult | None = None
    """What it is worth to keep promises in most cases, where that is asked for."""


def _plan(answer: Answer, clock: Clock, tell: Teller) -> FleetPlan:
    """Find a fleet, and one whose router tells long prompts from short ones if that is better."""
    if answer.problem.robust is not None:
        return _plan_robust(answer, clock, tell)
    found = _search(answer, clock, tell)
    refined = found.refined if isinstance(found, Found) else None
    priced = price_splits(answer, refined, clock, tell)
    if priced is None:
        return _finish(found, (), clock, tell) if isinstance(found, Found) else found
    other: Found | FleetPlan | None = None
    if (problem := priced.worth_a_search()) is not None:
        parts = replace(answer, problem=problem, study=study_of(problem, answer.study.meter))
        try:
            other = _search(parts, clock, tell)
        except (LimitReachedError, KeyboardInterrupt) as error:
            clock.stop_on(error)
            other = None
    split = other.refined if isinstance(other, Found) else None
    told = split_decisions(answer, priced, refined, split)
    if isinstance(other, Found) and is_better(answer.problem, other.refined, refined):
        found = other
    if isinstance(found, Found):
        return _finish(found, told, clock, tell)
    more = limits_of_a_split(answer, priced)
    return found.model_copy(update={"infeasibility": (*found.infeasibility, *more)})


def _plan_robust(answer: Answer, clock: Clock, tell: Teller) -> FleetPlan:
    """Find a fleet that keeps every promise in most cases of demand and step times."""
    none: FleetPlan | None = None
    by_answer: dict[int, Found] = {}

    def search(one: Answer) -> tuple[Answer, Refined] | None:
        nonlocal none
        found = _search(one, clock, tell)
        if not isinstance(found, Found):
            none = none or found
            return None
        by_answer[id(found.answer)] = found
        return found.answer, found.refined

    robust = RobustSearch(answer, search, clock, tell)
    plain = best = None
    try:
        plain, best = robust.run()
    except (LimitReachedError, KeyboardInterrupt) as error:
        clock.stop_on(error)
        if not by_answer:
            raise
    if plain is None:
        first = next(iter(by_answer.values()), None)
        if first is None:
            return none or infeasible_plan(answer, "unknown", ())
        ended = replace(first.refined, unsettled=first.refined.unsettled or NOT_KNOWN)
        return _finish(replace(first, refined=ended), (), clock, tell)
    chosen = best or plain
    found = by_answer[id(chosen.answer)]
    result = robust_result(robust, plain, chosen)
    refined = found.refined
    if best is None:
        refined = replace(refined, unsettled=refined.unsettled or not_robust(result, clock.over))
    return _finish(replace(found, refined=refined, robust=result), (), clock, tell)


def first_fleet(
    loaded: LoadedScenario, catalogue: Catalogue, effort: Effort | None, clock: Clock
) -> Fleet | None:
    """Return a fleet that keeps every promise, the first that a plan comes upon; None if none.

    What :func:`plan_scenario` does, as far as it takes to know whether there is a plan at all.

    Raises:
        InputError: The scenario cannot be answered.
        LimitReachedError: The time was over before it was known.
    """
    answer = _posed(loaded, catalogue, effort, clock)
    problem = answer.problem
    tell = Teller()
    found = _search(answer, clock, tell, enough=not problem.deferred)
    refined = found.refined if isinstance(found, Found) else None
    if refined is None or refined.best is None:
        priced = price_splits(answer, refined, clock, tell)
        split = priced.worth_a_search() if priced is not None else None
        if split is None:
            return None
        answer = replace(answer, problem=split, study=study_of(split, answer.study.meter))
        found = _search(answer, clock, tell, enough=not problem.deferred)
        refined = found.refined if isinstance(found, Found) else None
    if refined is None or refined.best is None:
        return None
    fleet = refined.best.fleet
    if answer.problem.deferred:
        try:
            placed = place_deferred(answer, refined, fleet, clock, tell)
        except InfeasibleError:
            return None
        return placed.fleet if placed.kept else None
    return fleet


def searched(
    loaded: LoadedScenario,
    catalogue: Catalogue,
    effort: Effort | None,
    clock: Clock,
    tell: Teller,
) -> Found | FleetPlan:
    """Return the best fleet with all it was chosen from: no workload split, nothing swept.

    Raises:
        InputError: The scenario cannot be answered.
        LimitReachedError: The time was over before there was a fleet.
    """
    if loaded.scenario.uncertainty is not None and loaded.scenario.uncertainty.robust is not None:
        what = "is asked of `planner plan` alone; leave it out here"
        raise InputError(f"{loaded.at('uncertainty', 'robust')}: uncertainty.robust: {what}")
    return _search(_posed(loaded, catalogue, effort, clock), clock, tell)


def _posed(
    loaded: LoadedScenario, catalogue: Catalogue, effort: Effort | None, clock: Clock
) -> Answer:
    """Return the question at the demand that is planned for."""
    problem = resolve(loaded, catalogue)
    effort = effort or effort_for(problem)
    answer = Answer(loaded, problem, study_of(problem), catalogue, None, effort)
    problem = planned_for(answer, clock.check)
    return replace(answer, problem=problem, study=study_of(problem, answer.study.meter))


def _search(
    answer: Answer, clock: Clock, tell: Teller, *, enough: bool = False
) -> Found | FleetPlan:
    """Look for the best fleet; a plan document that says why, if there is none.

    ``enough``: the first fleet that keeps every promise will do.
    """
    problem, study = answer.problem, answer.study
    tell("listing candidates", 0.02)
    builds, left_out = enumerate_builds(problem, answer.catalogue)
    groups, barriers = templates_of(problem, study, builds, clock.check)
    left_out += [barrier.removed for barrier in barriers]
    paired = screen_groups(problem, study, builds, groups, answer.effort, clock.check)
    left_out += paired.removed
    unserved = _unserved(problem, groups, paired.screened)
    if unserved:
        reasons = explain_barriers(problem, study, unserved, builds, barriers, left_out)
        return infeasible_plan(answer, "infeasible", reasons, left_out)
    if paired.screened or problem.sites.all:  # prices of units do not know whole nodes
        return _search_screened(answer, groups, paired, left_out, clock, tell, enough=enough)
    columns, removed = columns_of(study, groups, [d.slo.tpot for d in problem.demands])
    pricing = Pricing(problem, study, coarsely(answer.effort), clock, tell, columns)
    pricing.gap = max(problem.gap, MEASURED_TO)
    refinement = Refinement(problem, study, answer.effort, clock, tell)
    refined: Refined | None
    peaks: list[Peak] = []
    try:
        pricing.run()
        peaks = _climbed(answer, known_of(pricing.columns.values()), clock, tell)
        if added_to(pricing.columns, peaks):
            pricing.resume()
        if not enough:
            pricing.compare()
        left_out += [*removed, *pricing.removed()]
        unserved = _unserved(problem, pricing.serving())
        if unserved:
            reasons = explain_barriers(problem, study, unserved, builds, barriers, left_out)
            return infeasible_plan(answer, "infeasible", reasons, left_out)
        refined = refine_priced(refinement, pricing, enough=enough)
    except NoFleetError as error:
        reasons = explain_limits(refinement.problem, error)
        return infeasible_plan(answer, "infeasible", reasons, left_out)
    except (LimitReachedError, KeyboardInterrupt) as error:
        clock.stop_on(error)
        if enough:  # what was cut short says nothing of whether there is a fleet
            raise
        refinement.beliefs.frontiers = pricing.measured() | refinement.beliefs.frontiers
        refined = refinement.hasty()
        if refined is None:
            raise
    given = [r for r in left_out if r.name not in columns]
    left = (*given, *removed, *pricing.removed())
    answer = replace(answer, problem=refinement.problem)
    return Found(answer, refined, tuple(pricing.screened()), left, tuple(peaks))


def _search_screened(
    answer: Answer,
    groups: dict[tuple[int, ...], list[Template]],
    paired: Grouped,
    left_out: list[Removed],
    clock: Clock,
    tell: Teller,
    *,
    enough: bool,
) -> Found | FleetPlan:
    """Look for the best fleet among templates that were screened, and groups with them."""
    problem = answer.problem
    screened, removed = _screen(answer, groups, clock, tell)
    left_out += removed
    known = [Known(s.template, s.capacity_rps, simulated=True) for s in screened]
    peaks = _climbed(answer, known, clock, tell)
    screened = together(problem, with_peaks(screened, peaks), paired.screened)
    refinement = Refinement(problem, answer.study, answer.effort, clock, tell)
    refined: Refined | None
    try:
        refinement.measure_all(screened)
        refined = refinement.run(enough=enough)
    except NoFleetError as error:
        reasons = explain_limits(refinement.problem, error)
        return infeasible_plan(answer, "infeasible", reasons, left_out)
    except (LimitReachedError, KeyboardInterrupt) as error:
        clock.stop_on(error)
        if enough:
            raise
        refined = refinement.hasty()
        if refined is None:
            raise
    answer = replace(answer, problem=refinement.problem)
    return Found(answer, refined, tuple(screened), tuple(left_out), tuple(peaks))


def _climbed(answer: Answer, known: list[Known], clock: Clock, tell: Teller) -> list[Peak]:
    """Search the scheduler settings of the replicas that may be chosen, where that is asked for."""
    if answer.problem.policies.search == "listed":
        return []
    tell("searching scheduler settings", 0.2)
    return climb_all(answer.problem, answer.study, answer.effort, known, clock.check)


def _screen(
    answer: Answer,
    groups: dict[tuple[int, ...], list[Template]],
    clock: Clock,
    tell: Teller,
) -> tuple[list[Screened], list[Removed]]:
    problem = answer.problem
    tpot_s = [d.slo.tpot for d in problem.demands]
    kept: list[Screened] = []
    removed: list[Removed] = []
    for _, templates in sorted(groups.items()):
        tell(f"screening {len(templates)} templates for {templates[0].label}", 0.05)
        router, stays = problem.policies.router, problem.stays
        best, rest = screen(
            answer.study, templates, tpot_s, router, answer.effort, clock.check, stays
        )
        kept += best
        removed += rest
    return kept, removed


def _unserved(
    problem: Problem,
    groups: dict[tuple[int, ...], list[Template]],
    paired: Sequence[Screened] = (),
) -> list[int]:
    served = {w for serves, templates in groups.items() if templates for w in serves}
    served |= {w for one in paired for w in one.template.serves}
    return [w for w in range(len(problem.demands)) if w not in served]


def _finish(found: Found, told: tuple[Decision, ...], clock: Clock, tell: Teller) -> FleetPlan:
    answer, refined, left_out = found.answer, found.refined, found.left_out
    shown = refined.best or refined.last
    if shown is None:
        return infeasible_plan(answer, "unknown", (), left_out, refined.unsettled)
    alone = shown
    try:
        refined, shown, placed = _deferred(answer, refined, shown, clock, tell)
    except InfeasibleError as error:
        return infeasible_plan(answer, "infeasible", no_time(answer.problem, error), left_out)
    try:
        refined, adapted = _adapted(answer, refined, shown, clock, tell)
    except InfeasibleError as error:
        return infeasible_plan(answer, "infeasible", no_terms(error), left_out)
    tell("sweeping the demand", 0.95)
    problem, study, effort = answer.problem, answer.study, answer.effort
    router = problem.policies.router
    hits = shown.judgement.sample.hit_rates()
    kept = any(keeps_prefixes(problem, pool) for pool in alone.fleet.pools)

    def over() -> bool:
        return clock.over

    try:
        if problem.brief:
            return _brief(found, told, (refined, shown, alone), placed, adapted, clock)
        grown_by = sweep_demand(study, shown.fleet, router, effort, over)
        breaks = where_it_breaks(problem, study, shown.fleet, effort, grown_by, over)
        margins = margins_of(problem, study, shown.fleet, effort, breaks, over=over)
        tried = Tried(
            demand=grown_by,
            breaks=breaks,
            kept=promise_kept(problem, shown.fleet, margins),
            robust=found.robust,
            stress=stress_results(answer, shown.fleet, over),
            periods=_periods(adapted, placed)
            or period_results(problem, study, shown.fleet, effort, over=over),
            arrivals=sweep_arrivals(problem, study, shown.fleet, hits, effort, over),
            decisions=(
                *told,
                *settings_decision(found.peaks, alone),
                *(placed.decisions if placed is not None else ()),
            ),
            deferred=placed.results if placed is not None else (),
            lengths=sweep_lengths(answer, refined, shown, over),
            scenarios=scenario_results(answer, shown.fleet, clock),
            cold=_cold(answer, alone, clock, tell) if kept else None,
            adapted=adapted,
            alone=alone,
            settings=settings_section(answer, alone.fleet, over),
        )
        refined = _as_ended(refined, clock)
        return plan_document(answer, refined, shown, tried, found.screened, left_out)
    except KeyboardInterrupt as error:  # the plan is there: not to be lost for its last tables
        if clock.interrupted:  # a second time: at once
            raise
        clock.stop_on(error)
        stopped = _as_ended(refined, clock)
        deferred = placed.results if placed is not None else ()
        tried = Tried((), (), (), told, deferred, alone=alone, adapted=adapted)
        return plan_document(answer, stopped, shown, tried, found.screened, left_out)


def _deferred(
    answer: Answer, refined: Refined, shown: Verified, clock: Clock, tell: Teller
) -> tuple[Refined, Verified, Placed | None]:
    """Place the work that waits, where there is any, with the units that it takes.

    Raises:
        InfeasibleError: It is not done in its time, whatever is bought.
    """
    if not answer.problem.deferred:
        return refined, shown, None
    try:
        placed = place_deferred(answer, refined, shown.fleet, clock, tell)
    except (LimitReachedError, KeyboardInterrupt) as error:
        clock.stop_on(error)
        return replace(refined, best=None, last=shown, unsettled=NOT_PLACED), shown, None
    return (*grown(answer.problem, refined, shown, placed), placed)


def _periods(adapted: Adapted | None, placed: Placed | None) -> tuple[PeriodResult, ...]:
    """Return the periods that were planned one by one."""
    if adapted is not None:
        return adapted.periods
    return placed.periods if placed is not None else ()


def _brief(
    found: Found,
    told: tuple[Decision, ...],
    way: tuple[Refined, Verified, Verified],
    placed: Placed | None,
    adapted: Adapted | None,
    clock: Clock,
) -> FleetPlan:
    """Write the plan without what else could have been."""
    refined, shown, alone = way
    tried = Tried(
        demand=(),
        arrivals=(),
        periods=_periods(adapted, placed),
        robust=found.robust,
        decisions=(
            *told,
            *settings_decision(found.peaks, alone),
            *(placed.decisions if placed is not None else ()),
        ),
        deferred=placed.results if placed is not None else (),
        scenarios=scenario_results(found.answer, shown.fleet, clock),
        adapted=adapted,
        alone=alone,
    )
    ended = _as_ended(refined, clock)
    return plan_document(found.answer, ended, shown, tried, found.screened, found.left_out)


def _as_ended(refined: Refined, clock: Clock) -> Refined:
    """Say that an interrupt ended the work, where one did."""
    return replace(refined, unsettled=refined.unsettled or INTERRUPTED * clock.interrupted)


def _adapted(
    answer: Answer, refined: Refined, shown: Verified, clock: Clock, tell: Teller
) -> tuple[Refined, Adapted | None]:
    """Find a fleet for every period, where that is asked for."""
    if not answer.problem.adapts:
        return refined, None
    try:
        adapted = adapt(answer, refined, shown.fleet, clock, tell)
    except (LimitReachedError, KeyboardInterrupt) as error:
        clock.stop_on(error)
        return replace(refined, best=None, last=shown, unsettled=NOT_ADAPTED), None
    return settled(refined, shown, adapted), adapted


def _cold(answer: Answer, shown: Verified, clock: Clock, tell: Teller) -> Cold:
    """Plan once more with every prompt computed whole, and simulate the fleet so."""
    tell("planning at a hit rate of 0", 0.9)
    sample = cold_sample(answer, shown.fleet)
    cold = replace(answer, problem=without_prefixes(answer.problem))
    try:
        found = _search(cold, clock, Teller(None))
    except LimitReachedError:
        return Cold(sample, None, "the time was over before a fleet was found")
    if not isinstance(found, Found):
        why = found.infeasibility[0] if found.infeasibility else None
        return Cold(
            sample,
            None,
            f"nothing keeps every promise ({why.limit}: has {why.has}, needs {why.needs})"
            if why
            else "no fleet was found",
        )
    if found.refined.best is None:
        early = "the time was over before a fleet was found that keeps every promise"
        none = "no fleet was found that keeps every promise"
        return Cold(sample, None, early if found.refined.unsettled == LIMIT_ENDED else none)
    return Cold(sample, found.refined.best, "")
