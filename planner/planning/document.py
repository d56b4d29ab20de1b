"""The plan document: every number of the answer in its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.candidates.serve import longest_requests
from planner.data import version
from planner.fleet import (
    ArrivalPoint,
    BillLine,
    DemandPoint,
    EffectiveScenario,
    Evidence,
    FleetPlan,
    Interval,
    ObjectiveValue,
    OneLess,
    Pool,
    SplitByLength,
    SplitPart,
    SupplyLine,
    Totals,
)
from planner.kernels import COMPILED
from planner.planning.curve_notes import curve_note, curve_notes
from planner.planning.deferral import NOT_PLACED
from planner.planning.periods import over_all_periods
from planner.planning.prefixes import (
    beside_users,
    cold_evidence,
    hits_of,
    keeps_prefixes,
    what_the_cache_is_worth,
)
from planner.planning.reasons import (
    decisions,
    if_arrivals_were_burstier,
    limit_uses,
    rejections,
)
from planner.planning.results import interval, workload_results
from planner.planning.scenarios import kept_share
from planner.planning.traffic_notes import traffic_notes
from planner.simulation.fleet import verdict_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.candidates.screen import Screened
    from planner.candidates.template import Removed
    from planner.catalogue import Catalogue
    from planner.fleet import (
        Decision,
        DeferredResult,
        PeriodResult,
        ScenarioResult,
        WorkloadResult,
    )
    from planner.planning.fleet import Fleet, PoolChoice
    from planner.planning.prefixes import Cold
    from planner.planning.refine import Refined, Verified
    from planner.planning.sweep import Arrived
    from planner.problem.resolve import Problem
    from planner.scenario.load import LoadedScenario
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import FleetSample, Study
    from planner.simulation.pool import PoolRun


@dataclass(frozen=True, slots=True)
class Answer:
    """What every document of one answer needs."""

    loaded: LoadedScenario
    problem: Problem
    study: Study
    catalogue: Catalogue
    created: str | None
    effort: Effort


@dataclass(frozen=True, slots=True)
class Tried:
    """The chosen fleet under other loads than it was planned for."""

    demand: Sequence[tuple[float, FleetSample]]
    arrivals: Sequence[Arrived]
    periods: tuple[PeriodResult, ...]
    decisions: tuple[Decision, ...] = ()
    """Made before this fleet was chosen."""
    deferred: tuple[DeferredResult, ...] = ()
    scenarios: tuple[ScenarioResult, ...] = ()
    cold: Cold | None = None
    """The plan at a hit rate of 0, where prefixes are kept."""
    alone: Verified | None = None
    """The fleet before units were added for work that waits, where there is such work. What was
    decided between is compared with it."""


def effective_scenario(answer: Answer) -> EffectiveScenario:
    """Return the scenario as it was answered, each value with its origin.

    Files beside the scenario are named from the working folder: the plan lies elsewhere.
    """
    loaded = answer.loaded
    document = loaded.scenario.model_dump(mode="json", exclude_none=True)
    for part, form in _files_of(document):
        named = part.get(form, "")
        if (loaded.folder / named.partition("#")[0]).is_file():
            part[form] = str(loaded.folder / named)
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
    verified = shown is refined.best and (kept_in is None or kept_in >= problem.keep - 1e-9)
    sample = shown.judgement.sample
    workloads = workload_results(problem, answer.study, answer.effort, shown.fleet, shown.judgement)
    return FleetPlan(
        planner_version=version(),
        seed=problem.seed,
        created=answer.created,
        scenario=effective_scenario(answer),
        status="optimal" if _is_optimal(refined, verified) else "feasible",
        objective=_objective(problem, refined, shown),
        totals=_totals(answer, shown),
        pools=tuple(
            _pool(answer, refined, pool, asked, runs)
            for pool, asked, runs in zip(
                shown.fleet.pools, sample.asked_rps().tolist(), sample.runs, strict=True
            )
        ),
        workloads=workloads,
        periods=tried.periods,
        planned_multiples={
            whole.demand.id: multiple
            for whole, multiple in zip(problem.asked, problem.planned_multiples, strict=False)
        },
        demand_scenarios=tried.scenarios,
        deferred=tried.deferred,
        supply=_supply(problem, shown.fleet),
        bill=_bill(shown.fleet),
        decisions=(
            *decisions(answer.problem, refined, alone, left_out),
            *tried.decisions,
            *what_the_cache_is_worth(problem, alone, tried.cold),
            *if_arrivals_were_burstier(answer.problem, tried.arrivals),
        ),
        splits=_splits(problem),
        rejected=rejections(problem, refined, alone.fleet, screened, left_out),
        limits=limit_uses(problem, refined, shown.fleet),
        evidence=Evidence(
            verified=verified,
            unproven=_unproven(problem, refined, shown),
            seeds=tuple(range(answer.effort.verify.replications)),
            requests=answer.study.meter.requests,
            one_less=_one_less(answer, shown),
            demand_sweep=tuple(
                DemandPoint(multiple=multiple, attainment=_by_workload(answer, s))
                for multiple, s in tried.demand
            ),
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
            promise_kept_in=kept_in,
            without_prefix_cache=cold_evidence(answer, tried.cold),
            candidates=len(screened) + len(left_out),
            proof_covers=_proof_covers(problem, refined),
            notes=(
                *_notes(answer, refined, shown, tried.demand),
                *_of_users(workloads),
                *_of_scenarios(problem, kept_in),
                *over_all_periods(tried.periods),
                *traffic_notes(problem),
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


def _is_optimal(refined: Refined, verified: bool) -> bool:
    return verified and not refined.unsettled and refined.choice.status == "optimal"


def _unproven(problem: Problem, refined: Refined, shown: Verified) -> str:
    """Say why the fleet is not proven best; empty where it is."""
    if _is_optimal(refined, shown is refined.best):
        return ""
    if refined.unsettled:
        return refined.unsettled
    if shown is not refined.best:
        return "no fleet was found whose every promise is kept"
    return refined.choice.unproven(problem.gap)


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
        name=problem.objective, value=value, bound=bound, gap=abs(bound - value) / value
    )


def _totals(answer: Answer, shown: Verified) -> Totals:
    fleet, problem = shown.fleet, answer.problem
    paces = shown.judgement.sample.paces().tolist()
    offered = sum(whole.demand.rate_rps * paces[whole.parts[0]] for whole in problem.asked)
    goodput, cost = shown.goodput_rps, fleet.usd_per_hour
    power = [_power_w(answer, pool) for pool in fleet.pools]
    return Totals(
        offered_rps=offered,
        goodput_rps=goodput,
        weighted_goodput_rps=shown.worth_rps,
        attainment=goodput / offered,
        cost_usd_per_hour=cost,
        usd_per_thousand_compliant=cost / 3.6 / goodput if goodput else None,
        compliant_requests_per_usd=goodput * 3600 / cost if cost else None,
        accelerators=sum(p.units * p.template.build.tp_degree for p in fleet.pools),
        nodes=None,
        power_w=sum(p for p in power if p is not None) if None not in power else None,
        mfu=_fleet_mfu(answer, shown),
    )


def _power_w(answer: Answer, pool: PoolChoice) -> float | None:
    board = pool.template.build.curve.accelerator.board_power
    return None if board is None else board * pool.units * pool.template.build.tp_degree


def _flops(
    answer: Answer, pool: PoolChoice, asked_rps: Sequence[float]
) -> tuple[float, float] | None:
    """Return model FLOP/s that a pool achieves, and the dense peak of its accelerators.

    Two FLOP per active parameter and token, prompt and output; attention is not counted.
    """
    build = pool.template.build
    peak = build.curve.accelerator.peak(build.precision)
    active = build.curve.llm.params_active_b
    if peak is None or active is None:
        return None
    tokens = 0.0
    for w, load in enumerate(asked_rps):
        if load > 0:
            only = tuple(float(v == w) for v in range(len(asked_rps)))
            draw = answer.study.draws.get(only, 4_000, 0, 0)
            tokens += load * float(draw.prompt.mean() + draw.output.mean() - 1)
    return tokens * 2 * active * 1e9, peak * pool.units * build.tp_degree


def _fleet_mfu(answer: Answer, shown: Verified) -> float | None:
    asked = shown.judgement.sample.asked_rps().tolist()
    pairs = [_flops(answer, *pair) for pair in zip(shown.fleet.pools, asked, strict=True)]
    known = [pair for pair in pairs if pair is not None]
    if len(known) < len(pairs):
        return None
    return sum(done for done, _ in known) / sum(peak for _, peak in known)


def _pool(
    answer: Answer,
    refined: Refined,
    pool: PoolChoice,
    asked_rps: Sequence[float],
    runs: Sequence[PoolRun],
) -> Pool:
    build, policies = pool.template.build, answer.problem.policies
    curve = build.curve
    longest = max(longest_requests(answer.problem)[w] for w in pool.template.serves)
    flops = _flops(answer, pool, asked_rps)
    cache = build.cache if keeps_prefixes(answer.problem, pool) else None
    return Pool(
        id=pool.template.id,
        model=build.model,
        role="colocated",
        group=None,
        accelerator=build.accelerator,
        tp_degree=build.tp_degree,
        pp_degree=1,
        ep_degree=curve.layout.ep_degree,
        dp_degree=1,
        replicas=pool.units,
        domain=None,
        link_class=None,
        precision=build.precision,
        kv_dtype=curve.kv_dtype,
        engine=f"{build.engine} {curve.engine_version}",
        max_model_len=longest,
        memory_utilisation=policies.memory_utilisation,
        block_size=policies.block_size,
        prefix_caching=cache is not None,
        chunked_prefill=True,
        max_num_seqs=build.max_num_seqs,
        max_num_batched_tokens=build.max_num_batched_tokens,
        scheduling_policy=build.scheduling_policy,
        admission_limit_rps=None,
        router=policies.router,
        kv_tokens=build.kv_tokens,
        offered_rps=sum(pool.load_rps),
        capacity_rps=interval(refined.frontiers[pool.template.id].capacity_rps),
        busy_share=sum(run.busy_share for run in runs) / len(runs),
        mfu=flops[0] / flops[1] if flops else None,
        curve=curve_note(build, longest),
        prefix_hits=hits_of(answer.problem, runs, pool.template.serves) if cache else (),
        prefix_block_tokens=cache.block_tokens if cache else None,
    )


def _supply(problem: Problem, fleet: Fleet) -> tuple[SupplyLine, ...]:
    lines = []
    for supply in problem.supplies:
        name = supply.accelerator.id
        count = sum(
            p.units * p.template.build.tp_degree
            for p in fleet.pools
            if p.template.build.accelerator == name
        )
        if count:
            lines.append(
                SupplyLine(
                    accelerator=name,
                    domain=None,
                    term=supply.term,
                    count=count,
                    usd_per_hour=count * supply.usd_per_hour,
                    price_source=supply.price_source,
                )
            )
    return tuple(lines)


def _bill(fleet: Fleet) -> tuple[BillLine, ...]:
    return tuple(
        BillLine(
            item=f"{p.units} x {p.template.id}: {p.units * p.template.build.tp_degree}"
            f" {p.template.build.accelerator}",
            usd_per_hour=p.units * p.template.build.usd_per_hour,
        )
        for p in fleet.pools
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
                )
            )
    return tuple(lines)


def _proof_covers(problem: Problem, refined: Refined) -> str:
    templates = len(refined.frontiers)
    points = sum(len(f.points) for f in refined.frontiers.values())
    return (
        f"the best of all fleets of {templates} templates at {points} operating points, as"
        " simulated from their curves; not curve error, not templates that were left out, not"
        " demand other than stated"
        + ("; not fleets that hold other units for work that waits" if problem.deferred else "")
    )


def _of_scenarios(problem: Problem, kept_in: float | None) -> tuple[str, ...]:
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


def _of_users(workloads: Sequence[WorkloadResult]) -> tuple[str, ...]:
    """Say how often users who wait for their answers ask of this fleet."""
    return tuple(
        f"{w.id}: {w.users.users:,} users ask {w.offered_rps:.4g} req/s of this fleet: an answer"
        f" takes {w.users.response_s:.3g} s in the mean, and the thinking {w.users.think_s:g} s"
        for w in workloads
        if w.users is not None
    )


def _notes(
    answer: Answer,
    refined: Refined,
    shown: Verified,
    sweep: Sequence[tuple[float, FleetSample]],
) -> tuple[str, ...]:
    notes = []
    if why := _unproven(answer.problem, refined, shown):
        notes.append(f"not proven best: {why}")
    if shown is not refined.best and refined.unsettled != NOT_PLACED:
        notes.append("no fleet was found whose every promise is kept; this one is the last tried")
    notes += curve_notes(answer.problem, (p.template.build for p in shown.fleet.pools))
    if not COMPILED:
        notes.append("simulated in plain Python: fewer requests, wider intervals")
        if len(set(answer.problem.priorities)) > 1:
            notes.append("priority scheduling is searched with the compiled simulator only")
    for multiple, sample in sweep:
        if any(sample.unstable()):
            notes.append(
                f"at {multiple:g} times the demand the backlog grows without end; the attainment"
                " there is what the simulated span gave"
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
