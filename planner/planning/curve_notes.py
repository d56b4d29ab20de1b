"""Where the step times of pools are from: a record for each pool, sentences for the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.fleet import CurveNote
from planner.problem.curves import why_unused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from planner.candidates.template import Build
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
        path_s=curve.path_s,
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
    return (*notes, *_unused(problem))


def _unused(problem: Problem) -> Iterator[str]:
    wanted = tuple((demand.model, demand.precisions) for demand in problem.demands)
    devices = tuple(supply.accelerator.id for supply in problem.supplies)
    for row in problem.laws:
        why = why_unused(row, wanted, devices, problem.policies)
        if why is not None:
            yield f"{row.id}, from your own measurements, is not used: {why}"
