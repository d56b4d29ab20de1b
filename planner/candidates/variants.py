"""What one curve is built in: formats of the KV cache, adapters kept, tokens drafted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.candidates.number_formats import in_kv_dtypes
from planner.candidates.template import Removed, hardware_name
from planner.curves.beside import Beside, adapter_bytes_per_device
from planner.curves.curve import AdaptersKept, Curve
from planner.curves.speculation import Speculation, speculative

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.catalogue import Catalogue
    from planner.problem.resolve import AdapterSet, Demand, Problem
    from planner.scenario.speculation import SpeculativeDecoding


def in_variants(
    problem: Problem, catalogue: Catalogue, demands: Sequence[Demand], curve: Curve
) -> Iterator[Curve | Removed]:
    """Yield a curve in every variant that the scenario states, or why one is left out.

    Args:
        problem: Policies, and other workloads.
        catalogue: With the step laws.
        demands: Of one model.
        curve: As it was measured.
    """
    for one in in_kv_dtypes(catalogue, demands, curve):
        if isinstance(one, Removed):
            yield one
            continue
        for kept in _with_adapters(problem, demands, one):
            yield from _with_drafts(problem, catalogue, demands, kept)


def _with_adapters(problem: Problem, demands: Sequence[Demand], curve: Curve) -> Iterator[Curve]:
    """Yield a curve without adapters, with those of each workload, and with all of them."""
    sets = {d.adapters.owner: d.adapters for d in demands if d.adapters is not None}
    if not sets:
        yield curve
        return
    if problem.policies.sharing != "shared":
        if any(d.adapters is None for d in demands):
            yield curve
        if len(sets) > 1:
            for one in sets.values():
                yield keeping(curve, (one,), f"-{one.owner}")
    yield keeping(curve, tuple(sets.values()))


def keeping(curve: Curve, sets: Sequence[AdapterSet], suffix: str = "") -> Curve:
    """Return the curve of replicas that keep adapters: less memory, and longer steps.

    Every step takes longer by the largest stated overhead, also one without an adapter.
    """
    specs = [one.spec for one in sets]
    count, rank = sum(s.count for s in specs), max(s.rank for s in specs)
    inner = any(s.targets == "all" for s in specs)
    each = adapter_bytes_per_device(curve.llm, rank, curve.layout, inner=inner)
    overhead = max(s.overhead for s in specs)
    return replace(
        curve,
        id=f"{curve.id}.lora{count}x{rank}",
        parts=(*curve.parts, f"lora{count}x{rank}{suffix}"),
        step_law=curve.step_law.slowed(1 + overhead),
        adapters=AdaptersKept(
            tuple(one.owner for one in sets), count, rank, overhead, count * each
        ),
        beside=curve.beside.plus(Beside(count * each)),
        source=f"{curve.source}; steps {overhead:.1%} longer for adapters, as stated",
    )


def _with_drafts(
    problem: Problem, catalogue: Catalogue, demands: Sequence[Demand], curve: Curve
) -> Iterator[Curve | Removed]:
    """Yield a curve token by token, and with every way to draft tokens that is stated for it."""
    ways = [
        one
        for one in problem.policies.speculative_decoding
        if one.model is None or catalogue.llm(one.model).family_id == demands[0].model
    ]
    if all(one.choose == "search" for one in ways):
        yield curve
    longest = [d.id for d in demands if d.slo.max_itl is not None]
    for one in ways:
        parts = (*curve.parts, one.name)
        why = None
        if curve.layout.devices != curve.layout.tp_degree:
            why = "speculative decoding is not planned for ranks or pipeline stages"
        elif longest:
            why = (
                f"with speculative decoding tokens come several at a time, and {longest[0]} bounds"
                " the gaps between them (slo.max_itl), which is not simulated"
            )
        elif one.gained <= 1 and one.choose == "search":
            why = "no drafted token is accepted, so it is never better than without drafts"
        if why is not None:
            hardware = curve.accelerator.id, curve.layout, curve.precision
            yield Removed(hardware_name(*hardware, parts), why, {})
            continue
        spec = _speculation(one)
        yield replace(
            curve,
            id=f"{curve.id}.{one.name}",
            parts=parts,
            speculation=spec,
            beside=curve.beside.plus(Beside(spec.draft_memory, spec.draft_kv, spec.draft_tokens)),
            source=f"{curve.source}; {one.name} told per token, {spec.gained:.3g} a step as stated",
        )


def _speculation(one: SpeculativeDecoding) -> Speculation:
    return Speculation(
        name=one.name,
        method=one.method,
        draft_tokens=one.draft_tokens,
        acceptance=one.acceptance,
        gained=one.gained,
        draft_cost=one.draft_cost,
        draft_memory=one.draft_memory,
        draft_kv=one.draft_kv,
    )


def speculative_or_why_not(
    curve: Curve, demands: Sequence[Demand], budget: int, seqs: int, kv_tokens: int
) -> Curve | str:
    """Return a curve whose steps are told per token where it drafts, or why it cannot.

    Args:
        curve: Says what is drafted.
        demands: Of one model; the loosest deadline between tokens counts.
        budget: ``max_num_batched_tokens``.
        seqs: ``max_num_seqs``.
        kv_tokens: Cache of a replica.
    """
    spec = curve.speculation
    if spec is not None and (spec.draft_tokens + 1) * seqs > budget:
        most = budget // (spec.draft_tokens + 1)
        return (
            f"{seqs} sequences verify {(spec.draft_tokens + 1) * seqs} tokens in a step; within"
            f" max_num_batched_tokens {budget} a max_num_seqs of {most} can"
        )
    return speculative(curve, seqs, kv_tokens, max(d.slo.tpot for d in demands))
