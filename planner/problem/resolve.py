"""A scenario joined to the catalogue: every id becomes its record, or a mistake with a place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.errors import InputError
from planner.problem.adapting import adapts, cannot_adapt
from planner.problem.arrivals import at_rate
from planner.problem.current import current_plan, units_of
from planner.problem.curves import own_laws
from planner.problem.demand import arrival_law, length_law, prefix_law, session_laws, user_law
from planner.problem.moving import Moving, moving_of
from planner.problem.network import at_the_door
from planner.problem.periods import Over, make_calendar
from planner.problem.prices import PriceError, price_of
from planner.problem.refusals import (
    beyond_all_fleets,
    multiples_beyond_all_fleets,
    no_such_stress,
    not_robust,
    refuse_adapters,
    refuse_degrees,
    refuse_drafts,
    refuse_formats,
    refuse_unlike_blocks,
    refuse_unused_curves,
    refuse_work_without_lenders,
)
from planner.problem.sites import NO_SITES, Sites, sites_of
from planner.problem.topology import make_topology, within_topology

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.catalogue import Accelerator, Catalogue, Llm, StepLawRow
    from planner.errors import Where
    from planner.fleet import FleetPlan
    from planner.problem.arrivals import ArrivalLaw
    from planner.problem.lengths import LengthLaw
    from planner.problem.periods import Calendar
    from planner.problem.prefixes import PrefixLaw
    from planner.scenario.adapters import Adapters
    from planner.scenario.aim import Goal, Objective
    from planner.scenario.lengths import Lengths
    from planner.scenario.load import LoadedScenario
    from planner.scenario.policies import Policies
    from planner.scenario.slo import Slo
    from planner.scenario.terms import SupplyTerms
    from planner.scenario.traffic import Traffic
    from planner.scenario.uncertainty import Robust, Uncertainty
    from planner.topology import Cut, Topology

Mistakes = list[tuple["Where | str", str]]


@dataclass(frozen=True, slots=True)
class AdapterSet:
    """Adapters, and the workload whose they are: parts of a split workload share one set."""

    owner: str
    spec: Adapters


@dataclass(frozen=True, slots=True)
class Demand:
    """One workload with its model found and its lengths read."""

    id: str
    llm: Llm
    model: str
    """Under which name step laws know the model."""
    precisions: tuple[str, ...]
    arrivals: ArrivalLaw
    slo: Slo
    lengths: LengthLaw
    notes: tuple[str, ...] = ()
    """What was assumed of its arrivals in reading them."""
    mean_rps: float = 0.0
    """Mean rate over all periods, where there are several."""
    prefix: PrefixLaw | None = None
    """What its prompts begin with, where a cache could find it."""
    value: float = 1.0
    """Worth of a compliant request in goodput objectives."""
    priority: int = 0
    """Lower is served first by an engine with priority scheduling."""
    regions: frozenset[str] | None = None
    """Regions in which it may be served; None: any."""
    kv_dtypes: tuple[str, ...] | None = None
    """Formats of the KV cache that will do; None: the one in which step times were measured."""
    adapters: AdapterSet | None = None
    """Low-rank adapters that its requests name; None: none."""
    network_s: float = 0.0
    """Round trip to its users; taken off the deadlines in ``slo``, and part of every TTFT."""

    @property
    def rate_rps(self) -> float:
        """Offered load that is planned for."""
        return self.arrivals.rate_rps


@dataclass(frozen=True, slots=True)
class Outcome:
    """A scenario of the demand."""

    id: str
    weight: float
    """All weights sum to 1."""
    multiples: tuple[float, ...]
    """Of each demand."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """A workload whose requests may wait for a time at which units are free."""

    demand: Demand
    """At its mean rate."""
    window_s: float
    """Within which each request must be done."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A workload as the user gave it, and where its requests are among the demands."""

    demand: Demand
    parts: tuple[int, ...]
    """More than one where it was split by prompt length, short prompts first."""
    at_tokens: int | None = None
    """Longest of the short prompts, where it was split."""


@dataclass(frozen=True, slots=True)
class Supply:
    """One accelerator type with its price and stock."""

    accelerator: Accelerator
    stock: int | None
    usd_per_hour: float
    price_source: str
    term: str
    largest_unit: int | None = None
    """Accelerators that one replica can have, where they stand in nodes."""
    terms: SupplyTerms | None = None
    """Others on which it can be held, where the fleet adapts."""


@dataclass(frozen=True, slots=True)
class Problem:
    """The question, ready to be answered."""

    demands: tuple[Demand, ...]
    supplies: tuple[Supply, ...]
    policies: Policies
    budget_usd_per_hour: float | None
    objective: Objective
    seed: int
    gap: float
    time_limit_s: float
    calendar: Calendar | None = None
    brief: bool = False
    """Whether nothing is looked for beside fleet, proof and promises."""
    adapts: bool = False
    """Whether every period has a fleet of its own."""
    peak_factor: float = 1.0
    """How much higher than its mean the load of a window may be for minutes."""
    """Load over time, where there is any; the demands are those that are planned for."""
    laws: tuple[StepLawRow, ...] = ()
    """Step laws of the user's own, which take the place of the catalogue's."""
    deferred: tuple[Deferred, ...] = ()
    """Work that may wait; none of the demands."""
    outcomes: tuple[Outcome, ...] = ()
    """What the demand may turn out to be; none where it is known."""
    keep: float = 1.0
    """Share of their weight in which every promise must hold."""
    planned_multiples: tuple[float, ...] = ()
    """What the demands were multiplied by to plan for their scenarios; by asked workload."""
    robust: Robust | None = None
    """How far demand and step times may be off, where promises must hold in most such cases."""
    stress: tuple[str, ...] = ()
    """Presets of other demand, under which the fleet is shown."""
    slower_by: float = 0.0
    """Standard deviations by which all step times are planned to be above their curves."""
    solver: str = "highs"
    """Which solver is asked."""
    then: tuple[Goal, ...] = ("fewest_pools",)
    """Which of fleets that are as good, in order."""
    current: tuple[tuple[str, int], ...] = ()
    """Units by template of the plan that runs now."""
    running: FleetPlan | None = None
    """That plan; where there is a topology, its replicas move as little as may be."""
    moving: Moving | None = None
    """What counts of moves against it; None where none do."""
    sites: Sites = NO_SITES
    """Whole nodes and the limits on places, where supply is whole nodes."""
    wholes: tuple[Whole, ...] = ()
    """The workloads that demands are parts of; none where each demand is a whole one."""
    topology: Topology | None = None
    """Where nodes stand and what links them; None where any number of accelerators is near."""
    cuts: tuple[Cut, ...] = ()
    """What the nodes have room for, as far as a placement was tried and failed."""

    @property
    def stays(self) -> frozenset[str]:
        """Templates that run now and are weighed in any case: a move must earn its cost."""
        return frozenset(j for j, _ in self.current)

    @property
    def asked(self) -> tuple[Whole, ...]:
        """The workloads of the scenario, in its order."""
        return self.wholes or tuple(Whole(d, (w,)) for w, d in enumerate(self.demands))

    @property
    def rates_rps(self) -> tuple[float, ...]:
        """Offered load by workload."""
        return tuple(demand.rate_rps for demand in self.demands)

    @property
    def values(self) -> tuple[float, ...]:
        """Worth of a compliant request by workload."""
        return tuple(demand.value for demand in self.demands)

    @property
    def priorities(self) -> tuple[int, ...]:
        """Priority by workload; lower first."""
        return tuple(demand.priority for demand in self.demands)


def resolve(loaded: LoadedScenario, catalogue: Catalogue) -> Problem:
    """Find every id of a scenario in the catalogue and read the files it names.

    Raises:
        InputError: One line per mistake, each with its place in the scenario.
    """
    mistakes: Mistakes = []
    scenario = loaded.scenario
    laws = own_laws(loaded, catalogue, mistakes)
    catalogue = catalogue.with_laws(tuple(row for rows in laws for row in rows))
    windows = {w.id: w.completion_window for w in scenario.workloads}
    topology = make_topology(loaded, catalogue, mistakes)
    given = tuple(at_the_door(loaded, topology, _demands(loaded, catalogue, mistakes), mistakes))
    demands = tuple(d for d in given if windows[d.id] is None)
    deferred = tuple(Deferred(d, s) for d in given if (s := windows[d.id]) is not None)
    sites = sites_of(loaded, catalogue, mistakes)
    supplies = (*_supplies(loaded, catalogue, mistakes), *_supplies_in(sites))
    running = current_plan(loaded, mistakes)
    moving = moving_of(loaded, running, sites, mistakes)
    if not mistakes:
        refuse_degrees(loaded, demands, mistakes)
        mistakes += refuse_drafts(loaded, catalogue, given)
        refuse_work_without_lenders(loaded, demands, deferred, mistakes)
        refuse_unlike_blocks(loaded, given, mistakes)
        refuse_unused_curves(loaded, laws, given, supplies, mistakes)
    if not mistakes:
        mistakes += [
            (loaded.at("workloads", i, "arrivals"), f"workloads.{i}.arrivals: {what}")
            for i, demand in enumerate(given)
            for what in beyond_all_fleets(demand, "state another rate")
        ]
    calendar = None
    if scenario.traffic is not None and not mistakes:
        try:
            calendar = _calendar(loaded, scenario.traffic, demands, deferred)
        except InputError as error:
            mistakes.append((loaded.at("traffic"), f"traffic: {error}"))
    if calendar is not None:
        demands = _planned_for(demands, calendar)
        mistakes += [
            (loaded.at("traffic"), f"traffic: {what}")
            for demand in demands
            for what in beyond_all_fleets(demand, "mend its levels, peak_factor or growth")
        ]
    outcomes = _outcomes(scenario.uncertainty, demands)
    if not mistakes:
        mistakes += multiples_beyond_all_fleets(loaded, outcomes, demands)
    mistakes += cannot_adapt(loaded, calendar)
    mistakes += not_robust(loaded)
    mistakes += no_such_stress(loaded, demands)
    if mistakes:
        raise InputError("\n".join(f"{where}: {what}" for where, what in mistakes))
    return Problem(
        demands=demands,
        supplies=within_topology(supplies, topology),
        policies=scenario.policies,
        budget_usd_per_hour=scenario.limits.budget,
        objective=scenario.objective,
        seed=scenario.solver.seed,
        solver=scenario.solver.name,
        gap=scenario.solver.gap,
        time_limit_s=scenario.solver.time_limit,
        brief=scenario.solver.evidence == "brief",
        calendar=calendar,
        adapts=adapts(scenario),
        peak_factor=scenario.traffic.peak_factor if scenario.traffic else 1.0,
        laws=tuple(row for rows in laws for row in rows),
        deferred=deferred,
        outcomes=outcomes,
        keep=scenario.uncertainty.keep if scenario.uncertainty else 1.0,
        robust=scenario.uncertainty.robust if scenario.uncertainty else None,
        stress=scenario.uncertainty.stress if scenario.uncertainty else (),
        sites=sites,
        topology=topology,
        then=_goals(scenario.then, running),
        current=units_of(running),
        running=running,
        moving=moving,
    )


def _goals(then: tuple[Goal, ...], running: FleetPlan | None) -> tuple[Goal, ...]:
    """Return the second goals; where a fleet runs, the last of them is to move little of it."""
    if running is None or "fewest_moves" in then:
        return then
    return (*then, "fewest_moves")


def _outcomes(uncertainty: Uncertainty | None, demands: tuple[Demand, ...]) -> tuple[Outcome, ...]:
    if uncertainty is None:
        return ()
    total = sum(s.weight for s in uncertainty.scenarios)
    return tuple(
        Outcome(s.id, s.weight / total, tuple(s.multiples.get(d.id, s.multiple) for d in demands))
        for s in uncertainty.scenarios
    )


def _calendar(
    loaded: LoadedScenario,
    traffic: Traffic,
    demands: tuple[Demand, ...],
    deferred: tuple[Deferred, ...],
) -> Calendar:
    names = tuple(demand.id for demand in demands)
    rates = tuple(demand.rate_rps for demand in demands)
    waiting = tuple(one.demand.id for one in deferred)
    over = {
        w: Over(d.slo.attainment_over, d.slo.attainment)
        for w, d in enumerate(demands)
        if d.slo.attainment_over is not None
    }
    calendar = make_calendar(traffic, names, rates, loaded.folder, waiting, over)
    for one in deferred:
        if one.window_s < calendar.slot_s:
            raise InputError(
                f"completion_window of {one.demand.id}: {one.window_s:g} s is shorter than the"
                f" windows of the traffic ({calendar.slot_s:g} s); leave it out"
            )
    return calendar


def _planned_for(demands: tuple[Demand, ...], calendar: Calendar) -> tuple[Demand, ...]:
    """Return the demands at the load that is planned for."""
    return tuple(
        replace(d, arrivals=at_rate(d.arrivals, d.rate_rps * level), mean_rps=d.rate_rps)
        for d, level in zip(demands, calendar.target, strict=True)
    )


def _demands(loaded: LoadedScenario, catalogue: Catalogue, mistakes: Mistakes) -> Iterator[Demand]:
    for i, workload in enumerate(loaded.scenario.workloads):
        at = ("workloads", i)
        llm = catalogue.find_llm(workload.model)
        if llm is None:
            why = catalogue.why_not("llm", workload.model)
            mistakes.append((loaded.at(*at, "model"), f"workloads.{i}.model: {why}"))
        traffic = _laws(loaded, catalogue, i, llm, mistakes)
        if traffic is None:
            continue
        arrivals, lengths, notes, prefix = traffic
        if llm is None:
            continue
        precisions = workload.precisions or _own_precision(llm)
        if not precisions:
            what = (
                f"workloads.{i}.precisions: the catalogue does not know the precision of"
                f" {llm.id}'s weights; list those you accept, such as [bf16]"
            )
            mistakes.append((loaded.at(*at), what))
            continue
        if llm.params_total_b is None or llm.kv == "unknown":
            what = f"workloads.{i}.model: {llm.id} has no known memory geometry: {llm.note}"
            mistakes.append((loaded.at(*at, "model"), what))
            continue
        laws = catalogue.laws(model=llm.family_id)
        mistakes += refuse_adapters(loaded, i, llm)
        mistakes += refuse_formats(loaded, i, precisions, {row.precision for row in laws})
        if not laws:
            what = (
                f"workloads.{i}.model: no step law is known for {llm.id}; see"
                " `planner catalogue curves`"
            )
            mistakes.append((loaded.at(*at, "model"), what))
        yield Demand(
            id=workload.id,
            llm=llm,
            model=llm.family_id,
            precisions=precisions,
            arrivals=arrivals,
            slo=workload.slo,
            lengths=lengths,
            notes=tuple(f"{workload.id}: {note}" for note in notes),
            prefix=prefix,
            value=workload.value,
            priority=workload.priority,
            kv_dtypes=workload.kv_dtypes,
            adapters=AdapterSet(workload.id, workload.adapters) if workload.adapters else None,
            regions=None if workload.regions is None else frozenset(workload.regions),
        )


def _file_of(lengths: Lengths | None) -> tuple[str, ...]:
    """Return the key under which lengths name a file, if they do."""
    named = ("trace", "histogram") if lengths is not None else ()
    return tuple(key for key in named if getattr(lengths, key) is not None)


def _laws(
    loaded: LoadedScenario, catalogue: Catalogue, i: int, llm: Llm | None, mistakes: Mistakes
) -> tuple[ArrivalLaw, LengthLaw, tuple[str, ...], PrefixLaw | None] | None:
    """Read what a workload asks for; None, and a mistake, where it cannot be read."""
    workload = loaded.scenario.workloads[i]
    context = llm.max_context if llm is not None else None
    what = "lengths"
    try:
        lengths: LengthLaw = length_law(workload.lengths, loaded.folder, catalogue, context)
        what = "arrivals"
        arrivals, notes = arrival_law(workload.arrivals, workload.lengths, loaded.folder)
        what = "prefix"
        prefix = prefix_law(workload, arrivals, loaded.folder)
    except InputError as error:
        path = (what, *_file_of(workload.lengths if what == "lengths" else None))
        mistakes.append(
            (loaded.at("workloads", i, *path), f"workloads.{i}.{'.'.join(path)}: {error}")
        )
        return None
    if workload.arrivals.sessions is not None and context is not None:
        arrivals, lengths = session_laws(workload.arrivals.sessions, lengths, context)
    if workload.arrivals.closed_loop is not None and context is not None:
        loop = workload.arrivals.closed_loop
        arrivals, note = user_law(loop, lengths, workload.slo, context)
        notes = (*notes, note)
    return arrivals, lengths, notes, prefix


def _own_precision(llm: Llm) -> tuple[str, ...]:
    own = llm.weights_precision
    return (own,) if own not in (None, "mixed") else ()


def _supplies(loaded: LoadedScenario, catalogue: Catalogue, mistakes: Mistakes) -> Iterator[Supply]:
    seen: dict[str, str] = {}
    for i, offer in enumerate(loaded.scenario.accelerators):
        place = loaded.at("accelerators", i, "id")
        accelerator = catalogue.find_accelerator(offer.id)
        if accelerator is None:
            why = catalogue.why_not("accelerator", offer.id)
            mistakes.append((place, f"accelerators.{i}.id: {why}"))
            continue
        if accelerator.id in seen:
            what = f"{offer.id!r} and {seen[accelerator.id]!r} are the same accelerator; keep one"
            mistakes.append((place, f"accelerators.{i}.id: {what}"))
        seen.setdefault(accelerator.id, offer.id)
        try:
            price, source, term = price_of(offer, accelerator.id, catalogue)
        except PriceError as error:
            at = loaded.at("accelerators", i, "price_from")
            mistakes.append((at, f"accelerators.{i}.price_from: {error}"))
            continue
        yield Supply(accelerator, offer.stock, price, source, term, terms=offer.terms)


def _supplies_in(sites: Sites) -> Iterator[Supply]:
    """Yield each kind of accelerator that nodes hold, at the least price of one of them."""
    for name in dict.fromkeys(site.accelerator.id for site in sites.all):
        mine = [site for site in sites.all if site.accelerator.id == name]
        cheapest = min(mine, key=lambda site: site.usd_per_hour / site.devices)
        counts = [s.stock * s.devices + sum(s.free) if s.stock is not None else None for s in mine]
        yield Supply(
            accelerator=cheapest.accelerator,
            stock=None if None in counts else sum(n for n in counts if n is not None),
            usd_per_hour=cheapest.usd_per_hour / cheapest.devices,
            price_source=cheapest.price_source,
            term=cheapest.term,
            largest_unit=max(site.devices for site in mine),
        )
