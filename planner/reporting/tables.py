"""A plan as tables for people: the answer first, then what it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from planner.fleet import TOGETHER
from planner.reporting import relaxations
from planner.reporting.bill_difference import bill_differences
from planner.reporting.breaking import breaks, chances
from planner.reporting.capacity_table import bucket_table, unit_table
from planner.reporting.format import NONE, amount, count, rate, seconds, share, share_interval, usd
from planner.reporting.layout import grid, heading, lines, plain
from planner.reporting.placement import placement_table
from planner.reporting.settings import settings_tables
from planner.units import TIME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from planner.fleet import (
        Decision,
        FailureResult,
        FleetPlan,
        Infeasibility,
        Interval,
        OneLess,
        Pool,
        PrefixHits,
        Rejected,
        WorkloadResult,
    )

HOURS_PER_MONTH: Final = 730
SHOWN_PER_ACCELERATOR: Final = 2
"""Rejected templates in the table; ``planner explain`` has them all."""


def plan_table(plan: FleetPlan) -> tuple[RenderableType, ...]:
    """Lay out a plan, readable at 100 columns.

    An infeasible plan gives the physical reason first, then what would mend it.
    """
    if plan.totals is None:
        return tuple(_no_fleet(plan))
    if plan.capacity_table is not None:
        return (*_answer(plan), *_money(plan), *_grounds(plan))
    placed = (*placement_table(plan), *_changes(plan))
    settings = settings_tables(plan.settings, every=False)
    return (*_answer(plan), *placed, *_promises(plan), *settings, *_money(plan), *_grounds(plan))


def workload_table(results: Sequence[WorkloadResult]) -> Table:
    """Lay out what each workload gets against what it was promised."""
    headers = ("workload", ">offered", ">compliant", ">attainment", ">promised", "verdict")
    return grid(headers, [_workload_row(result) for result in results])


def interval(estimate: Interval) -> str:
    """Write an estimate with its 95 % interval: ``96.4 % (96.1–96.7)``."""
    return share_interval(estimate.value, estimate.low, estimate.high)


def _no_fleet(plan: FleetPlan) -> Iterator[RenderableType]:
    name = _name(plan)
    if plan.status == "infeasible":
        yield plain(f"{name}: no fleet keeps every promise.", style="bold")
    else:
        yield plain(f"{name}: a limit ended the work before any plan was found.", style="bold")
    if plan.infeasibility:
        yield heading("What stands in the way")
        yield lines(stands_in_the_way(x) for x in plan.infeasibility)
        several = any(TOGETHER in x.remedy for x in plan.infeasibility)
        yield heading(f"What would mend it, {'all at once' if several else 'each alone'}")
        yield lines(x.remedy for x in plan.infeasibility)
    if plan.relaxations:
        yield heading(relaxations.HEADING)
        yield lines(map(relaxations.relaxation, plan.relaxations))
    yield from _why_not(plan)
    yield from _notes(plan)


def _answer(plan: FleetPlan) -> Iterator[RenderableType]:
    totals = plan.totals
    if totals is None:
        return
    fleet = " + ".join(f"{n} × {kind}" for kind, n in _accelerators(plan).items())
    if totals.nodes is not None:
        fleet += f" in {count(totals.nodes, 'whole node')}"
    yield plain(f"{_name(plan)}: {fleet}, {usd(totals.cost_usd_per_hour)} per hour", style="bold")
    yield lines(
        (
            f"{usd(totals.usd_per_thousand_compliant)} per thousand compliant requests",
            f"{rate(totals.goodput_rps)} compliant of {rate(totals.offered_rps)} offered "
            f"({share(totals.attainment)}); {_provenance(plan)}",
            *_weighted(plan),
            _how_sure(plan),
        )
    )
    if plan.capacity_table is not None:
        yield heading("Fleet")
        yield unit_table(plan.capacity_table)
        yield heading("Request sizes, and who serves them")
        yield bucket_table(plan.capacity_table)
        return
    yield heading("Pools")
    headers = ("", ">load", ">capacity", ">busy")
    yield grid(headers, [_pool_row(pool) for pool in plan.pools])


def _changes(plan: FleetPlan) -> Iterator[RenderableType]:
    """Say which units start and stop against the current plan, where there is one."""
    if plan.changes:
        yield heading("What changes against the current plan")
        yield grid(
            ("pool", ">before", ">after", ">started and stopped"),
            [(x.pool, str(x.before), str(x.after), str(x.moves)) for x in plan.changes],
        )


def _provenance(plan: FleetPlan) -> str:
    if plan.capacity_table is not None:
        return plan.capacity_table.provenance
    mfu = None if plan.totals is None else plan.totals.mfu
    return f"MFU {share(mfu)}, reported and not optimised"


def _weighted(plan: FleetPlan) -> Iterator[str]:
    """Tell the goodput that the objective counts, where workloads differ in value."""
    values = {result.id: result.value for result in plan.workloads}
    weighted = plan.totals.weighted_goodput_rps if plan.totals else None
    if weighted is None or set(values.values()) <= {1.0}:
        return
    each = ", ".join(f"{name} {value:g}" for name, value in values.items())
    yield f"weighted by value ({each}): {rate(weighted)} compliant"


def _accelerators(plan: FleetPlan) -> dict[str, int]:
    held: dict[str, int] = {}
    for line in plan.supply:
        held[line.accelerator] = held.get(line.accelerator, 0) + line.count
    return held


def _pool_row(pool: Pool) -> tuple[str, ...]:
    degrees = ((pool.tp_degree, "tp"), (pool.pp_degree, "pp"), (pool.ep_degree, "ep"))
    shown = [f"{name}{n}" for n, name in (*degrees, (pool.dp_degree, "dp")) if n > 1]
    built = f"{pool.replicas} × {pool.accelerator} {' '.join(shown) or 'tp1'}"
    if pool.role != "colocated":
        built += f" {pool.role}"
        if pool.groups and pool.groups > 1:
            built += f" in {pool.groups} groups"
    policy = (
        f"max_num_seqs {pool.max_num_seqs}, max_num_batched_tokens {pool.max_num_batched_tokens}, "
        f"{pool.router}"
    )
    if pool.admission_limit_rps is not None:
        policy += f", admits {rate(pool.admission_limit_rps)}"
    if pool.speculative_decoding is not None:
        drafts = pool.speculative_decoding
        policy += (
            f"\n{drafts.method}: {drafts.draft_tokens} tokens drafted,"
            f" {drafts.tokens_per_step:.3g} gained a step"
        )
    if pool.adapters is not None:
        kept = pool.adapters
        policy += (
            f"\n{kept.count} adapters of rank {kept.rank}: {kept.bytes_per_device / 1e9:.3g} GB"
            f" a device, steps {share(kept.overhead)} longer"
        )
    if pool.prefix_hits:
        policy += f"\nprefixes kept: {', '.join(map(hits, pool.prefix_hits))}"
    if pool.link is not None:
        link = pool.link
        policy += (
            f"\nKV over {link.transport}: {link.kv_bytes_per_token / 1e3:.3g} kB a token at"
            f" {link.bandwidth_bytes_per_s / 1e9:.3g} GB/s, busy {share(link.busy_share)}"
        )
        if link.kv_transfer_s is not None and link.kv_transfer_idle_s is not None:
            idle, loaded = link.kv_transfer_idle_s, link.kv_transfer_s
            policy += (
                f"\nits KV takes {idle.p50 * 1e3:.3g} ms (p99 {idle.p99 * 1e3:.3g}) idle,"
                f" {loaded.p50 * 1e3:.3g} ms (p99 {loaded.p99 * 1e3:.3g}) under load"
            )
        policy += "".join(f"\n{way.groups} from {way.prefill} to {way.decode}" for way in link.ways)
    busy = NONE if pool.busy_share is None else f"{100 * pool.busy_share:.0f} %"
    what = f"{built}, {pool.model} {pool.precision}\n{policy}\npool {pool.id}"
    if pool.places:
        what += f"\nin {', '.join(f'{p.domain} ({p.replicas})' for p in pool.places)}"
    capacity = rate((pool.groups or pool.replicas) * pool.capacity_rps.value)
    return (what, rate(pool.offered_rps), capacity, busy)


def hits(found: PrefixHits) -> str:
    """Say what of a workload's prompts is found, and whether that was simulated or assumed."""
    return f"{share(found.hit_rate)} of {found.workload} found ({found.source})"


def _without_cache(plan: FleetPlan) -> Iterator[RenderableType]:
    cold = plan.evidence.without_prefix_cache
    if cold is None:
        return
    grows = "; its backlog grows without end" if cold.unstable else ""
    attained = ", ".join(f"{name} {interval(x)}" for name, x in cold.attainment.items())
    planned = (
        f"none planned: {cold.reason}"
        if cold.usd_per_hour is None
        else f"planned so: {' + '.join(cold.pools)}, {usd(cold.usd_per_hour)} per hour"
    )
    yield heading("At a prefix hit rate of 0 (every prompt computed whole)")
    yield lines((f"this fleet: {attained}{grows}", planned))


def _how_sure(plan: FleetPlan) -> str:
    evidence, goal = plan.evidence, plan.objective
    gap = "" if goal.gap is None else f" (gap {share(goal.gap, 2)})"
    among = count(evidence.candidates, "candidate")
    proof = {
        "optimal": f"proven best of {among}{gap}",
        "feasible": f"the best so far of {among}, not proven{gap}",
    }.get(plan.status, plan.status)
    if plan.capacity_table is not None:
        return f"How sure: {proof}; NOT verified: nothing was simulated"
    checked = (
        f"every promise kept in a simulation of {count(evidence.requests, 'request')}, "
        f"{count(len(evidence.seeds), 'seed')}"
        if evidence.verified
        else "NOT verified: the simulation of the whole fleet does not keep every promise"
    )
    return f"How sure: {proof}; {checked}"


def _promises(plan: FleetPlan) -> Iterator[RenderableType]:
    yield heading("Promises (attainment with its 95 % interval)")
    yield workload_table(plan.workloads)
    yield heading("Latency against deadlines")
    deadlines = _deadlines(plan)
    rows = []
    for result in plan.workloads:
        measured = [("TTFT", result.ttft_s), ("TPOT", result.tpot_s)]
        if result.max_itl_s is not None:
            measured.append(("max ITL", result.max_itl_s))
        for what, q in measured:
            limit = deadlines.get((result.id, what.lower().replace(" ", "_")))
            values = (q.p50, q.p90, q.p95, q.p99, limit)
            rows.append((result.id, what, *map(seconds, values)))
    yield grid(("workload", "", ">p50", ">p90", ">p95", ">p99", ">deadline"), rows)
    missed = [result for result in plan.workloads if result.misses is not None]
    if missed:
        yield heading("Missed deadlines by cause (share of the offered requests)")
        yield lines(_misses(result) for result in missed)
    yield from _what_if_demand(plan)


def _misses(result: WorkloadResult) -> str:
    """Name the causes of a workload's misses, the largest first."""
    causes = {} if result.misses is None else result.misses.model_dump()
    shown = sorted(((c, x) for c, x in causes.items() if x > 0), key=lambda pair: -pair[1])
    words = (f"{cause.replace('_', ' ')} {share(x, 2)}" for cause, x in shown)
    return f"{result.id}: {', '.join(words) or 'none'}"


def _workload_row(result: WorkloadResult) -> tuple[str, ...]:
    return (
        result.id,
        rate(result.offered_rps),
        rate(result.goodput_rps),
        _promised_attainment(result),
        share(result.promise),
        result.verdict,
    )


def _promised_attainment(result: WorkloadResult) -> str:
    """Write the attainment that the promise is about."""
    if result.attainment_over_time is None:
        return interval(result.attainment)
    words = {"period": "over all periods", "worst_hour": "in the worst hour"}
    where = words.get(result.attainment_over or "", "over time")
    at_planned = interval(result.attainment)
    return f"{interval(result.attainment_over_time)} {where}\n{at_planned} as planned for"


def _deadlines(plan: FleetPlan) -> Mapping[tuple[str, str], float]:
    """Read the deadlines of the effective scenario, in seconds, by workload and measure."""
    found = {}
    for workload in plan.scenario.document.get("workloads", ()):
        for what, text in workload.get("slo", {}).items():
            if what in ("ttft", "tpot", "max_itl"):
                found[workload["id"], what] = TIME.read(text)
    return found


def _what_if_demand(plan: FleetPlan) -> Iterator[RenderableType]:
    sweep = plan.evidence.demand_sweep
    if sweep:
        yield heading("Attainment of this fleet if demand differs")
        names = [result.id for result in plan.workloads]
        headers = (">demand", *(f">{name}" for name in names))
        yield grid(headers, [(f"× {p.multiple:g}", *_cells(p.attainment, names)) for p in sweep])
    if plan.evidence.breaks_at:
        yield heading("Demand at which each promise breaks, all workloads growing alike")
        yield lines(breaks(point) for point in plan.evidence.breaks_at)
    if plan.evidence.promise_kept is not None:
        yield heading("How sure the promises are if step times and demand are not exact")
        yield lines(chances(plan.evidence.promise_kept))
    if plan.evidence.length_sweep:
        yield heading("Attainment if prompts or outputs were longer or shorter")
        names = [result.id for result in plan.workloads]
        rows = [
            (
                f"× {p.prompt_multiple:g}",
                f"× {p.output_multiple:g}",
                *_cells(p.attainment, names),
                share(p.goodput_lost),
                share(p.goodput_lost_together),
            )
            for p in plan.evidence.length_sweep
        ]
        lost = (">goodput lost", ">by replicas that do both")
        yield grid((">prompts", ">outputs", *(f">{name}" for name in names), *lost), rows)
    if plan.evidence.arrival_sweep:
        yield heading("Attainment, and p99 of TTFT, if the same load came otherwise")
        names = [result.id for result in plan.workloads]
        yield grid(
            ("arrivals", ">accelerators needed", *(f">{name}" for name in names)),
            [
                (
                    p.arrivals,
                    NONE if p.accelerators is None else str(p.accelerators),
                    *(
                        f"{interval(p.attainment[name])}, {seconds(p.ttft_p99_s.get(name))}"
                        for name in names
                        if name in p.attainment
                    ),
                )
                for p in plan.evidence.arrival_sweep
            ],
        )
    yield from _under_stress(plan)
    yield from _by_scenario(plan)
    yield from _without_cache(plan)
    yield from _over_time(plan)
    yield from _work_that_waits(plan)
    if plan.evidence.one_less:
        yield heading("With one unit less")
        yield lines(one_less(x) for x in plan.evidence.one_less)
    if plan.evidence.failures:
        yield heading("After a failure, its traffic routed anew")
        yield lines(after_failure(x) for x in plan.evidence.failures)


def _under_stress(plan: FleetPlan) -> Iterator[RenderableType]:
    if not plan.evidence.stress:
        return
    names = [result.id for result in plan.workloads]
    rows = [
        (
            s.preset,
            f"{s.what} (backlog grows)" if s.unstable else s.what,
            *(
                f"{interval(s.attainment[name])} {s.verdicts.get(name, '')}"
                if name in s.attainment
                else NONE
                for name in names
            ),
        )
        for s in plan.evidence.stress
    ]
    yield heading("This fleet if the demand is other than planned for")
    yield grid(("preset", "demand", *names), rows)


def _by_scenario(plan: FleetPlan) -> Iterator[RenderableType]:
    if not plan.demand_scenarios:
        return
    names = [result.id for result in plan.workloads]
    rows = [
        (
            s.id if s.planned_for else f"{s.id} (let go)",
            share(s.weight),
            *(
                f"× {s.multiples[name]:g}: {interval(s.attainment[name])} {s.verdicts[name]}"
                for name in names
                if name in s.attainment
            ),
        )
        for s in plan.demand_scenarios
    ]
    kept = plan.evidence.promise_kept_in or 0.0
    yield heading(f"Scenarios of the demand: every promise is kept in {kept:.1%} of the weight")
    yield grid(("scenario", ">weight", *names), rows)


def _work_that_waits(plan: FleetPlan) -> Iterator[RenderableType]:
    for work in plan.deferred:
        rows = [
            (
                p.id,
                rate(p.served_rps),
                ", ".join(f"{n} × {pool}" for pool, n in p.units.items()),
                f"{interval(p.attainment)} {p.verdict}",
            )
            for p in work.periods
        ]
        yield heading(f"{work.id}: {rate(work.offered_rps)} done within {work.window_s / 3600:g} h")
        yield grid(("period", ">done", "by", "attainment"), rows)


def _over_time(plan: FleetPlan) -> Iterator[RenderableType]:
    if not plan.periods:
        return
    names = [result.id for result in plan.workloads]
    adapts = any(period.units for period in plan.periods)
    rows = []
    for period in plan.periods:
        found = {w.id: w for w in period.workloads}
        cells = [
            f"{rate(w.offered_rps)}: {interval(w.attainment)} {w.verdict}" if w else "no load"
            for w in (found.get(name) for name in names)
        ]
        units = ", ".join(f"{n} × {pool}" for pool, n in period.units.items())
        fleet = (units or "none",) if adapts else ()
        rows.append((period.id, share(period.share), *fleet, *cells))
    yield heading("The fleet by the hour" if adapts else "This fleet over time")
    yield grid(("period", ">of the time", *(("replicas",) if adapts else ()), *names), rows)


def stands_in_the_way(x: Infeasibility) -> str:
    """Say in one sentence what is missing, the physical reason last if there is one."""
    reason = f": {x.fastest_reachable}" if x.fastest_reachable else ""
    return f"{x.limit}: has {x.has}, needs {x.needs}{reason}"


def one_less(less: OneLess) -> str:
    """Say what becomes of each workload when a pool loses a unit."""
    if not less.attainment:
        return f"{less.pool}: some workload would be served by nobody: {less.verdict}"
    shown = ", ".join(f"{name} {interval(x)}" for name, x in less.attainment.items())
    grows = ", as a backlog grows without end" if less.unstable else ""
    return f"{less.pool}: {shown}: {less.verdict}{grows}"


def decision(made: Decision) -> str:
    """Write a decision as question, answer and reason."""
    return f"{made.question.rstrip('?')}? {made.answer}: {made.because}"


def after_failure(failure: FailureResult) -> str:
    """Say what a failure takes, and what is left."""
    units = ", ".join(f"{n} × {pool}" for pool, n in failure.units_lost.items()) or "no replica"
    if not failure.attainment:
        return f"without {failure.lost} ({units}): a workload is served by nobody: broken"
    left = ", ".join(
        f"{name} {interval(x)}, at least {share(failure.floor[name])}"
        + (f" ({share(away)} turned away)" if (away := failure.turned_away.get(name)) else "")
        for name, x in failure.attainment.items()
    )
    return f"without {failure.lost} ({units}): {left}: {failure.verdict}"


def _cells(attainment: Mapping[str, Interval], names: Sequence[str]) -> list[str]:
    return [interval(attainment[name]) if name in attainment else NONE for name in names]


def _money(plan: FleetPlan) -> Iterator[RenderableType]:
    total = sum(line.usd_per_hour for line in plan.bill)
    rows = [*((line.item, line.usd_per_hour) for line in plan.bill), ("total", total)]
    yield heading(f"Bill (a month is {HOURS_PER_MONTH} h)")
    yield grid(
        ("item", ">per hour", ">per month"),
        [(item, usd(cost), usd(cost * HOURS_PER_MONTH)) for item, cost in rows],
    )
    if plan.limits:
        yield heading("Limits")
        yield grid(
            ("limit", ">used", ">of", ">one more is worth"),
            [
                (
                    x.name,
                    amount(x.used)
                    + ("" if x.simulated is None else f" ({amount(x.simulated)} simulated)"),
                    "no limit" if x.limit is None else amount(x.limit),
                    NONE
                    if x.shadow_price_usd_per_hour is None
                    else f"{usd(x.shadow_price_usd_per_hour)} per hour",
                )
                for x in plan.limits
            ],
        )


def _grounds(plan: FleetPlan) -> Iterator[RenderableType]:
    if plan.decisions:
        yield heading("Decisions")
        yield lines(map(decision, plan.decisions))
    yield from bill_differences(plan.decisions)
    yield from _why_not(plan)
    if plan.pools:
        yield from _curves(plan)
    yield from _notes(plan)


def _curves(plan: FleetPlan) -> Iterator[RenderableType]:
    yield heading("Where the step times come from")
    curves = {pool.curve.id: pool.curve for pool in plan.pools}
    yield grid(
        ("curve", "source", ">error", "range", "caveat"),
        [
            (
                curve.id,
                curve.source,
                share(curve.relative_error),
                "EXTRAPOLATED" if curve.extrapolated else "inside",
                curve.caveat or NONE,
            )
            for curve in curves.values()
        ],
    )


def _why_not(plan: FleetPlan) -> Iterator[RenderableType]:
    if not plan.rejected:
        return
    yield heading("Why not another")
    groups = rejected_by_accelerator(plan)
    shown = [x for group in groups.values() for x in group[:SHOWN_PER_ACCELERATOR]]
    yield grid(("template", "reason"), [(x.template, x.reason) for x in shown])
    left = len(plan.rejected) - len(shown)
    if left:
        yield plain(f"and {left} more: planner explain PLAN")


def rejected_by_accelerator(plan: FleetPlan) -> dict[str, list[Rejected]]:
    """Group the rejected templates by the accelerator whose id their name holds, in order."""
    document = plan.scenario.document
    offered = [str(x.get("id")) for x in document.get("accelerators", ())]
    offered += [str(x.get("accelerator")) for x in document.get("nodes", ())]
    kinds = sorted({*offered, *(pool.accelerator for pool in plan.pools)}, key=len, reverse=True)
    groups: dict[str, list[Rejected]] = {}
    for rejected in plan.rejected:
        kind = next((k for k in kinds if k in rejected.template), "")
        groups.setdefault(kind, []).append(rejected)
    return groups


def _notes(plan: FleetPlan) -> Iterator[RenderableType]:
    covers = plan.evidence.proof_covers
    notes = [*plan.evidence.notes, *([f"The proof covers: {covers}"] if covers else [])]
    if notes:
        yield heading("Notes")
        yield lines(notes)


def _name(plan: FleetPlan) -> str:
    return str(plan.scenario.document.get("name", "plan"))
