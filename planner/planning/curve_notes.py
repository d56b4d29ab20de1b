"""Where the step times of pools are from: a record for each pool, sentences for the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.curves.speculation import plain_step_s, verification_s
from planner.fleet import AdaptersNote, CurveNote, SpeculationNote
from planner.problem.curves import why_unused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from planner.candidates.template import Build
    from planner.curves.curve import Curve
    from planner.problem.resolve import Problem


def curve_note(build: Build, longest: int) -> CurveNote:
    """Return the provenance of a build's step times.

    Args:
        build: The build.
        longest: Tokens of the longest request that it serves.
    """
    curve = build.curve
    return CurveNote(
        id=curve.id,
        source=curve.source,
        extrapolated=curve.extrapolates(build.max_num_batched_tokens, longest),
        relative_error=curve.relative_error.mean,
        caveat=curve.caveat,
        measured_in=curve.row.origin.attribution if curve.row.origin else None,
        replaces=curve.row.origin.replaces if curve.row.origin else None,
        path_s=curve.row.path_s,
    )


def speculation_note(build: Build) -> SpeculationNote | None:
    """Return what a build's replicas draft; None where they decode token by token."""
    spec, seats = build.curve.speculation, build.max_num_seqs
    if spec is None:
        return None
    gained = {n: speedup_at(build, n) for n in sorted({1, max(seats // 8, 1), seats})}
    return SpeculationNote(
        method=spec.method,
        draft_tokens=spec.draft_tokens,
        acceptance=spec.acceptance,
        tokens_per_step=spec.gained,
        draft_cost=spec.draft_cost,
        draft_memory_bytes=spec.draft_memory,
        draft_kv=spec.draft_kv,
        added_ttft_s=build.curve.added_ttft_s,
        token_time_ratio={str(n): ratio for n, ratio in gained.items()},
    )


def speedup_at(build: Build, sequences: int) -> float:
    """Return the time of a token with drafts over that without, without context."""
    spec, law = build.curve.speculation, build.curve.plain_law
    assert spec is not None
    whole = verification_s(law, spec, sequences)
    return whole / spec.gained / plain_step_s(law, sequences)


def adapters_note(build: Build) -> AdaptersNote | None:
    """Return the adapters that a build's replicas keep; None where they keep none."""
    kept = build.curve.adapters
    if kept is None:
        return None
    return AdaptersNote(
        workloads=kept.owners,
        count=kept.count,
        rank=kept.rank,
        overhead=kept.overhead,
        bytes_per_device=kept.bytes_per_device,
    )


def curve_notes(problem: Problem, builds: Iterable[Build]) -> tuple[str, ...]:
    """Say which curves are the user's own, what they replace, and which cannot be used."""
    used = {build.curve.id: build.curve for build in builds}
    notes = []
    for curve in used.values():
        origin = curve.row.origin
        if origin is not None:
            instead = f", in place of the catalogue's {origin.replaces}" if origin.replaces else ""
            notes.append(f"{curve.id}: step times from {origin.file}{instead}")
    return (*notes, *_of_factors(used.values()), *_unused(problem))


def _of_factors(curves: Iterable[Curve]) -> Iterator[str]:
    """Say which factors on step times a fleet has, or that it has none."""
    drafts = {c.speculation.name: c.speculation for c in curves if c.speculation is not None}
    kept = [c.adapters for c in curves if c.adapters is not None]
    said = [
        f"{s.name} takes {s.gained:.3g} tokens a verification for certain, as stated"
        for s in drafts.values()
    ]
    said += [
        f"{a.count} adapters of rank {a.rank} make every step {a.overhead:.1%} longer, as stated"
        for a in {one.owners: one for one in kept}.values()
    ]
    none = [w for w, some in (("speculative decoding", drafts), ("adapters", kept)) if not some]
    said += [f"{word}: none" for word in none]
    yield f"factors on step times: {'; '.join(said)}"


def _unused(problem: Problem) -> Iterator[str]:
    wanted = tuple((demand.model, demand.precisions) for demand in problem.demands)
    devices = tuple(supply.accelerator.id for supply in problem.supplies)
    for row in problem.laws:
        why = why_unused(row, wanted, devices, problem.policies)
        if why is not None:
            yield f"{row.id}, from your own measurements, is not used: {why}"
