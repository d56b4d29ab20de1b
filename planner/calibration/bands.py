"""How wide bands are: nine in ten runs lie within, among those alike as well as overall.

Pooling states a spread for every prediction, but some accelerators, engines and models are less
like their kin than others. A factor for each, learned from runs that were left out, widens or
narrows the band; the fewer systems it is learned from, the nearer to 1 it stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from planner.calibration.crossfit_cases import cases_of
from planner.calibration.parameters import BandParameters
from planner.calibration.predict import METRICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from planner.calibration.parameters import Parameters
    from planner.calibration.points import Point
    from planner.calibration.pooling import Kin, Pool
    from planner.calibration.predict import Physical, Predictor

    Floats = NDArray[np.float64]

COVERED: Final = 0.90
COVERED_BY_FACTORS: Final = {"tpot": 0.94, "ttft": 0.92}
"""Aimed at a little higher: factors fit the runs they are learned from better than others."""
KEYS: Final = {"tpot": ("accelerator",), "ttft": ("engine", "accelerator")}
"""By which keys of pooling the factors differ, in turn. Models were tried: too few systems of one
tell, and bands learned without a third of them held fewer of that third than without factors."""
OWN_WEIGHT: Final = 3.0
"""With so many systems a factor is believed half."""
_LEAST: Final = 0.2


def fit_bands(predictor: Predictor, measured: Physical) -> Parameters:
    """Return a predictor's parameters with bands that hold nine in ten of measured runs.

    Runs of groups never seen, and other loads of curves of which three loads are known.
    """
    widths: dict[str, float] = {}
    factors: dict[str, dict[str, float]] = {}
    for metric in METRICS:
        pooled = predictor.pool(metric, measured)
        assert pooled is not None
        pool, points = pooled
        kind = metric.removesuffix("_s")
        rows = {p.row for p in points}
        index = np.flatnonzero([p.row in rows for p in measured.points])
        truth = np.log([getattr(p, metric) for p in points])
        left = truth - measured.log(metric)[index]
        groups = [p.system.group for p in points]
        residual = pool.without(groups)
        kin = measured.kin().part(index)
        widths[kind], factors[kind] = learned(
            (left - residual.mean) / residual.sd, kin, groups, KEYS[kind], COVERED_BY_FACTORS[kind]
        )
        own = _own(pool, points, left)
        widths[f"{kind}_own"] = round(float(np.quantile(np.abs(own), COVERED)), 3)
    bands = BandParameters(**widths, ttft_factors=factors["ttft"], tpot_factors=factors["tpot"])
    return predictor.parameters.model_copy(update={"bands": bands})


def learned(
    error: Floats, kin: Kin, groups: Sequence[str], names: Sequence[str], covered: float = COVERED
) -> tuple[float, dict[str, float]]:
    """Return the width of bands in standard deviations, and the factors by ``name level``.

    Args:
        error: Errors of runs left out, in stated standard deviations; shape ``(n,)``.
        kin: The runs.
        groups: The system of each.
        names: Keys of pooling by which factors differ, in turn.
        covered: Share of the runs that bands shall hold.
    """
    size = np.abs(error)
    systems = np.array(groups)
    found: dict[str, float] = {}
    for name in names:
        levels = np.array([k[name] for k in kin.keys])
        usual = float(np.quantile(size, covered))
        now = np.ones_like(size)
        for level in sorted(set(levels)):
            of = levels == level
            count = len(set(systems[of]))
            ratio = float(np.quantile(size[of], covered)) / usual
            weight = count / (count + OWN_WEIGHT)
            factor = round(float(max(ratio, _LEAST) ** weight), 3)
            found[f"{name} {level}"] = now[of] = factor
        size = size / now
    return round(float(np.quantile(size, covered)), 3), found


def _own(pool: Pool, points: Sequence[Point], left: Floats) -> Floats:
    groups = np.array([p.system.group for p in points])
    found = [np.zeros(0)]
    for case in cases_of(points):
        unit = np.flatnonzero(groups == groups[case.seen[0]])
        wanted = np.array(case.wanted)
        told = pool.within(unit, np.array(case.seen), wanted)
        found.append((left[wanted] - told.mean) / told.sd)
    return np.concatenate(found) if len(found) > 1 else np.ones(1)
