"""Every way to build a replica that the scenario allows, and why the others are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from planner.candidates.across import way_across
from planner.candidates.experts import expert_layouts
from planner.candidates.layouts import (
    attention_dp_curves,
    why_not_ranks_in_stages,
    why_not_step_wise,
)
from planner.candidates.number_formats import curve_in
from planner.candidates.pipelines import pipelines
from planner.candidates.template import Build, Removed, hardware_name
from planner.candidates.variants import in_variants, speculative_or_why_not
from planner.catalogue.degrees import tp_degrees_of
from planner.curves.context import largest_context
from planner.curves.curve import Curve
from planner.curves.doubt import slower
from planner.curves.link import over_link
from planner.curves.memory import GIB, Layout, Settings, generic_reserve, kv_room
from planner.curves.step_law import law_fields
from planner.kernels import Limits
from planner.problem.prefixes import ConstantHits, TracePrefixes, can_find
from planner.simulation.cached_pool import PrefixCache
from planner.simulation.lengths import draw_lengths, longest_request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from planner.catalogue import Catalogue, Llm
    from planner.problem.resolve import Demand, Problem, Supply
    from planner.scenario.policies import Policies


MOST_BLOCKS: Final = 64
"""Blocks of a mean prompt that are told apart in a prefix cache: finer blocks cost time, and find
at most half a block more, below one part in a hundred of a prompt."""
SMALL_STEP: Final = 512
"""Budget of a step from which a search for settings begins, too."""
LENGTHS: Final = 4_000
"""Prompts drawn for their mean."""


def enumerate_builds(problem: Problem, catalogue: Catalogue) -> tuple[list[Build], list[Removed]]:
    """Return the builds of every model that the workloads want, and those left out.

    Left out are degrees that the heads do not allow, models that do not fit in memory, builds
    without a curve, and policies under which the longest request could not be held. The
    problem's own laws take the place of the catalogue's.
    """
    catalogue = catalogue.with_laws(problem.laws)
    stated = problem.robust.curve_error if problem.robust is not None else None
    builds: list[Build] = []
    removed: list[Removed] = []
    for demands in _by_model(problem):
        precisions = sorted({p for d in demands for p in d.precisions})
        for precision in precisions:
            for supply in problem.supplies:
                for found in _curves(problem, catalogue, demands, precision, supply):
                    if isinstance(found, Removed):
                        removed.append(found)
                        continue
                    curve = slower(found, problem.slower_by, stated)
                    for one in in_variants(problem, catalogue, demands, curve):
                        if isinstance(one, Removed):
                            removed.append(one)
                        else:
                            _policies(problem, demands, supply, one, builds, removed)
    return builds, removed


def _curves(
    problem: Problem, catalogue: Catalogue, demands: list[Demand], precision: str, supply: Supply
) -> Iterator[Curve | Removed]:
    """Yield a curve for each layout of a replica, or why one is left out."""
    stages = problem.policies.pipeline_degrees
    if stages is None or max(stages) > 1:
        found = pipelines(problem, catalogue, demands, (precision, supply))
        yield from _step_wise(problem, demands, supply, found)
        if stages is not None and 1 not in stages:
            return
    ranked = attention_dp_curves(problem, catalogue, demands, (precision, supply))
    yield from why_not_ranks_in_stages(ranked, stages or ())
    for tp_degree in sorted(problem.policies.tp_degrees):
        if ranked and tp_degree > 1 and problem.policies.attention_dp == "always":
            continue
        flat = _hardware(problem, catalogue, demands, (precision, supply, tp_degree))
        if isinstance(flat, Removed):
            yield flat
        else:
            yield from _layouts(problem, catalogue, demands, flat)
    yield from _step_wise(problem, demands, supply, ranked)


def _by_model(problem: Problem) -> Iterator[list[Demand]]:
    for model in dict.fromkeys(d.model for d in problem.demands):
        yield [d for d in problem.demands if d.model == model]


def begun_at(policies: Policies) -> list[int]:
    """Return the budgets of a step that are built; with a small one where a search begins there.

    With small chunks alone some deadlines between tokens can be met.
    """
    listed = {*policies.max_num_batched_tokens}
    return sorted(listed | {SMALL_STEP} if policies.search == "around" else listed)


def _settings(problem: Problem, budget: int, seqs: int) -> Settings:
    return Settings(
        utilisation=problem.policies.memory_utilisation,
        max_num_batched_tokens=budget,
        max_num_seqs=seqs,
        block_size=problem.policies.block_size,
    )


def _hardware(
    problem: Problem,
    catalogue: Catalogue,
    demands: list[Demand],
    what: tuple[str, Supply, int],
) -> Curve | Removed:
    """Find the curve of a model on an accelerator at a degree, or say why there is none."""
    precision, supply, tp_degree = what
    llm, accelerator = demands[0].llm, supply.accelerator
    name = f"{accelerator.id}.tp{tp_degree}.{precision}"
    if tp_degree not in tp_degrees_of(llm):
        kv = f", {llm.kv_heads} KV heads" if llm.kv_heads else ""
        why = f"degree {tp_degree} does not fit {llm.id}'s {llm.query_heads} query heads{kv}"
        return Removed(name, why, {})
    if supply.stock is not None and supply.stock < tp_degree:
        why = f"needs {tp_degree} accelerators; the stock is {supply.stock}"
        return Removed(name, why, {"stock": supply.stock})
    if supply.largest_unit is not None and supply.largest_unit < tp_degree:
        why = f"needs {tp_degree} accelerators in one node; the largest has {supply.largest_unit}"
        return Removed(name, why, {"devices": supply.largest_unit})
    beyond = _beyond_nodes(problem, name, accelerator.id, tp_degree)
    if beyond is not None:
        return beyond
    curve = curve_in(problem, catalogue, demands[0], what)
    if isinstance(curve, Removed) or (isinstance(curve, Curve) and curve.max_tokens_per_step):
        return curve
    missing = _does_not_fit(problem, llm, what)  # what was measured fits
    if isinstance(curve, Curve):
        return missing or curve
    return missing or Removed(name, f"no curve: {curve.reason}", {})


def _beyond_nodes(problem: Problem, name: str, accelerator: str, devices: int) -> Removed | None:
    """Refuse devices that no scale-up domains of the topology have."""
    if problem.topology is None:
        return None
    way = way_across(problem.topology, name, accelerator, devices)
    return way if isinstance(way, Removed) else None


def _layouts(
    problem: Problem, catalogue: Catalogue, demands: list[Demand], curve: Curve
) -> Iterator[Curve | Removed]:
    """Yield the curves of every layout of experts, or why one is left out."""
    found = expert_layouts(catalogue, curve, problem.policies.expert_parallel)
    device, precision = curve.accelerator.id, curve.precision
    if not isinstance(found, tuple):
        yield Removed(hardware_name(device, curve.layout, precision), found.reason, {})
        return
    for one in found:
        name = hardware_name(device, one.layout, precision)
        yield _joined(problem, demands, name, one)


def _step_wise(
    problem: Problem, demands: list[Demand], supply: Supply, found: Iterable[Curve | Removed]
) -> Iterator[Curve | Removed]:
    """Yield curves of replicas of several ranks or stages, or why one is left out."""
    why_not = why_not_step_wise(demands)
    for curve in found:
        if isinstance(curve, Removed):
            yield curve
            continue
        devices = curve.layout.devices
        name = hardware_name(supply.accelerator.id, curve.layout, curve.precision)
        if supply.stock is not None and supply.stock < devices:
            why = f"needs {devices} accelerators; the stock is {supply.stock}"
            yield Removed(name, why, {"stock": supply.stock})
        elif why_not is not None:
            yield Removed(name, why_not, {})
        else:
            beyond = _beyond_nodes(problem, name, supply.accelerator.id, devices)
            yield beyond or _joined(problem, demands, name, curve)


def _joined(problem: Problem, demands: list[Demand], name: str, curve: Curve) -> Curve | Removed:
    """Return a curve over the topology's links, or refuse it where it would be extrapolated."""
    device = curve.accelerator.id
    if problem.topology is not None:
        own = curve.accelerators // curve.layout.pp_degree
        way = way_across(problem.topology, name, device, own)
        if isinstance(way, Removed):
            return way
        curve = over_link(curve, problem.topology.shape_of(device), way)
    return _extrapolated(problem, demands, name, curve) or curve


def _extrapolated(
    problem: Problem, demands: list[Demand], name: str, curve: Curve
) -> Removed | None:
    """Refuse a curve that would be used outside its range, where the scenario says so."""
    longest = max(min(longest_request(d.lengths), d.llm.max_context) for d in demands)
    budget = min(problem.policies.max_num_batched_tokens)
    if problem.policies.extrapolation or not curve.extrapolates(budget, longest):
        return None
    why = (
        f"its curve holds to {curve.max_tokens_per_step:,} tokens a step and requests of"
        f" {curve.max_context:,} tokens; the longest request has {longest:,}"
    )
    return Removed(name, why, {"longest_request_tokens": float(longest)})


def _does_not_fit(problem: Problem, llm: Llm, what: tuple[str, Supply, int]) -> Removed | None:
    """Say that weights leave no room, by the generic memory model; None if they do."""
    precision, supply, tp_degree = what
    policies = problem.policies
    settings = _settings(problem, min(policies.max_num_batched_tokens), min(policies.max_num_seqs))
    layout = Layout(tp_degree=tp_degree)
    reserve = generic_reserve(llm, precision, layout, settings)
    room = kv_room(llm, supply.accelerator, reserve, layout, settings)
    if room.kv_blocks > 0:
        return None
    memory = supply.accelerator.memory
    return Removed(
        f"{supply.accelerator.id}.tp{tp_degree}.{precision}",
        f"{llm.id} does not fit: weights need {reserve.weights_bytes / GIB:.1f} GiB of the"
        f" {memory * policies.memory_utilisation / GIB:.1f} GiB that one device may use",
        {"weights_bytes": reserve.weights_bytes, "memory_bytes": memory},
    )


def _cache(problem: Problem, demands: list[Demand]) -> PrefixCache | None:
    """Return how replicas keep prefixes: in a trace's own blocks where one names them.

    Else in the engine's blocks, or, where prompts are long, in blocks of twice, four times ...
    their size: what is shared ends at a whole block, so a little less is found than would be.
    """
    policies = problem.policies
    known = [demand for demand in demands if can_find(demand.prefix)]
    if not (policies.prefix_caching and known):
        return None
    slack = policies.affinity_slack if policies.router == "prefix_affinity" else None
    block_tokens: int = policies.block_size
    for demand in known:
        if isinstance(demand.prefix, TracePrefixes):
            return PrefixCache(demand.prefix.block_tokens, slack)
        if not isinstance(demand.prefix, ConstantHits):
            prompt, _ = draw_lengths(demand.lengths, LENGTHS, np.random.default_rng(0))
            while float(prompt.mean()) > MOST_BLOCKS * block_tokens:
                block_tokens *= 2
    return PrefixCache(block_tokens, slack)


def _policies(
    problem: Problem,
    demands: list[Demand],
    supply: Supply,
    curve: Curve,
    builds: list[Build],
    removed: list[Removed],
) -> None:
    """Add a build for every policy under which the shortest-limbed workload fits."""
    policies, tp_degree, plain = problem.policies, curve.layout.tp_degree, curve
    for budget in sorted(policies.max_num_batched_tokens):
        for seqs in sorted(policies.max_num_seqs):
            device = supply.accelerator.id
            hardware = hardware_name(device, curve.layout, curve.precision, curve.parts)
            name = f"{hardware}.b{budget}.s{seqs}"
            if seqs > budget:
                why = f"max_num_seqs {seqs} is above max_num_batched_tokens {budget}"
                removed.append(Removed(name, why, {}))
                continue
            room = plain.room(_settings(problem, budget, seqs))
            ready = speculative_or_why_not(plain, demands, budget, seqs, room.kv_tokens)
            if isinstance(ready, str):
                removed.append(Removed(name, ready, {}))
                continue
            curve = ready
            kept = tp_degree, curve.kv_dtype, curve.layout.pp_degree
            reach = largest_context(demands[0].llm, room, *kept)
            if room.kv_blocks < 1 or reach < 2:
                why = f"no room for KV cache: {-room.kv_bytes / GIB:.1f} GiB are missing"
                removed.append(Removed(name, why, {"kv_bytes": room.kv_bytes}))
                continue
            builds.append(
                Build(
                    model=demands[0].model,
                    precision=curve.precision,
                    engine=curve.engine,
                    accelerator=device,
                    tp_degree=tp_degree,
                    max_num_batched_tokens=budget,
                    max_num_seqs=seqs,
                    curve=curve,
                    law=law_fields(curve.step_law, budget),
                    limits=Limits(
                        max_num_seqs=seqs,
                        max_num_batched_tokens=budget,
                        kv_blocks=room.kv_blocks,
                        block_size=policies.block_size,
                        reserve_full_prompt=policies.reserve_full_prompt,
                        watermark_blocks=int(policies.watermark * room.kv_blocks),
                    ),
                    kv_tokens=room.kv_tokens,
                    usd_per_hour=supply.usd_per_hour * curve.layout.devices,
                    cache=_cache(problem, demands),
                )
            )
