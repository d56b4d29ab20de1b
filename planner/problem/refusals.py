"""What a scenario whose ids are all known may still not ask for; each mistake with its place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, get_args

from planner.catalogue.degrees import check_tp_degree, tp_degrees_of
from planner.catalogue.llm import Precision
from planner.errors import InputError, nearest
from planner.problem.arrivals import BurstArrivals, PoissonArrivals, RenewalArrivals, at_rate
from planner.problem.curves import why_unused
from planner.problem.prefixes import TracePrefixes
from planner.units import LEAST_RPS, MOST_RPS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.catalogue import Catalogue, Llm, StepLawRow
    from planner.errors import Where
    from planner.problem.resolve import Deferred, Demand, Mistakes, Outcome, Supply
    from planner.scenario.load import LoadedScenario

FREE_ARRIVALS: Final = (PoissonArrivals, RenewalArrivals, BurstArrivals)
"""Arrivals that carry no lengths of their own, and depend on no answer."""


def refuse_unused_curves(
    loaded: LoadedScenario,
    laws: tuple[tuple[StepLawRow, ...], ...],
    demands: tuple[Demand, ...],
    supplies: tuple[Supply, ...],
    mistakes: Mistakes,
) -> None:
    """Refuse a file of curves of which none can be used."""
    wanted = tuple((demand.model, demand.precisions) for demand in demands)
    devices = tuple(supply.accelerator.id for supply in supplies)
    for i, rows in enumerate(laws):
        why = [why_unused(row, wanted, devices, loaded.scenario.policies) for row in rows]
        if all(why):
            lines = "; ".join(f"{row.id}: {w}" for row, w in zip(rows, why, strict=True))
            what = f"curves.{i}: this scenario can use none of its curves: {lines}"
            mistakes.append((loaded.at("curves", i), what))


def refuse_work_without_lenders(
    loaded: LoadedScenario,
    demands: tuple[Demand, ...],
    deferred: tuple[Deferred, ...],
    mistakes: Mistakes,
) -> None:
    """Refuse work that waits for units of a model that nobody else asks for."""
    ids = [workload.id for workload in loaded.scenario.workloads]
    for one in deferred:
        mine = one.demand
        if any(d.model == mine.model and {*d.precisions} & {*mine.precisions} for d in demands):
            continue
        i = ids.index(mine.id)
        what = (
            f"workloads.{i}.completion_window: no other workload runs {mine.llm.id} at one of its"
            " precisions, so there are no units to be free; leave it out"
        )
        mistakes.append((loaded.at("workloads", i, "completion_window"), what))


def refuse_unlike_blocks(
    loaded: LoadedScenario, demands: tuple[Demand, ...], mistakes: Mistakes
) -> None:
    """Refuse traces of one model whose named blocks differ in size: a pool has blocks of one."""
    first: dict[str, tuple[str, int]] = {}
    for i, demand in enumerate(demands):
        if not isinstance(demand.prefix, TracePrefixes):
            continue
        size = demand.prefix.block_tokens
        other, theirs = first.setdefault(demand.model, (demand.id, size))
        if size != theirs:
            what = (
                f"workloads.{i}.prefix.trace: names blocks of {size} tokens, and that of {other}"
                f" blocks of {theirs}; a replica has blocks of one size: plan them apart"
            )
            mistakes.append((loaded.at("workloads", i, "prefix", "trace"), what))


def refuse_formats(
    loaded: LoadedScenario, i: int, precisions: tuple[str, ...], known: set[str]
) -> Iterator[tuple[Where | str, str]]:
    """Refuse words for formats of weights that mean none; those without a step law are moved."""
    formats = tuple(p for p in get_args(Precision) if p != "mixed")
    for j, precision in enumerate(precisions):
        if known and precision not in known and precision not in formats:
            what = (
                f"workloads.{i}.precisions: {precision!r} is no format of weights; step laws are"
                f" known: {', '.join(sorted(known))}; others of {', '.join(formats)} are moved"
                " from these"
            )
            yield loaded.at("workloads", i, "precisions", j), what


def refuse_adapters(loaded: LoadedScenario, i: int, llm: Llm) -> Iterator[tuple[Where | str, str]]:
    """Refuse adapters whose size nobody can tell from the model's geometry."""
    adapters = loaded.scenario.workloads[i].adapters
    if adapters is None:
        return
    key, why = "adapters", None
    if llm.mla is not None or llm.layer_mix.linear or None in (llm.head_dim, llm.kv_heads):
        why = f"the size of adapters of {llm.id}'s attention is not known; leave them out"
    elif adapters.targets == "all" and (llm.experts is not None or llm.intermediate is None):
        key = "adapters.targets"
        why = f"the size of adapters of {llm.id}'s experts is not known; state attention"
    if why is not None:
        yield (
            loaded.at("workloads", i, *key.split(".")),
            f"workloads.{i}.{key}: {why}",
        )


def refuse_drafts(
    loaded: LoadedScenario, catalogue: Catalogue, demands: tuple[Demand, ...]
) -> Iterator[tuple[Where | str, str]]:
    """Refuse speculative decoding of models that no workload wants."""
    wanted = {demand.model for demand in demands}
    for i, one in enumerate(loaded.scenario.policies.speculative_decoding):
        if one.model is None:
            continue
        found = catalogue.find_llm(one.model)
        if found is None or found.family_id not in wanted:
            what = (
                f"policies.speculative_decoding.{i}.model: no workload wants {one.model!r};"
                f" {nearest(one.model, sorted(wanted))}"
            )
            yield loaded.at("policies", "speculative_decoding", i, "model"), what


def refuse_degrees(loaded: LoadedScenario, demands: tuple[Demand, ...], mistakes: Mistakes) -> None:
    """Refuse a degree that the user wrote and that no model's heads allow."""
    if loaded.origins().get("policies.tp_degrees") == "default":
        return
    for j, degree in enumerate(loaded.scenario.policies.tp_degrees):
        if any(degree in tp_degrees_of(d.llm) for d in demands):
            continue
        try:
            check_tp_degree(demands[0].llm, degree)
        except InputError as error:
            where = loaded.at("policies", "tp_degrees", j)
            mistakes.append((where, f"policies.tp_degrees.{j}: {error}"))


def not_robust(loaded: LoadedScenario) -> Iterator[tuple[Where | str, str]]:
    """Yield, with its place, what does not go with a plan for most cases (uncertainty.robust)."""
    scenario = loaded.scenario
    if scenario.uncertainty is None or scenario.uncertainty.robust is None:
        return
    mend = "does not go with uncertainty.robust yet; leave one of them out"
    for i, workload in enumerate(scenario.workloads):
        for path, given in (
            (("completion_window",), workload.completion_window),
            (("slo", "attainment_over"), workload.slo.attainment_over),
        ):
            if given is not None:
                where = ("workloads", i, *path)
                yield loaded.at(*where), f"{'.'.join(map(str, where))}: {mend}"
    if scenario.objective == "max_goodput":
        what = "max_goodput spends what there is; with uncertainty.robust, ask for min_cost"
        yield loaded.at("objective"), f"objective: {what}"


def no_such_stress(
    loaded: LoadedScenario, demands: tuple[Demand, ...]
) -> Iterator[tuple[Where | str, str]]:
    """Yield, with its place, each preset of other demand that says nothing of these workloads."""
    scenario = loaded.scenario
    presets = scenario.uncertainty.stress if scenario.uncertainty is not None else ()
    own = [d.id for d in demands if not isinstance(d.arrivals, FREE_ARRIVALS)]
    fixed = [*own, *(d.id for d in demands if d.prefix is not None)]
    why = {
        "mix": "needs two workloads" if len(demands) < 2 else "",
        "lengths": f"{fixed[0]}: its lengths belong to arrivals or prefixes" if fixed else "",
        "bursts": f"{own[0]}: its arrivals are replayed, sessions, or wait" if own else "",
        "no_cache": "" if any(d.prefix for d in demands) else "no workload has a prefix",
    }
    for i, preset in enumerate(presets):
        if why.get(preset):
            where = ("uncertainty", "stress", i)
            yield loaded.at(*where), f"uncertainty.stress.{i}: {why[preset]}; leave {preset} out"


def multiples_beyond_all_fleets(
    loaded: LoadedScenario, outcomes: tuple[Outcome, ...], demands: tuple[Demand, ...]
) -> Iterator[tuple[Where | str, str]]:
    """Refuse multiples that bring a rate out of the bounds in which one may be written."""
    for i, outcome in enumerate(outcomes):
        at = ("uncertainty", "scenarios", i)
        for multiple, demand in zip(outcome.multiples, demands, strict=True):
            many = replace(demand, arrivals=at_rate(demand.arrivals, demand.rate_rps * multiple))
            for what in beyond_all_fleets(many, "state another multiple"):
                yield loaded.at(*at), f"uncertainty.scenarios.{i}: {what}"


def beyond_all_fleets(demand: Demand, mend: str) -> Iterator[str]:
    """Refuse a rate that came out of the bounds in which one may be written."""
    if not LEAST_RPS <= demand.rate_rps <= MOST_RPS:
        yield (
            f"{demand.id} is planned for {demand.rate_rps:.3g} req/s; a rate lies from"
            f" {LEAST_RPS:g} to {MOST_RPS:,.0f} req/s, so {mend}"
        )
