"""Predictions of ladders: a priori, or with step laws fitted through the simulator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from planner.calibration.predict import Estimate
from planner.calibration.run import Outcome, simulate_run
from planner.calibration.through import FittedLaw, Observation, fit_law
from planner.calibration.two_stages import Stages, simulate_stages
from planner.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from planner.calibration.constants import EngineConstants
    from planner.calibration.measured_run import MeasuredRun
    from planner.calibration.physics import Physics
    from planner.calibration.run import Client
    from planner.curves.step_law import StepLaw
    from planner.curves.transfer import APrioriLaw

Knowledge = Literal["fitted", "library", "transfer", "far"]
"""What a step law rests on: runs of the system, the catalogue's law of it, laws of others moved
to it, or moved to a generation of accelerators of which there is no law at all."""

SPREAD: Final[dict[Knowledge, tuple[float, float]]] = {
    "fitted": (0.25, 0.10),
    "library": (0.60, 0.35),
    "transfer": (0.80, 0.50),
    "far": (1.20, 0.80),
}
"""Half-widths of 90 % bands of TTFT and TPOT, in ln. That of TPOT is also the step time's, whose
ends are pushed through the simulator."""

_MET: Final = 0.99
"""Attainment at which a deployment counts as one that meets its deadlines."""

_OF_THE_WHOLE: Final = ("goodput_rps", "request_rps")


@dataclass(frozen=True, slots=True)
class Band:
    """A run as expected; at both ends of the step time's band; and as it may be meant too."""

    outcomes: tuple[Outcome, ...]
    """The expected one first."""

    @property
    def expected(self) -> Outcome:
        """The run at the step times expected."""
        return self.outcomes[0]

    def values(self, name: str) -> tuple[float, float, float] | None:
        """Return the expected value of a quantity, and its least and most; None without any."""
        found = [getattr(o, name) for o in self.outcomes]
        return None if None in found else (found[0], min(found), max(found))


@dataclass(frozen=True, slots=True)
class RunPrediction:
    """What is predicted of a run; None and a reason where nothing can be."""

    run: MeasuredRun
    band: Band | None
    source: str
    reason: str = ""
    knowledge: Knowledge = "library"

    def estimate(self, name: str) -> Estimate | None:
        """Return a quantity by its name in ``Outcome``, with its band.

        A time's band is that of times never seen, or what the step time's band makes of it in
        the simulation, whichever is wider: near saturation a little more work is a long queue.
        Goodput and attainment have the latter only.
        """
        kind = name.split("_", 1)[0]
        known = self.band is not None and kind not in self.run.blind
        values = self.band.values(name) if self.band is not None and known else None
        if values is None:
            return None
        value, least, most = values
        ranks = self.run.ranks if name in _OF_THE_WHOLE else 1
        half = dict(zip(("ttft", "tpot"), SPREAD[self.knowledge], strict=True)).get(kind, 0.0)
        low, high = min(least, value * np.exp(-half)), max(most, value * np.exp(half))
        return Estimate(value * ranks, float(low) * ranks, float(high) * ranks)

    def headline(self, kind: str) -> str:
        """Return which quantity of ``ttft`` or ``tpot`` stands for the run: the first measured."""
        for quantity in ("mean", "p50", "p90", "p99"):
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
    """Fit a step law to the runs of each colocated system; keyed by ``System.group``."""
    by_system: dict[str, list[MeasuredRun]] = {}
    for run in known:
        if run.system.prefill is None and not run.others:
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
    fit = fits.get(run.system.group)
    if fit is not None and run.system.prefill is None:

        def again(law: StepLaw, host: EngineConstants, client: Client) -> Outcome:
            return simulate_run(law, host, fit.kv_tokens, fit.system, client)

        band = _band(run, fit.law, fit.constants, SPREAD["fitted"][1], again)
        source = "step law fitted through the simulator"
        return RunPrediction(run, band, source, knowledge="fitted")
    if run.system.prefill is not None:
        return _apart(physics, run)
    best: RunPrediction | None = None
    for system, client in ((run.system, run.client), *run.others):
        ranks = system.main.replicas * system.main.degrees.dp_degree
        found = _a_priori(physics, replace(run, system=system, client=client, ranks=ranks))
        if best is None or _attained(found) > _attained(best):
            best = found
        if _attained(best) >= _MET:
            break
    assert best is not None
    return best


def _attained(prediction: RunPrediction) -> float:
    outcome = prediction.band.expected if prediction.band else None
    return 0.0 if outcome is None else outcome.attainment or 0.0


def _a_priori(physics: Physics, run: MeasuredRun) -> RunPrediction:
    law = physics.law(run.system)
    host = physics.constants(run.system.engine)

    def simulated(scaled: StepLaw, times: EngineConstants, client: Client) -> Outcome:
        return simulate_run(scaled, times, law.kv_tokens, run.system, client)

    knowledge = knowledge_of(law)
    band = _band(run, law.law, host, SPREAD[knowledge][1], simulated)
    return RunPrediction(run, band, _source(run, law.source), knowledge=knowledge)


def knowledge_of(law: APrioriLaw) -> Knowledge:
    """Return what an a-priori law rests on."""
    if not law.near:
        return "far"
    return "library" if law.matched else "transfer"


def _apart(physics: Physics, run: MeasuredRun) -> RunPrediction:
    stages = Stages.of(physics, run.system)

    knowledge = knowledge_of(stages.law)
    band = Band(
        tuple(
            simulate_stages(stages.slowed(factor), run.system, client)
            for factor, client in _cases(run, SPREAD[knowledge][1])
        )
    )
    return RunPrediction(run, band, _source(run, stages.law.source), knowledge=knowledge)


def _source(run: MeasuredRun, law: str) -> str:
    degrees = run.system.main.degrees
    shape = f"; {run.system.main.replicas} x tp{degrees.tp_degree}" if run.note else ""
    return f"{law}{shape}; {run.note}" if run.note else law


def _band(
    run: MeasuredRun,
    law: StepLaw,
    host: EngineConstants,
    half: float,
    simulated: Callable[[StepLaw, EngineConstants, Client], Outcome],
) -> Band:
    """Simulate at the expected step time and at the ends of its band, ``half`` in ln."""
    return Band(
        tuple(
            simulated(law.slowed(factor), host.slowed(factor), client)
            for factor, client in _cases(run, half)
        )
    )


def _cases(run: MeasuredRun, half: float) -> list[tuple[float, Client]]:
    """Return factors on the step time with clients: expected, both ends, what else is meant."""
    ends = [(factor, run.client) for factor in (1.0, float(np.exp(-half)), float(np.exp(half)))]
    return ends + [(1.0, client) for client in run.perhaps]
