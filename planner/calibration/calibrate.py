"""Curves from measurements: one fitted step law per system of a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.calibration.curve_document import curve_document
from planner.calibration.held_out import Errors, errors_of, held_out
from planner.calibration.measured import is_ladder, read_ladder
from planner.calibration.parameters import read_parameters
from planner.calibration.physics import Physics, users_of_rank
from planner.calibration.points import Unusable
from planner.calibration.run import Client
from planner.calibration.silicon import read_closed_loop_means
from planner.calibration.through import PLANNED, Observation, fit_law
from planner.curves.transfer import StepLawLibrary
from planner.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from planner.calibration.points import Point, System
    from planner.calibration.through import FittedLaw
    from planner.catalogue import Catalogue
    from planner.catalogue.measured import MeasuredCurve


@dataclass(frozen=True, slots=True)
class CalibratedCurve:
    """A step law fitted to the runs of one system."""

    system: System
    fit: FittedLaw
    prior: str
    """The a-priori law that it started from."""
    seen: tuple[Observation, ...]
    own: Errors
    """On the runs it was fitted to."""
    others: Errors
    """On runs held out of the fit."""

    @property
    def runs(self) -> int:
        """How many runs it was fitted to."""
        return len(self.seen)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a file of measurements gave."""

    file: Path
    curves: tuple[CalibratedCurve, ...]
    documents: tuple[MeasuredCurve, ...]
    """The curves as a scenario reads them, in the same order."""
    unusable: tuple[Unusable, ...]

    def document(self) -> dict[str, Any]:
        """Return the file that a scenario names, as plain data."""
        curves = [curve.model_dump(mode="json") for curve in self.documents]
        return {"format_version": "1.0", "curves": curves}


def calibrate(rows: Path, catalogue: Catalogue) -> Calibration:
    """Fit a step law to every colocated system of a file.

    Args:
        rows: A table of closed-loop means, or of ladders.
        catalogue: Models, accelerators, step laws.

    Raises:
        InputError: The file cannot be read, or holds no run that can be used.
    """
    physics = Physics(StepLawLibrary(catalogue), read_parameters())
    seen: dict[str, list[tuple[System, Observation]]] = {}
    if is_ladder(rows):
        ladder = read_ladder(rows, catalogue)
        unusable = ladder.unusable
        for run in ladder.runs:
            if run.others or run.system.prefill is not None:
                why = "several degrees are possible" if run.others else "it is disaggregated"
                unusable = (*unusable, Unusable(run.row, run.id, why))
                continue
            pair = (run.system, Observation(run.client, run.measured))
            seen.setdefault(run.system.group, []).append(pair)
    else:
        table = read_closed_loop_means(rows, catalogue)
        unusable = table.unusable
        for point in table.points:
            if point.system.prefill is None:
                pair = (point.system, observation_of(point))
                seen.setdefault(point.system.group, []).append(pair)
    if not seen:
        raise InputError(f"{rows}: no run of a colocated deployment to fit a step law to")
    curves = tuple(_curve(physics, seen[group]) for group in sorted(seen))
    documents = tuple(curve_document(curve, rows, catalogue) for curve in curves)
    return Calibration(rows, curves, documents, unusable)


def observation_of(point: Point) -> Observation:
    """Return a point as a run of one of its ranks."""
    load = point.load
    measured = {"ttft_mean_s": point.ttft_s, "tpot_mean_s": point.tpot_s}
    users = users_of_rank(load, point.system.main)
    client = Client(
        arrivals="closed",
        users=users,
        requests=load.rounds * users,
        prompt_tokens=load.prompt_tokens,
        output_tokens=load.output_tokens,
        lengths=load.lengths,
    )
    return Observation(client, {k: v for k, v in measured.items() if v is not None})


def _curve(physics: Physics, pairs: list[tuple[System, Observation]]) -> CalibratedCurve:
    system = pairs[0][0]
    law = physics.bare_law(system)
    constants = physics.constants(system.engine)
    seen = tuple(o for _, o in pairs)

    def fitted(some: Sequence[Observation]) -> FittedLaw:
        return fit_law(law.law, constants, law.kv_tokens, system, some, parts_for(some))

    fit = fitted(seen)
    return CalibratedCurve(
        system, fit, law.source, seen, errors_of(fit, seen), held_out(fit, seen, fitted)
    )


def parts_for(seen: Sequence[Observation]) -> tuple[str, ...]:
    """Return the parts of a law that runs can move and that a plan can use.

    How cached prefixes are read again is fitted where there are any, so that it is not charged
    to the rest.
    """
    cached = any(o.client.cached_tokens for o in seen)
    return (*PLANNED, "cached_reread") if cached else PLANNED
