"""What a reader of the plan should know beside its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.kernels import COMPILED, engine
from planner.planning.curve_notes import curve_notes
from planner.planning.deferral import NOT_PLACED
from planner.planning.sweep import CVS, MULTIPLES
from planner.simulation.fleet import verdict_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.fleet import WorkloadResult
    from planner.planning.answered import Answer, Tried
    from planner.planning.refine import Refined, Verified
    from planner.problem.resolve import Problem
    from planner.simulation.fleet import FleetSample


def is_optimal(refined: Refined, verified: bool) -> bool:
    """Tell whether the fleet is proven best, and keeps its promises."""
    return verified and not refined.unsettled and refined.choice.status == "optimal"


def why_unproven(problem: Problem, refined: Refined, shown: Verified, kept_in: float | None) -> str:
    """Say why the fleet is not proven best; empty where it is."""
    if is_optimal(refined, shown is refined.best):
        if kept_in is None or kept_in >= problem.keep - 1e-9:
            return ""
        return (
            f"every promise is kept in {kept_in:.1%} of the weight of the demand's scenarios only;"
            f" {problem.keep:.1%} are asked for"
        )
    if refined.unsettled:
        return refined.unsettled
    if shown is not refined.best:
        return "no fleet was found whose every promise is kept"
    return refined.choice.unproven(problem.gap)


def of_scenarios(problem: Problem, kept_in: float | None) -> tuple[str, ...]:
    """Say what was planned for among scenarios of the demand, and how sure the promise is."""
    if kept_in is None:
        return ()
    each = ", ".join(
        f"{m:g} x {whole.demand.id}"
        for whole, m in zip(problem.asked, problem.planned_multiples, strict=True)
    )
    return (
        f"planned for {each}, the highest of each workload among scenarios that weigh"
        f" {problem.keep:.0%} or more; every promise is kept in {kept_in:.1%} of the weight",
    )


def of_sweeps_cut_short(problem: Problem, tried: Tried) -> tuple[str, ...]:
    """Say which tables the time limit, or an interrupt, left short."""
    of: list[tuple[str, int, int]] = [
        ("multiples of the demand", len(tried.demand), len(MULTIPLES)),
        ("other arrivals", len(tried.arrivals), len(CVS)),
    ]
    if problem.calendar is not None:
        of.append(("periods", len(tried.periods), len(problem.calendar.periods)))
    short = [f"{had} of {all_} {what}" for what, had, all_ in of if had < all_]
    if not short:
        return ()
    return (f"the time was over before all was shown of this fleet: {', '.join(short)}",)


def of_users(workloads: Sequence[WorkloadResult]) -> tuple[str, ...]:
    """Say how often users who wait for their answers ask of this fleet."""
    return tuple(
        f"{w.id}: {w.users.users:,} users ask {w.offered_rps:.4g} req/s of this fleet: an answer"
        f" takes {w.users.response_s:.3g} s in the mean, and the thinking {w.users.think_s:g} s"
        for w in workloads
        if w.users is not None
    )


def of_the_search(
    answer: Answer,
    refined: Refined,
    shown: Verified,
    sweep: Sequence[tuple[float, FleetSample]],
    unproven: str,
) -> tuple[str, ...]:
    """Say how far the search came, and what becomes of the fleet under more demand."""
    notes = []
    if unproven:
        notes.append(f"not proven best: {unproven}")
    if shown is not refined.best and refined.unsettled != NOT_PLACED:
        notes.append("no fleet was found whose every promise is kept; this one is the last tried")
    notes += curve_notes(answer.problem, (p.template.build for p in shown.fleet.pools))
    if not COMPILED:
        notes.append("simulated in plain Python: fewer requests, wider intervals")
        if len(set(answer.problem.priorities)) > 1:
            notes.append("priority scheduling is searched with the compiled simulator only")
    elif not engine.COMPILED:
        notes.append(engine.STATUS)
    growing = [f"{multiple:g}" for multiple, sample in sweep if any(sample.unstable())]
    if growing:
        notes.append(
            f"at {', '.join(growing)} times the demand the backlog grows without end; the"
            " attainment there is what the simulated span gave"
        )
    asked = answer.problem.asked
    promises = [whole.demand.slo.attainment for whole in asked]
    groups = [whole.parts for whole in asked]
    broken = [
        f"{multiple:g}"
        for multiple, sample in sweep
        if any(
            verdict_of(i, p) == "broken"
            for i, p in zip(sample.intervals(groups), promises, strict=True)
        )
    ]
    if broken:
        notes.append(f"a promise is broken at {broken[0]} times the demand")
    return tuple(notes)
