"""The plan document: every number of the answer in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.data import version
from planner.fleet import (
    ArrivalPoint,
    BreakPoint,
    DemandPoint,
    EffectiveScenario,
    Evidence,
    FleetPlan,
    Interval,
    LengthPoint,
    ObjectiveValue,
    OneLess,
    SplitByLength,
    SplitPart,
)
from planner.planning.across import one_domain_or_several
from planner.planning.alternatives import alternatives, with_numbers
from planner.planning.apart import together_or_apart
from planner.planning.failures import failure_results, spare_decisions
from planner.planning.fitting import what_places_cost
from planner.planning.goals import changes_of, steps_of
from planner.planning.group_pools import side_documents
from planner.planning.hourly_document import objective_over, totals_over
from planner.planning.inventory import bill_lines, pool_document, supply_lines, totals
from planner.planning.lengths_sweep import if_lengths_moved
from planner.planning.limits import limit_uses
from planner.planning.moving import move_decisions
from planner.planning.periods import over_all_periods
from planner.planning.placed import stand
from planner.planning.plan_notes import (
    is_optimal,
    of_scenarios,
    of_sweeps_cut_short,
    of_the_search,
    of_users,
    why_unproven,
)
from planner.planning.prefixes import (
    beside_users,
    cold_evidence,
    what_the_cache_is_worth,
)
from planner.planning.reasons import (
    decisions,
    if_arrivals_were_burstier,
    rejections,
)
from planner.planning.results import interval, kept_of, latencies_of, workload_results
from planner.planning.robust import price_of_robustness
from planner.planning.scenarios import kept_share
from planner.planning.traffic_notes import traffic_notes
from planner.source import is_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.candidates.screen import Screened
    from planner.candidates.template import Removed
    from planner.planning.answered import Answer, Tried
    from planner.planning.refine import Refined, Verified
    from planner.problem.resolve import Problem
    from planner.simulation.fleet import FleetSample


def effective_scenario(answer: Answer) -> EffectiveScenario:
    """Return the scenario as it was answered, each value with its origin.

    Files beside the scenario are named from the working folder: the plan lies elsewhere.
    """
    loaded = answer.loaded
    document = loaded.scenario.model_dump(mode="json", exclude_none=True)
    for part, form in _files_of(document):
        named = part.get(form, "")
        if is_file(loaded.folder / named.partition("#")[0]):
            part[form] = str(loaded.folder / named)
    if "current_plan" in document:
        document["current_plan"] = str(loaded.folder / document["current_plan"])
    if "curves" in document:
        document["curves"] = [str(loaded.folder / name) for name in loaded.scenario.curves]
    return EffectiveScenario(document=document, origins=loaded.origins())


def _files_of(document: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield every part of a scenario that may name a file, and the key under which it does."""
    for workload in document["workloads"]:
        lengths = [workload["lengths"]]
        while lengths:  # kinds of requests may be mixtures themselves
            part = lengths.pop()
            lengths += part.get("mixture", [])
            yield part, "trace"
            yield part, "histogram"
        yield workload["arrivals"].get("replay", {}), "file"
        yield workload.get("prefix", {}), "trace"
    for profile in document.get("traffic", {}).get("profiles", []):
        yield profile.get("series", {}), "file"


def plan_document(
    answer: Answer,
    refined: Refined,
    shown: Verified,
    tried: Tried,
    screened: Sequence[Screened],
    left_out: Sequence[Removed],
) -> FleetPlan:
    """Write the plan of a fleet that was found and simulated."""
    problem = answer.problem
    alone = tried.alone or shown
    kept_in = kept_share(tried.scenarios)
    standing = stand(problem, shown.fleet, problem.running)
    unproven = standing.why_not or why_unproven(problem, refined, shown, kept_in)
    verified = shown is refined.best and (kept_in is None or kept_in >= problem.keep - 1e-9)
    sample, by_hour = shown.judgement.sample, tried.adapted
    kept = latencies_of(problem, answer.study, answer.effort, shown.fleet)
    workloads = workload_results(
        problem, answer.study, answer.effort, shown.fleet, shown.judgement, kept
    )
    rejected = rejections(problem, refined, alone.fleet, screened, left_out)
    return FleetPlan(
        planner_version=version(),
        seed=problem.seed,
        created=answer.created,
        scenario=effective_scenario(answer),
        status="optimal" if is_optimal(refined, verified) and not standing.why_not else "feasible",
        objective=_objective(problem, refined, shown)
        if by_hour is None
        else objective_over(problem, by_hour),
        totals=(
            totals(answer, shown) if by_hour is None else totals_over(answer, shown, by_hour)
        ).model_copy(update={"nodes": standing.nodes} if problem.topology is not None else {}),
        pools=tuple(
            side
            for i, (pool, asked, runs) in enumerate(
                zip(shown.fleet.pools, sample.asked_rps().tolist(), sample.runs, strict=True)
            )
            for side in side_documents(
                pool_document(answer, refined, pool, asked, runs),
                pool,
                runs,
                kept_of(kept, i, len(shown.fleet.pools)),
            )
        ),
        workloads=workloads,
        periods=tried.periods,
        planned_multiples={
            whole.demand.id: multiple
            for whole, multiple in zip(problem.asked, problem.planned_multiples, strict=False)
        },
        planned_deviations=problem.slower_by,
        demand_scenarios=tried.scenarios,
        deferred=tried.deferred,
        placement=standing.replicas,
        topology=problem.topology,
        supply=supply_lines(problem, shown.fleet) if by_hour is None else by_hour.supply,
        bill=bill_lines(problem, shown.fleet) if by_hour is None else by_hour.bill,
        decisions=(
            *decisions(answer.problem, refined, alone, left_out),
            *together_or_apart(answer, refined, alone, left_out),
            *tried.decisions,
            *((price_of_robustness(tried.robust),) if tried.robust is not None else ()),
            *spare_decisions(problem, refined, shown, shown.failures),
            *move_decisions(problem, refined, shown.fleet),
            *((by_hour.decision,) if by_hour is not None else ()),
            *standing.decisions,
            *one_domain_or_several(problem, refined, alone.fleet, left_out),
            *what_places_cost(problem, refined, alone.fleet),
            *what_the_cache_is_worth(problem, alone, tried.cold),
            *if_arrivals_were_burstier(answer.problem, tried.arrivals),
            *if_lengths_moved(tried.lengths),
        ),
        splits=_splits(problem),
        rejected=rejected if problem.brief else with_numbers(rejected, problem, refined),
        alternatives=None if problem.brief else alternatives(problem, refined),
        changes=changes_of(problem, shown.fleet),
        limits=(
            *limit_uses(problem, refined, shown.fleet, answer.study, sample.runs),
            *(by_hour.limits if by_hour is not None else ()),
        ),
        settings=tried.settings,
        evidence=Evidence(
            verified=verified,
            unproven=unproven,
            seeds=tuple(range(answer.effort.verify.replications)),
            requests=answer.study.meter.requests,
            one_less=_one_less(answer, shown),
            failures=failure_results(problem, shown.failures),
            demand_sweep=tuple(
                DemandPoint(multiple=multiple, attainment=_by_workload(answer, s))
                for multiple, s in tried.demand
            ),
            breaks_at=tuple(
                BreakPoint(
                    workload=b.workload,
                    kept_at=b.kept_at,
                    broken_at=b.broken_at,
                    attainment=interval(b.attainment) if b.attainment is not None else None,
                    cause=b.cause,
                )
                for b in tried.breaks
            ),
            promise_kept=tried.kept,
            robust=tried.robust,
            stress=tried.stress,
            arrival_sweep=tuple(
                ArrivalPoint(
                    arrivals=a.name,
                    attainment=_by_workload(answer, a.sample),
                    ttft_p99_s=dict(
                        zip((w.demand.id for w in problem.asked), a.ttft_p99_s, strict=True)
                    ),
                    accelerators=a.accelerators,
                )
                for a in tried.arrivals
            ),
            length_sweep=tuple(
                LengthPoint(
                    prompt_multiple=moved.prompt,
                    output_multiple=moved.output,
                    attainment=_by_workload(answer, moved.sample),
                    unstable=any(moved.sample.unstable()),
                    goodput_lost=moved.lost,
                    goodput_lost_together=moved.lost_together,
                )
                for moved in tried.lengths
            ),
            promise_kept_in=kept_in,
            without_prefix_cache=cold_evidence(answer, tried.cold),
            candidates=len(screened) + len(left_out),
            proof_covers=_proof_covers(problem, refined),
            notes=(
                *of_the_search(answer, refined, shown, tried.demand, unproven),
                *of_sweeps_cut_short(problem, tried),
                *of_users(workloads),
                *of_scenarios(problem, kept_in),
                *over_all_periods(tried.periods),
                *traffic_notes(problem),
                *standing.notes,
                *beside_users(problem, shown.fleet),
            ),
        ),
    )


def _splits(problem: Problem) -> tuple[SplitByLength, ...]:
    return tuple(
        SplitByLength(
            workload=whole.demand.id,
            up_to=whole.at_tokens,
            parts=tuple(
                SplitPart(
                    id=problem.demands[w].id,
                    share=problem.demands[w].rate_rps / whole.demand.rate_rps,
                    promise=problem.demands[w].slo.attainment,
                )
                for w in whole.parts
            ),
        )
        for whole in problem.wholes
        if whole.at_tokens is not None
    )


def _by_workload(answer: Answer, sample: FleetSample) -> dict[str, Interval]:
    asked = answer.problem.asked
    estimates = sample.intervals([whole.parts for whole in asked])
    return {w.demand.id: interval(e) for w, e in zip(asked, estimates, strict=True)}


def _objective(problem: Problem, refined: Refined, shown: Verified) -> ObjectiveValue:
    """State the value that the simulation showed, beside what the points say cannot be beaten."""
    choice = refined.choice
    if problem.objective == "min_cost":
        value = shown.fleet.usd_per_hour
        bound = min(choice.bound, value)
    else:
        per_dollar = problem.objective == "max_goodput_per_usd"
        value = shown.worth_per_usd if per_dollar else shown.worth_rps
        bound = max(choice.bound * (3600 if per_dollar else 1), value)
    return ObjectiveValue(
        name=problem.objective,
        value=value,
        bound=bound,
        gap=abs(bound - value) / value,
        steps=steps_of(choice),
    )


def _one_less(answer: Answer, shown: Verified) -> tuple[OneLess, ...]:
    lines = []
    for pool, _, judgement in shown.one_less:
        if judgement is None:
            lines.append(OneLess(pool=pool, attainment={}, verdict="broken"))
        else:
            lines.append(
                OneLess(
                    pool=pool,
                    attainment=_by_workload(answer, judgement.sample),
                    verdict=judgement.verdict,
                    unstable=any(judgement.sample.unstable()),
                )
            )
    lines += [
        OneLess(
            pool=side,
            attainment=_by_workload(answer, judgement.sample),
            verdict=judgement.verdict,
            unstable=any(judgement.sample.unstable()),
        )
        for side, judgement in shown.one_side_less
    ]
    return tuple(lines)


def _of_those_not_measured(problem: Problem, refined: Refined) -> str:
    """Say how good a fleet could be that has templates which were not measured."""
    proof = refined.proof
    if proof is None or not proof.open:
        return ""
    words = {
        "min_cost": f"costs less than {proof.bound:.2f} USD/h",
        "max_goodput": f"serves more than {proof.bound:.5g} compliant req/s by value",
        "max_goodput_per_usd": f"serves more than {proof.bound * 3600:,.0f} compliant requests by"
        " value for a dollar",
    }
    return (
        f"; and no fleet with any of {proof.open} templates that were not measured"
        f" {words[problem.objective]}, if each carries the most that its mean field or a short"
        " simulation allows"
    )


def _proof_covers(problem: Problem, refined: Refined) -> str:
    templates = len(refined.frontiers)
    points = sum(len(f.points) for f in refined.frontiers.values())
    return (
        f"the best of all fleets of {templates} templates at {points} operating points, as"
        " simulated from their curves; not curve error, not templates that were left out, not"
        " demand other than stated"
        + _of_those_not_measured(problem, refined)
        + ("; not fleets that hold other units for work that waits" if problem.deferred else "")
    )
