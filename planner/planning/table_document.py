"""The plan document of a fleet by measured capacities, and of there being none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from planner.data import version
from planner.fleet import (
    BillLine,
    EffectiveScenario,
    Evidence,
    FleetPlan,
    ObjectiveValue,
    SupplyLine,
    TableBucket,
    TableFleet,
    TableShare,
    TableUnits,
    Totals,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planner.fleet import Decision, Infeasibility, LimitUse, Rejected
    from planner.milp import Choice
    from planner.problem.tables import BucketDemand, TableProblem
    from planner.scenario.load import LoadedTables

NOT_VERIFIED: Final = (
    "not verified: the capacities are measured ones from a table and nothing was simulated, so"
    " that there is no attainment with an interval, no latency, and no word on what sizes do to"
    " one another when a unit serves several"
)
LIMIT_CAME: Final = "the time limit passed, or the work was interrupted, before any fleet was found"
ROUNDING: Final = 1e-9
"""A share turned away below this is the solver's rounding."""


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """What every document of one answer needs."""

    loaded: LoadedTables
    problem: TableProblem
    created: str | None


def table_plan(
    answer: TableAnswer,
    units: Mapping[str, int],
    loads: Mapping[tuple[str, str], float],
    choice: Choice,
    *,
    decisions: tuple[Decision, ...],
    rejected: tuple[Rejected, ...],
    limits: tuple[LimitUse, ...],
) -> FleetPlan:
    """Write the plan of a fleet.

    Args:
        answer: The question.
        units: By template.
        loads: Busy units by template and bucket.
        choice: The solution, for its objective and bound.
        decisions: What was decided between.
        rejected: Templates that are not in the fleet.
        limits: Uses of limits.
    """
    problem = answer.problem
    buckets = tuple(
        _bucket(problem, bucket, loads, choice.shed_rps[bucket.id]) for bucket in problem.demanded
    )
    fleet = TableFleet(
        provenance="measured capacity table; not simulated",
        source=problem.source,
        units=tuple(_units(problem, units, buckets)),
        buckets=buckets,
    )
    return FleetPlan(
        planner_version=version(),
        seed=problem.seed,
        created=answer.created,
        scenario=_effective(answer),
        status=choice.status,
        objective=_objective(choice),
        totals=_totals(problem, fleet, choice),
        pools=(),
        workloads=(),
        supply=tuple(_supply(problem, fleet)),
        bill=tuple(
            BillLine(
                item=f"{u.units} x {u.template}: {u.units * u.devices} {u.accelerator}",
                usd_per_hour=u.usd_per_hour,
            )
            for u in fleet.units
        ),
        decisions=decisions,
        rejected=rejected,
        limits=limits,
        evidence=_evidence(
            problem,
            "the best of all fleets of the table's templates, each bucket split in any proportion"
            " and loads adding up; not that the capacities hold where sizes mix or bursts come,"
            " not demand other than stated",
            unproven=choice.unproven(problem.gap),
        ),
        capacity_table=fleet,
    )


def no_table_plan(
    answer: TableAnswer,
    status: Literal["infeasible", "unknown"],
    reasons: tuple[Infeasibility, ...],
) -> FleetPlan:
    """Write the document of a question that has no plan, or none yet."""
    problem = answer.problem
    notes = (LIMIT_CAME,) if status == "unknown" else ()
    return FleetPlan(
        planner_version=version(),
        seed=problem.seed,
        created=answer.created,
        scenario=_effective(answer),
        status=status,
        objective=ObjectiveValue(name=problem.objective, value=None, bound=None, gap=None),
        totals=None,
        pools=(),
        workloads=(),
        supply=(),
        bill=(),
        decisions=(),
        rejected=(),
        limits=(),
        evidence=_evidence(problem, "nothing: there is no plan", notes),
        infeasibility=reasons,
    )


def _evidence(
    problem: TableProblem, covers: str, notes: tuple[str, ...] = (), unproven: str = ""
) -> Evidence:
    source = f"capacities: measured capacity table; not simulated; from {problem.source}"
    return Evidence(
        verified=False,
        unproven=unproven,
        seeds=(),
        requests=0,
        one_less=(),
        demand_sweep=(),
        candidates=len(problem.templates),
        proof_covers=covers,
        notes=(*notes, source, NOT_VERIFIED),
    )


def _effective(answer: TableAnswer) -> EffectiveScenario:
    """Return the scenario as it was answered; its file is named from the working folder."""
    loaded = answer.loaded
    document = loaded.scenario.model_dump(mode="json", exclude_none=True)
    file = loaded.scenario.capacity_tables.file
    if file is not None:
        document["capacity_tables"]["file"] = str(loaded.folder / file)
    return EffectiveScenario(document=document, origins=loaded.origins())


def _bucket(
    problem: TableProblem,
    bucket: BucketDemand,
    loads: Mapping[tuple[str, str], float],
    shed_rps: float,
) -> TableBucket:
    """Write down who serves a bucket; its shares and what is turned away sum to one."""
    shed = shed_rps / bucket.rate_rps
    served = 1 - shed if shed > ROUNDING else 1.0
    carried = {
        t.id: loads[t.id, bucket.id] * t.capacity_rps[bucket.id]
        for t in problem.templates
        if (t.id, bucket.id) in loads
    }
    whole = sum(carried.values())
    routing = []
    for template in problem.templates:
        if template.id in carried:
            share = carried[template.id] / whole * served
            rate, capacity = share * bucket.rate_rps, template.capacity_rps[bucket.id]
            routing.append(
                TableShare(
                    template=template.id,
                    accelerator=template.accelerator,
                    share=share,
                    rate_rps=rate,
                    capacity_rps=capacity,
                    busy_units=rate / capacity,
                )
            )
    return TableBucket(
        id=bucket.id,
        input_tokens=bucket.input_tokens,
        output_tokens=bucket.output_tokens,
        offered_rps=bucket.rate_rps,
        served_rps=served * bucket.rate_rps if routing else 0.0,
        routing=tuple(routing),
    )


def _units(
    problem: TableProblem, units: Mapping[str, int], buckets: tuple[TableBucket, ...]
) -> Iterator[TableUnits]:
    busy = dict.fromkeys(units, 0.0)
    for share in (share for bucket in buckets for share in bucket.routing):
        busy[share.template] += share.busy_units
    for template in problem.templates:
        count = units.get(template.id)
        if count:
            yield TableUnits(
                template=template.id,
                accelerator=template.accelerator,
                devices=template.devices,
                units=count,
                busy_units=busy[template.id],
                usd_per_hour=count * problem.usd_per_hour(template),
            )


def _objective(choice: Choice) -> ObjectiveValue:
    per = 3600.0 if choice.name == "max_goodput_per_usd" else 1.0
    return ObjectiveValue(
        name=choice.name, value=choice.objective * per, bound=choice.bound * per, gap=choice.gap
    )


def _totals(problem: TableProblem, fleet: TableFleet, choice: Choice) -> Totals:
    offered = sum(bucket.offered_rps for bucket in fleet.buckets)
    served = sum(bucket.served_rps for bucket in fleet.buckets)
    cost = choice.cost_usd_per_hour
    return Totals(
        offered_rps=offered,
        goodput_rps=served,
        attainment=min(served / offered, 1.0),
        cost_usd_per_hour=cost,
        usd_per_thousand_compliant=cost / 3.6 / served if served else None,
        compliant_requests_per_usd=served * 3600 / cost if cost else None,
        accelerators=sum(u.units * u.devices for u in fleet.units),
        nodes=None,
        power_w=None,
        mfu=None,
    )


def _supply(problem: TableProblem, fleet: TableFleet) -> Iterator[SupplyLine]:
    for supply in problem.supplies:
        count = sum(u.units * u.devices for u in fleet.units if u.accelerator == supply.accelerator)
        if count:
            yield SupplyLine(
                accelerator=supply.accelerator,
                domain=None,
                term=supply.term,
                count=count,
                usd_per_hour=count * supply.usd_per_hour,
                price_source=supply.price_source,
            )
