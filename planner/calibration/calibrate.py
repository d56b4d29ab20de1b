"""Curves from measurements: one fitted step law per system of a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planner.calibration.measured import is_ladder, read_ladder
from planner.calibration.parameters import read_parameters
from planner.calibration.physics import Physics, users_of_rank
from planner.calibration.run import Client
from planner.calibration.silicon import read_closed_loop_means
from planner.calibration.through import Observation, fit_law
from planner.curves.transfer import StepLawLibrary
from planner.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from planner.calibration.points import Point, System, Unusable
    from planner.calibration.run import Outcome
    from planner.calibration.through import FittedLaw
    from planner.catalogue import Catalogue

STATISTICS: Final = ("mean", "p50", "p90", "p99")
"""Of a latency, the first that is stated being compared."""


@dataclass(frozen=True, slots=True)
class CalibratedCurve:
    """A step law fitted to the runs of one system."""

    system: System
    fit: FittedLaw
    prior: str
    """The a-priori law that it started from."""
    runs: int
    tpot_error: float | None
    """Median |predicted / measured − 1| of TPOT over the runs it was fitted to."""
    ttft_error: float | None
    tpot_compared: tuple[str, ...]
    """The statistics that ``tpot_error`` compares; none where no run states any."""
    ttft_compared: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return the curve as plain data."""
        s, law, d = self.system, self.fit.law, self.system.main.degrees
        return {
            "model": s.llm.id,
            "precision": s.precision,
            "accelerator": s.accelerator.id,
            "engine": s.engine,
            "engine_version": s.engine_version,
            "accelerators": d.accelerators,
            "dp_degree": d.dp_degree,
            "ep_degree": d.ep_degree,
            "source": "benchmark fit",
            "prior": self.prior,
            "runs": self.runs,
            "tpot_error": self.tpot_error,
            "ttft_error": self.ttft_error,
            "tpot_compared": list(self.tpot_compared),
            "ttft_compared": list(self.ttft_compared),
            "knots": list(law.knots),
            "step_s": list(law.step_s),
            "slope_beyond_s_per_token": law.slope_beyond_s_per_token,
            "c_x_s_per_token2": law.c_x_s_per_token2,
            "c_k_s_per_token": law.c_k_s_per_token,
            "kv_tokens": self.fit.kv_tokens,
            "host_step_s": self.fit.constants.host_step_s,
            "host_sequence_s": self.fit.constants.host_sequence_s,
            "host_prefill_s": self.fit.constants.host_prefill_s,
            "path_s": self.fit.constants.path_s,
            "moved_from_prior": dict(self.fit.parts),
            "standard_deviation": dict(self.fit.sd),
            "misfit": self.fit.left_over,
        }


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a file of measurements gave."""

    curves: tuple[CalibratedCurve, ...]
    unusable: tuple[Unusable, ...]


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
    return Calibration(tuple(_curve(physics, seen[g]) for g in sorted(seen)), unusable)


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
    seen = [o for _, o in pairs]
    fit = fit_law(law.law, physics.constants(system.engine), law.kv_tokens, system, seen)
    outcomes = [fit.outcome(o.client) for o in seen]
    (tpot, of_tpot), (ttft, of_ttft) = (
        _median_error(kind, seen, outcomes) for kind in ("tpot", "ttft")
    )
    return CalibratedCurve(system, fit, law.source, len(seen), tpot, ttft, of_tpot, of_ttft)


def _median_error(
    kind: str, seen: Sequence[Observation], outcomes: Sequence[Outcome]
) -> tuple[float | None, tuple[str, ...]]:
    """Compare the first of mean, p50, p90 and p99 that each run states; say which they were."""
    errors, compared = [], set()
    for one, found in zip(seen, outcomes, strict=True):
        stated = (s for s in STATISTICS if one.measured.get(f"{kind}_{s}_s"))
        if (statistic := next(stated, None)) is not None:
            name = f"{kind}_{statistic}_s"
            errors.append(abs(getattr(found, name) / one.measured[name] - 1))
            compared.add(statistic)
    median = float(np.median(errors)) if errors else None
    return median, tuple(s for s in STATISTICS if s in compared)
