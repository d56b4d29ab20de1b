"""Constants from measurements: few, with causes, and cross-fitted where they are judged.

Errors are logarithms of predicted over measured. Points of one level (model, accelerator,
engine, precision) share an error that pooling will take care of later, so a level counts once
and the scatter within it counts with the number of its points; outliers lose weight (soft L1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.optimize import least_squares

from planner.calibration.least_squares import solved
from planner.calibration.parameters import (
    EngineParameters,
    HandOffParameters,
    Parameters,
    RooflineParameters,
)
from planner.calibration.predict import Predictor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from planner.calibration.points import Point
    from planner.catalogue import Catalogue
    from planner.curves.transfer import StepLawLibrary

    Floats = NDArray[np.float64]

SCALES: Final = {
    "decode_log": 0.1,
    "prefill_log": 0.1,
    "context_log": 0.1,
    "host_step_s": 0.5e-3,
    "host_sequence_s": 5e-6,
    "host_prefill_s": 5e-3,
    "front_token_s": 1e-6,
    "path_s": 20e-3,
}
"""Engine constants that are fitted, and what is a moderate change of each."""

_LOGS: Final = ("decode_log", "prefill_log", "context_log")
_LOG_PRIOR: Final = 0.7
"""Standard deviation of the factors on laws, in scales: 7 %. Laws are believed."""
_STEP: Final = 0.3
_MOST: Final = 20.0

TPOT_WITHIN, TPOT_LEVEL = 0.12, 0.1
TTFT_WITHIN, TTFT_LEVEL = 0.3, 0.25
"""Errors, in ln, that are usual within a level and between levels."""
TTFT_WEIGHT: Final = 0.6
TPOT_CLIP, TTFT_CLIP = 0.7, 1.5


@dataclass(frozen=True, slots=True)
class Fitter:
    """Measured points, and what is needed to predict them."""

    catalogue: Catalogue
    library: StepLawLibrary
    points: tuple[Point, ...]

    def logs(self, parameters: Parameters) -> tuple[Floats, Floats]:
        """Return ln(predicted / measured) of TTFT and TPOT; shape ``(n,)`` each."""
        found = Predictor(self.catalogue, parameters, self.library).physics(self.points)
        truth = np.log(np.array([(p.ttft_s, p.tpot_s) for p in self.points], dtype=np.float64))
        return found.log("ttft_s") - truth[:, 0], found.log("tpot_s") - truth[:, 1]

    def matched(self, parameters: Parameters) -> NDArray[np.bool_]:
        """Return which points have a library law of their own; shape ``(n,)``."""
        found = Predictor(self.catalogue, parameters, self.library).physics(self.points)
        return np.array(found.matched)


def usable(points: Sequence[Point]) -> tuple[Point, ...]:
    """Return points that constants can be read off: measured, one engine, no other router."""
    return tuple(
        p
        for p in points
        if p.ttft_s and p.tpot_s and (p.system.prefill or p.system.main.replicas == 1)
    )


def level_of(point: Point) -> str:
    """Return the level whose points share an error."""
    s = point.system
    return f"{s.llm.id}|{s.accelerator.id}|{s.engine}|{s.precision}|{s.mode}"


def weighed(error: Floats, points: Sequence[Point], within: float, between: float) -> Floats:
    """Return the scatter within levels and the levels' own errors, each in usual sizes."""
    _, codes, counts = np.unique(
        [level_of(p) for p in points], return_inverse=True, return_counts=True
    )
    groups = np.unique([p.system.group for p in points], return_inverse=True, return_counts=True)
    size = groups[2][groups[1]]
    mean = (np.bincount(codes, error) / counts)[codes]
    return np.concatenate(
        [(error - mean) / within / size**0.25, mean / between / np.sqrt(counts[codes])]
    )


def fit_engines(fitter: Fitter, start: Parameters, rounds: int = 6) -> Parameters:
    """Fit the constants of every engine among colocated points.

    Args:
        fitter: Points to learn from; only colocated ones count.
        start: Everything else, and where the search begins.
        rounds: Most evaluations of the Jacobian.
    """
    colocated = tuple(p for p in fitter.points if p.system.prefill is None)
    fitter = Fitter(fitter.catalogue, fitter.library, colocated)
    engines = sorted({p.system.engine for p in colocated})
    owner = np.array([engines.index(p.system.engine) for p in colocated])
    k = len(SCALES)

    def made(x: Floats) -> Parameters:
        update = {}
        for i, engine in enumerate(engines):
            values = x[k * i : k * i + k]
            fields = {n: float(v * s) for (n, s), v in zip(SCALES.items(), values, strict=True)}
            update[engine] = EngineParameters(**fields)
        return start.model_copy(update={"engines": {**start.engines, **update}})

    def cost(x: Floats) -> Floats:
        ttft, tpot = fitter.logs(made(x))
        pace = weighed(np.clip(tpot, -TPOT_CLIP, TPOT_CLIP), colocated, TPOT_WITHIN, TPOT_LEVEL)
        first = weighed(np.clip(ttft, -TTFT_CLIP, TTFT_CLIP), colocated, TTFT_WITHIN, TTFT_LEVEL)
        prior = x.reshape(-1, k)[:, : len(_LOGS)].ravel() / _LOG_PRIOR
        return np.concatenate([pace, TTFT_WEIGHT * first, prior])

    def slopes(x: Floats) -> Floats:
        """One bump per constant serves all engines, whose points are disjoint."""
        base = cost(x)
        found = np.zeros((base.size, x.size))
        priors = base.size - len(engines) * len(_LOGS)
        for j in range(k):
            bumped = x.copy()
            bumped[j::k] += _STEP
            change = (cost(bumped) - base) / _STEP
            for i in range(len(engines)):
                rows = np.zeros(base.size, dtype=bool)
                rows[:priors] = np.tile(owner == i, 4)
                found[rows, k * i + j] = change[rows]
                if j < len(_LOGS):
                    found[priors + len(_LOGS) * i + j, k * i + j] = 1 / _LOG_PRIOR
        return found

    first = np.concatenate(
        [[getattr(start.engines[e], n) / s for n, s in SCALES.items()] for e in engines]
    )
    low = np.tile([-_MOST if n in _LOGS else 0.0 for n in SCALES], len(engines))
    found = least_squares(
        cost,
        np.clip(first, low + 0.01, _MOST - 0.01),
        jac=slopes,
        loss="soft_l1",
        bounds=(low, np.full_like(low, _MOST)),
        max_nfev=rounds,
    )
    return made(found.x)


ROOFLINE: Final = (
    "bandwidth", "arithmetic", "experts", "launch_s", "expert_launch_s", "routing", "narrow",
    "collective_s", "link",
)  # fmt: skip
_ROOFLINE_PRIOR: Final = 0.7
_ROOFLINE_START: Final = RooflineParameters(
    bandwidth=0.65, arithmetic=0.6, experts=0.5, attention=1.3, overlap=0.3, launch_s=25e-6,
    expert_launch_s=20e-6, routing=1.0, narrow=1.0, collective_s=14e-6, link=0.3,
)  # fmt: skip
"""Typical efficiencies: where the search begins, and the middle of the prior."""
_ROOFLINE_HIGHEST: Final = {"bandwidth": 0.95, "arithmetic": 0.9, "narrow": 1.5, "link": 0.9}
_ROOFLINE_MOST: Final = np.array(
    [
        np.log(_ROOFLINE_HIGHEST[n] / getattr(_ROOFLINE_START, n))
        if n in _ROOFLINE_HIGHEST
        else np.inf
        for n in ROOFLINE
    ]
)
"""Nothing runs above its peak."""


def fit_roofline(fitter: Fitter, start: Parameters, rounds: int = 8) -> Parameters:
    """Fit the roofline's efficiencies to points without a library law, by the roofline alone."""
    apart = ~fitter.matched(start)
    few = tuple(
        p for p, a in zip(fitter.points, apart, strict=True) if a and p.system.prefill is None
    )
    fitter = Fitter(fitter.catalogue, fitter.library, few)
    counts = {g: sum(p.system.group == g for p in few) for g in {p.system.group for p in few}}
    weight = np.array([counts[p.system.group] ** -0.25 for p in few])

    def made(x: Floats) -> Parameters:
        values = _ROOFLINE_START.model_dump()
        values.update({n: values[n] * float(np.exp(v)) for n, v in zip(ROOFLINE, x, strict=True)})
        return start.model_copy(update={"roofline": RooflineParameters(**values)})

    def cost(x: Floats) -> Floats:
        alone = made(x).model_copy(update={"roofline_share": 1.0})
        ttft, tpot = fitter.logs(alone)
        return np.concatenate(
            [tpot * weight / 0.1, 0.35 * ttft * weight / 0.3, x / _ROOFLINE_PRIOR]
        )

    return made(solved(cost, len(ROOFLINE), rounds, most=_ROOFLINE_MOST).x)


_HAND_OFF_START: Final = HandOffParameters(
    alone_factor=1.0, crowded_factor=1.0, path_s=0.05, burst_factor=1.0, softness=0.05
)


def fit_hand_off(fitter: Fitter, start: Parameters, rounds: int = 10) -> Parameters:
    """Fit the constants of disaggregated serving to the TTFT of disaggregated points."""
    apart = tuple(p for p in fitter.points if p.system.prefill is not None)
    fitter = Fitter(fitter.catalogue, fitter.library, apart)
    names = tuple(start.hand_off.model_dump())

    def made(x: Floats) -> Parameters:
        values = _HAND_OFF_START.model_dump()
        values.update({n: values[n] * float(np.exp(v)) for n, v in zip(names, x, strict=True)})
        return start.model_copy(update={"hand_off": HandOffParameters(**values)})

    def cost(x: Floats) -> Floats:
        ttft, _ = fitter.logs(made(x))
        return np.concatenate([np.clip(ttft, -2, 2) / 0.4, x])

    return made(solved(cost, len(names), rounds).x)
