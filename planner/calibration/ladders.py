"""Predictions of ladders: a priori, or with step laws fitted through the simulator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.calibration.predict import Estimate
from planner.calibration.run import Outcome, simulate_run
from planner.calibration.through import FittedLaw, Observation, fit_law
from planner.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from planner.calibration.measured import MeasuredRun
    from planner.calibration.physics import Physics
    from planner.calibration.points import System

SPREAD: Final = {
    ("ttft", "a priori"): 0.60,
    ("tpot", "a priori"): 0.35,
    ("ttft", "fitted"): 0.25,
    ("tpot", "fitted"): 0.10,
}
"""Half-widths of 90 % bands, in ln: of systems never seen, and of further loads of a fitted one."""

_LEAST_RUNS: Final = 3
"""With fewer runs than this the fit is still mostly its prior; the a-priori band holds."""


@dataclass(frozen=True, slots=True)
class RunPrediction:
    """What is predicted of a run; None and a reason where nothing can be."""

    run: MeasuredRun
    outcome: Outcome | None
    source: str
    reason: str = ""
    fitted: bool = False

    def estimate(self, name: str) -> Estimate | None:
        """Return a quantity by its name in ``Outcome``, with its band where there is one."""
        value = None if self.outcome is None else getattr(self.outcome, name)
        if value is None:
            return None
        kind = name.split("_", 1)[0]
        half = SPREAD.get((kind, "fitted" if self.fitted else "a priori"))
        if half is None:
            return Estimate(value, float("nan"), float("nan"))
        return Estimate(value, value * float(np.exp(-half)), value * float(np.exp(half)))

    def headline(self, kind: str) -> str:
        """Return which quantity of ``ttft`` or ``tpot`` stands for the run: the first measured."""
        for quantity in ("mean", "p50", "p99"):
            if f"{kind}_{quantity}_s" in self.run.measured:
                return f"{kind}_{quantity}_s"
        return f"{kind}_mean_s"


def predict_ladder(
    physics: Physics, runs: Sequence[MeasuredRun], known: Sequence[MeasuredRun] = ()
) -> list[RunPrediction]:
    """Predict runs, given others of the same systems that were measured."""
    fits = fit_systems(physics, known)
    found = []
    for run in runs:
        try:
            found.append(_predict(physics, run, fits))
        except InputError as error:
            found.append(RunPrediction(run, None, "", str(error)))
    return found


def fit_systems(physics: Physics, known: Sequence[MeasuredRun]) -> dict[str, FittedLaw]:
    """Fit a step law to the runs of each system; keyed by ``System.group``."""
    by_system: dict[str, list[MeasuredRun]] = {}
    for run in known:
        by_system.setdefault(run.system.group, []).append(run)
    fits = {}
    for group, runs in by_system.items():
        system = runs[0].system
        law = physics.bare_law(system)
        seen = [Observation(run.client, run.measured) for run in runs]
        constants = physics.constants(system.engine)
        fits[group] = fit_law(law.law, constants, law.kv_tokens, system, seen)
    return fits


def _predict(physics: Physics, run: MeasuredRun, fits: Mapping[str, FittedLaw]) -> RunPrediction:
    system: System = run.system
    fit = fits.get(system.group)
    if fit is not None:
        source = "step law fitted through the simulator"
        return RunPrediction(run, fit.outcome(run.client), source, fitted=True)
    law = physics.law(system)
    constants = physics.constants(system.engine)
    outcome = simulate_run(law.law, constants, law.kv_tokens, system, run.client)
    return RunPrediction(run, outcome, law.source)
