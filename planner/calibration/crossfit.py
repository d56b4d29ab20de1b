"""Honest accuracy: every point judged with what was learned without it.

Constants and the widths of bands are fitted three times, each time without a third of the groups;
effects are told by all other groups. Structure (rules of engines, terms and their spreads, by
which keys bands differ) was chosen with all points in view: only points kept back elsewhere
judge it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.calibration.bands import fit_bands
from planner.calibration.fit import Fitter, fit_engines, fit_hand_off, fit_roofline, usable
from planner.calibration.parameters import EngineParameters
from planner.calibration.predict import METRICS, Prediction, Predictor, unit_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from planner.calibration.crossfit_cases import Case
    from planner.calibration.parameters import Parameters
    from planner.calibration.points import Point
    from planner.calibration.predict import Physical
    from planner.catalogue import Catalogue
    from planner.curves.transfer import StepLawLibrary

FOLDS: Final = 3
_SEED: Final = 7
_ROUNDS: Final = 4


def folds(points: Sequence[Point], seed: int = _SEED) -> NDArray[np.intp]:
    """Return the fold of each point: whole groups, dealt out at random."""
    groups = sorted({p.system.group for p in points})
    order = np.random.default_rng(seed).permutation(len(groups))
    fold = {groups[g]: i % FOLDS for i, g in enumerate(order)}
    return np.array([fold[p.system.group] for p in points], dtype=np.intp)


NEUTRAL: Final = EngineParameters(
    host_step_s=1e-3, host_sequence_s=10e-6, host_prefill_s=5e-3, front_token_s=1e-6,
    path_s=30e-3, decode_log=0.0, prefill_log=0.0, context_log=0.0,
)  # fmt: skip
"""Where searches begin that must not know the answer."""


@dataclass(frozen=True, slots=True)
class CrossFit:
    """Predictors of the folds, and what their physics says of all points."""

    predictors: tuple[Predictor, ...]
    physical: tuple[Physical, ...]
    fold: NDArray[np.intp]

    def physics(self) -> list[Prediction]:
        """Return predictions by step laws and constants alone."""
        return self._stitched([p.predict(x) for p, x in self._pairs()])

    def left_out(self, unit: str) -> list[Prediction]:
        """Return predictions from all other groups, or systems."""
        return self._stitched([p.leave_out(x, unit) for p, x in self._pairs()])

    def few_loads(self, cases: Sequence[Case]) -> list[list[Prediction]]:
        """Return predictions of further loads of a curve from a few and from all other groups."""
        return [x for k in range(FOLDS) for x in self._few_loads_of(k, cases)]

    def _few_loads_of(self, k: int, cases: Sequence[Case]) -> list[list[Prediction]]:
        predictor, physical = self.predictors[k], self.physical[k]
        own = [c for c in cases if self.fold[c.seen[0]] == k]
        values: list[dict[str, list[object]]] = [{} for _ in own]
        for metric in METRICS:
            pooled = predictor.pool(metric, physical)
            assert pooled is not None
            pool, points = pooled
            units = np.array([unit_of(p, "group") for p in points])
            for case, found in zip(own, values, strict=True):
                unit = np.flatnonzero(units == unit_of(points[case.seen[0]], "group"))
                residual = pool.within(unit, np.array(case.seen), np.array(case.wanted))
                part = physical.part(np.array(case.wanted))
                known = np.ones(len(case.wanted), dtype=bool)
                found[metric] = list(predictor.estimates(metric, part, residual, known))
        return [
            [
                Prediction(physical.points[i], t, o, "three loads")  # type: ignore[arg-type]
                for i, t, o in zip(case.wanted, found["ttft_s"], found["tpot_s"], strict=True)
            ]
            for case, found in zip(own, values, strict=True)
        ]

    def _pairs(self) -> list[tuple[Predictor, Physical]]:
        return list(zip(self.predictors, self.physical, strict=True))

    def _stitched(self, by_fold: Sequence[Sequence[Prediction]]) -> list[Prediction]:
        return [by_fold[k][i] for i, k in enumerate(self.fold)]


def cross_fit(
    points: Sequence[Point], start: Parameters, catalogue: Catalogue, library: StepLawLibrary
) -> CrossFit:
    """Fit constants without each third of the groups.

    Args:
        points: Measured points that physics has an answer for, with both metrics.
        start: Kinds of effects and shares; its constants are not used.
        catalogue: Models and accelerators.
        library: Step laws.
    """
    fold = folds(points)
    neutral = start.model_copy(update={"engines": dict.fromkeys(start.engines, NEUTRAL)})
    predictors = []
    for k in range(FOLDS):
        others = usable([p for p, f in zip(points, fold, strict=True) if f != k])
        fitter = Fitter(catalogue, library, others)
        found = fit_roofline(fitter, neutral, _ROUNDS)
        found = fit_engines(fitter, found, _ROUNDS)
        found = fit_hand_off(fitter, found, _ROUNDS)
        predictor = Predictor(catalogue, found, library)
        found = fit_bands(predictor, predictor.physics(others))
        predictors.append(Predictor(catalogue, found, library))
    return CrossFit(tuple(predictors), tuple(p.physics(points) for p in predictors), fold)
