"""How much one template carries: its capacity, and its goodput at each load."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from planner.candidates.enumerate import enumerate_builds
from planner.candidates.frontier import setup_of
from planner.candidates.screen import bounds_of, screen
from planner.candidates.serve import longest_requests, templates_of
from planner.catalogue import Catalogue
from planner.data import version
from planner.errors import InfeasibleError, InputError, nearest
from planner.fleet import CurveNote, Interval, PrefixHits
from planner.planning.curve_notes import curve_note
from planner.planning.results import hits_document
from planner.planning.study import effort_for, study_of
from planner.planning.teller import Teller
from planner.problem.resolve import resolve
from planner.simulation.capacity import precise_capacity
from planner.simulation.goodput import goodput_curve
from planner.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.candidates.template import Removed, Template
    from planner.problem.resolve import Problem
    from planner.scenario.load import LoadedScenario
    from planner.simulation.capacity import CapacityFound
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import Study
    from planner.simulation.goodput import CurvePoint, GoodputCurve
    from planner.simulation.interval import Estimate


class WorkloadMix(Spec):
    """A workload that the template serves."""

    id: str
    share: float
    """Of the offered requests; the capacity keeps the proportions of the scenario."""
    promise: float
    """Attainment promised."""


class GoodputPoint(Spec):
    """The pool at one load; requests per second, all workloads together."""

    offered_rps: float
    completed_rps: float
    compliant_rps: float
    attainment: tuple[float, ...]
    """By workload, in their order."""
    unstable: bool
    """The backlog grows without end; the compliant rate is what the simulated span gave."""


class TemplateCapacity(Spec):
    """The largest load at which a pool of one template keeps every promise, and its curve."""

    format_version: Literal["1.0"] = "1.0"
    planner_version: str
    seed: int
    scenario: str
    """Its name."""
    template: str
    replicas: int
    accelerators: int
    """Of all replicas."""
    router: str
    usd_per_hour: float
    """Of all replicas."""
    workloads: tuple[WorkloadMix, ...]
    capacity_rps: Interval
    """Of the whole pool."""
    wanted_precision: float
    precise: bool
    """Whether the half-width of the interval is within the wanted precision."""
    limited_by: str
    """What a mean-field estimate says stops a replica first; the simulation decides how far."""
    usd_per_thousand_compliant: float
    """At the capacity."""
    peak: GoodputPoint
    """The most compliant requests per second; past the capacity the promise is broken there."""
    collapsed: bool
    """Whether the curve was followed until nearly nothing was compliant."""
    curve: tuple[GoodputPoint, ...]
    """By ascending load."""
    replications: int
    requests: int
    """Simulated in all."""
    matching: int
    """Templates that the choice named; the cheapest per request among them was measured."""
    prefix_hits: tuple[PrefixHits, ...] = ()
    """At the capacity, by workload of whose prefixes something is known."""
    prefix_block_tokens: int | None = None
    """Tokens of the blocks in which prefixes were kept in the simulation; None: none were."""
    capacity_without_prefix_cache_rps: Interval | None = None
    """Of the same pool at a hit rate of 0: every prompt computed whole. 0 if the promise then
    holds at no load; None where no prefixes are kept."""
    step_times: CurveNote | None = None
    """Where its step times are from, and how wrong they may be."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which template to measure; ``None`` leaves it open."""

    template: str | None = None
    """Part of its id."""
    accelerator: str | None = None
    tp_degree: int | None = None
    workload: str | None = None


def capacity_of(
    loaded: LoadedScenario,
    wanted: Wanted | None = None,
    *,
    replicas: int = 1,
    precision: float = 0.005,
    progress: Callable[[str, float], None] | None = None,
    effort: Effort | None = None,
) -> TemplateCapacity:
    """Measure one template of a scenario.

    Args:
        loaded: The scenario.
        wanted: Which template; among several that fit, the cheapest per request.
        replicas: Size of the pool.
        precision: Wanted half-width of the capacity's 95 % interval, as a share of it.
        progress: Told what is being done and which share of the whole is done.
        effort: How much to simulate; what suits the kernel if left out.

    Raises:
        InputError: No template fits what is wanted, or it is not clear whom it should serve.
        InfeasibleError: The promise holds at no load.
    """
    wanted, tell = wanted or Wanted(), Teller(progress)
    catalogue = Catalogue()
    problem = resolve(loaded, catalogue)
    effort = effort or effort_for(problem)
    study = study_of(problem)
    tell("listing templates", 0.05)
    fitting = wanted_templates(problem, study, catalogue, wanted)
    tpot_s = [d.slo.tpot for d in problem.demands]
    template = fitting[0]
    if len(fitting) > 1:
        tell(f"choosing among {len(fitting)} templates", 0.1)
        kept, _ = screen(study, fitting, tpot_s, problem.policies.router, effort)
        if not kept:
            raise InfeasibleError(f"none of {len(fitting)} templates keeps the promise at any load")
        template = kept[0].template
    bound = bounds_of(study, [template], tpot_s)[0]
    if bound.load_rps <= 0:
        raise InfeasibleError(f"{template.id}: {bound.limited_by} allows no load at all")
    setup = setup_of(template.build, replicas, problem.policies.router)
    tell(f"searching the capacity of {template.id}", 0.4)
    found = precise_capacity(
        study,
        setup,
        template.mix_rps,
        0.75 * bound.load_rps * replicas,
        requests=effort.capacity_requests,
        precision=precision,
        most=effort.capacity_replications,
    )
    if found.capacity_rps.value <= 0:
        raise InfeasibleError(f"{template.id}: keeps the promise at no load")
    cold = None
    if setup.cache is not None:
        tell("searching the capacity at a hit rate of 0", 0.6)
        cold = precise_capacity(
            study,
            replace(setup, cache=None),
            template.mix_rps,
            0.75 * found.capacity_rps.value,
            requests=effort.capacity_requests,
            precision=precision,
            most=effort.capacity_replications,
        ).capacity_rps
    tell("following the goodput past the capacity", 0.7)
    curve = goodput_curve(
        study,
        setup,
        template.mix_rps,
        found.capacity_rps.value,
        requests=effort.capacity_requests,
    )
    return _document(
        _Measured(template, replicas, found, curve, study.meter.requests, cold),
        loaded,
        problem,
        limited_by=bound.limited_by,
        matching=len(fitting),
        precision=precision,
    )


@dataclass(frozen=True, slots=True)
class _Measured:
    template: Template
    replicas: int
    found: CapacityFound
    curve: GoodputCurve
    requests: int
    cold: Estimate | None
    """Capacity at a hit rate of 0, where prefixes are kept."""


def wanted_templates(
    problem: Problem, study: Study, catalogue: Catalogue, wanted: Wanted
) -> list[Template]:
    """Return the templates that are wanted, or say why there is none."""
    accelerator = None
    if wanted.accelerator is not None:
        found = catalogue.find_accelerator(wanted.accelerator)
        if found is None:
            raise InputError(
                f"--accelerator: {catalogue.why_not('accelerator', wanted.accelerator)}"
            )
        accelerator = found.id
    builds, removed = enumerate_builds(problem, catalogue)
    groups, barriers = templates_of(problem, study, builds)
    removed += [barrier.removed for barrier in barriers]

    def fits(name: str) -> bool:
        return (
            (wanted.template is None or wanted.template in name)
            and (accelerator is None or name.startswith(f"{accelerator}."))
            and (wanted.tp_degree is None or f".tp{wanted.tp_degree}." in name)
        )

    served = _group(problem, groups, wanted.workload)
    fitting = [t for t in groups[served] if fits(t.id)]
    if not fitting:
        raise InputError(_why_none(groups[served], [r for r in removed if fits(r.name)]))
    return fitting


def _group(
    problem: Problem, groups: dict[tuple[int, ...], list[Template]], workload: str | None
) -> tuple[int, ...]:
    """Return whom the template shall serve: one named workload, or as many as one can."""
    names = [demand.id for demand in problem.demands]
    if workload is not None:
        if workload in [one.demand.id for one in problem.deferred]:
            raise InputError(
                f"--workload {workload}: waits for units that others leave free, so it has no"
                " template of its own; leave its completion_window out to measure it"
            )
        if workload not in names:
            raise InputError(
                f"--workload {workload}: not in the scenario; {nearest(workload, names)}"
            )
        alone = (names.index(workload),)
        if alone not in groups:
            raise InputError(f"--workload {workload}: no template serves it alone")
        return alone
    if not groups:
        raise InfeasibleError("no template serves any workload; `planner plan` says why")
    most = max(len(serves) for serves in groups)
    largest = [serves for serves in groups if len(serves) == most]
    if len(largest) > 1:
        raise InputError(
            "the workloads cannot share a template; name one with --workload: " + ", ".join(names)
        )
    return largest[0]


def _why_none(templates: list[Template], removed: list[Removed]) -> str:
    if removed:
        one = removed[0]
        return f"no such template can serve: {one.name}: {one.reason}"
    ids = [t.id for t in templates]
    some = ", ".join(ids[:6]) + (", ..." if len(ids) > 6 else "")
    return f"no template fits; there are {some}"


def _document(
    measured: _Measured,
    loaded: LoadedScenario,
    problem: Problem,
    *,
    limited_by: str,
    matching: int,
    precision: float,
) -> TemplateCapacity:
    template, replicas, found = measured.template, measured.replicas, measured.found
    curve, capacity = measured.curve, measured.found.capacity_rps
    cold, cache = measured.cold, template.build.cache
    usd_per_hour = template.build.usd_per_hour * replicas
    total = sum(template.mix_rps)
    at_capacity = min(curve.points, key=lambda p: abs(p.load_rps - capacity.value))
    compliant = capacity.value * at_capacity.compliant_rps / at_capacity.load_rps

    def point(p: CurvePoint) -> GoodputPoint:
        return GoodputPoint(
            offered_rps=p.load_rps,
            completed_rps=p.completed_rps,
            compliant_rps=p.compliant_rps,
            attainment=tuple(p.attainment[w] for w in template.serves),
            unstable=p.unstable,
        )

    return TemplateCapacity(
        planner_version=version(),
        seed=problem.seed,
        scenario=loaded.scenario.name,
        template=template.id,
        replicas=replicas,
        accelerators=template.build.accelerators * replicas,
        router=problem.policies.router,
        usd_per_hour=usd_per_hour,
        workloads=tuple(
            WorkloadMix(
                id=problem.demands[w].id,
                share=template.mix_rps[w] / total,
                promise=problem.demands[w].slo.attainment,
            )
            for w in template.serves
        ),
        capacity_rps=Interval(value=capacity.value, low=capacity.low, high=capacity.high),
        wanted_precision=precision,
        precise=found.precise,
        limited_by=limited_by,
        usd_per_thousand_compliant=usd_per_hour / 3.6 / compliant,
        peak=point(curve.peak),
        collapsed=curve.collapsed,
        curve=tuple(point(p) for p in curve.points),
        replications=found.replications,
        requests=measured.requests,
        matching=matching,
        prefix_hits=() if cold is None else _hits(problem, template, at_capacity),
        prefix_block_tokens=None if cold is None or cache is None else cache.block_tokens,
        capacity_without_prefix_cache_rps=None
        if cold is None
        else Interval(value=cold.value, low=cold.low, high=cold.high),
        step_times=curve_note(
            template.build, max(longest_requests(problem)[w] for w in template.serves)
        ),
    )


def _hits(problem: Problem, template: Template, at: CurvePoint) -> tuple[PrefixHits, ...]:
    return tuple(
        hits_document(problem.demands[w], at.hit_rate[w])
        for w in template.serves
        if problem.demands[w].prefix is not None
    )
