"""Predictions of measured points: physics, then what pooling knows of its kin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.calibration.disaggregated import TwoStages, disaggregated_means
from planner.calibration.physics import Physics, configuration_of
from planner.calibration.pooling import Pool, Residual, kin_of, prior_variance
from planner.curves.transfer import StepLawLibrary
from planner.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from planner.calibration.levels import Levels
    from planner.calibration.parameters import Parameters
    from planner.calibration.physics import Means
    from planner.calibration.points import Load, Point, System
    from planner.calibration.pooling import Kin, Pooling
    from planner.catalogue import Catalogue

    Floats = NDArray[np.float64]

NETWORK_BYTES_PER_S: Final = 25e9
"""Rate at which a device sends its share of a prompt's cache: half of a 400 Gbit/s port."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 90 % band."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """What is predicted of a point; None and a reason where nothing can be."""

    point: Point
    ttft_s: Estimate | None
    tpot_s: Estimate | None
    source: str
    """Where the step law is from, and who else was asked."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Physical:
    """Points that physics has an answer for, in order, and why it has none for the others."""

    points: tuple[Point, ...]
    means: tuple[Means, ...]
    sources: tuple[str, ...]
    matched: tuple[bool, ...]
    refused: Mapping[int, str]
    """Reason by row."""

    def kin(self) -> Kin:
        """Return the points as pooling sees them."""
        return kin_of(self.points, self.matched)

    def part(self, index: NDArray[np.intp]) -> Physical:
        """Return some of the points."""
        return Physical(
            tuple(self.points[i] for i in index),
            tuple(self.means[i] for i in index),
            tuple(self.sources[i] for i in index),
            tuple(self.matched[i] for i in index),
            self.refused,
        )

    def log(self, metric: str) -> Floats:
        """Return the logarithms of a metric, ``ttft_s`` or ``tpot_s``."""
        return np.log([getattr(m, metric) for m in self.means])


class Predictor:
    """Step laws, constants and pooling, ready for points."""

    def __init__(
        self,
        catalogue: Catalogue,
        parameters: Parameters,
        library: StepLawLibrary | None = None,
        levels: Levels | None = None,
    ) -> None:
        self.parameters = parameters
        self.levels = levels
        self.simulated = Physics(library or StepLawLibrary(catalogue), parameters)

    def physics(self, points: Sequence[Point]) -> Physical:
        """Simulate every point."""
        kept: list[Point] = []
        means: list[Means] = []
        sources: list[str] = []
        matched: list[bool] = []
        refused: dict[int, str] = {}
        for point in points:
            try:
                found, source, match = self._one(point.system, point.load)
            except InputError as error:
                refused[point.row] = str(error)
                continue
            kept.append(point)
            means.append(found)
            sources.append(source)
            matched.append(match)
        return Physical(tuple(kept), tuple(means), tuple(sources), tuple(matched), refused)

    def pool(self, metric: str, known: Physical) -> tuple[Pool, tuple[Point, ...]] | None:
        """Return the effects that measured points tell, and those points; None without any."""
        told = self._told(metric, known)
        if told is None:
            return None
        kin, residual, points = told
        return Pool(self._pooling(metric), kin, residual), points

    def predict(self, wanted: Physical, known: Physical | None = None) -> list[Prediction]:
        """Predict points, given what is known of their kin.

        Few measurements come on top of the committed levels; measurements of many systems
        replace them, so that what is known twice does not count twice.

        Args:
            wanted: What physics says of the points.
            known: The same of measured ones.
        """
        estimates = {}
        pooled = [""] * len(wanted.points)
        for metric in METRICS:
            pool = self._pool_for(metric, known)
            residual = None if pool is None else pool.at(wanted.kin())
            own = None if pool is None else pool.knows_group(wanted.kin())
            if own is not None:
                pooled = [
                    f"; runs of {'this configuration' if o else 'kindred ones'} pooled" for o in own
                ]
            estimates[metric] = self.estimates(metric, wanted, residual, own)
        return [
            Prediction(p, t, o, s)
            for p, t, o, s in zip(
                wanted.points,
                estimates["ttft_s"],
                estimates["tpot_s"],
                map(str.__add__, wanted.sources, pooled),
                strict=True,
            )
        ]

    def _pool_for(self, metric: str, known: Physical | None) -> Pool | None:
        told = None if known is None else self._told(metric, known)
        pooling = self._pooling(metric)
        if told is not None and len({p.system.group for p in told[2]}) >= MANY_SYSTEMS:
            return Pool(pooling, told[0], told[1])
        if self.levels is None:
            return None if told is None else Pool(pooling, told[0], told[1])
        if told is None:
            return self.levels.pool(pooling, metric)
        kin, residual, _ = told
        return Pool(
            pooling,
            self.levels.kin.with_others(kin),
            np.concatenate([self.levels.logs(metric), residual]),
            np.concatenate([self.levels.runs(), np.ones(len(kin))]),
        )

    def _told(self, metric: str, known: Physical) -> tuple[Kin, Floats, tuple[Point, ...]] | None:
        """Return measured points, their residuals, and the points themselves."""
        index = np.flatnonzero([getattr(p, metric) is not None for p in known.points])
        if not index.size:
            return None
        truth = np.log([getattr(known.points[i], metric) for i in index])
        points = tuple(known.points[i] for i in index)
        return known.kin().part(index), truth - known.log(metric)[index], points

    def leave_out(self, measured: Physical, unit: str) -> list[Prediction]:
        """Predict measured points, each from those of all other units.

        Args:
            measured: Points with what physics says of them.
            unit: ``group``, or ``system`` (model, accelerator and engine together).
        """
        estimates: dict[str, dict[int, Estimate]] = {}
        for metric in METRICS:
            pooled = self.pool(metric, measured)
            if pooled is None:
                estimates[metric] = {}
                continue
            pool, points = pooled
            residual = pool.without([unit_of(p, unit) for p in points])
            rows = {p.row for p in points}
            index = np.flatnonzero([p.row in rows for p in measured.points])
            part = measured.part(index)
            found = self.estimates(metric, part, residual)
            estimates[metric] = dict(zip((p.row for p in part.points), found, strict=True))
        return [
            Prediction(p, estimates["ttft_s"].get(p.row), estimates["tpot_s"].get(p.row), s)
            for p, s in zip(measured.points, measured.sources, strict=True)
        ]

    def estimates(
        self,
        metric: str,
        wanted: Physical,
        residual: Residual | None,
        own: NDArray[np.bool_] | None = None,
    ) -> list[Estimate]:
        """Return values and bands of one metric.

        Args:
            metric: ``ttft_s`` or ``tpot_s``.
            wanted: Points.
            residual: What pooling says of them; None: nothing is known.
            own: Whether runs of a point's own configuration are known; default nowhere.
        """
        kin = wanted.kin()
        if residual is None:
            spread = np.sqrt(prior_variance(self._pooling(metric), kin))
            residual = Residual(np.zeros(len(kin)), spread)
        bands, kind = self.parameters.bands, metric.removesuffix("_s")
        known = np.zeros(len(kin), dtype=bool) if own is None else own
        factors = factors_at(kin, getattr(bands, f"{kind}_factors"))
        band = np.where(known, getattr(bands, f"{kind}_own"), getattr(bands, kind) * factors)
        middle = wanted.log(metric) + residual.mean
        half = band * residual.sd
        value, low, high = np.exp(middle), np.exp(middle - half), np.exp(middle + half)
        return [
            Estimate(float(v), float(a), float(b)) for v, a, b in zip(value, low, high, strict=True)
        ]

    def _pooling(self, metric: str) -> Pooling:
        chosen = self.parameters.ttft if metric == "ttft_s" else self.parameters.tpot
        return chosen.pooling()

    def _one(self, system: System, load: Load) -> tuple[Means, str, bool]:
        law = self.simulated.law(system)
        if system.prefill is None:
            return self.simulated.colocated(system, load, law), law.source, law.matched
        return self._disaggregated(system, load), law.source, law.matched

    def _disaggregated(self, system: System, load: Load) -> Means:
        assert system.prefill is not None
        wanted = configuration_of(system, system.prefill)
        ahead = self.simulated.law_of(wanted)
        moved = wanted.roofline().kv_bytes_per_token / NETWORK_BYTES_PER_S
        return disaggregated_means(
            TwoStages(
                prefill=system.prefill,
                prefill_law=ahead.law,
                decode=system.main,
                decode_law=self.simulated.law(system).law,
                constants=self.simulated.constants(system.engine),
                transfer_s_per_token=moved,
                hand_off=self.parameters.hand_off.hand_off(),
            ),
            load,
        )


MANY_SYSTEMS: Final = 20
"""Measurements of so many configurations tell of engines and models on their own."""


def factors_at(kin: Kin, factors: Mapping[str, float]) -> Floats:
    """Return the factor of each point's band; 1 for levels never seen. Shape ``(n,)``.

    Args:
        kin: The points.
        factors: By ``key level``; a point's factor is the product of those of all its keys.
    """
    keys = sorted({name.split(" ", 1)[0] for name in factors})
    return np.array(
        [np.prod([factors.get(f"{key} {k[key]}", 1.0) for key in keys]) for k in kin.keys],
        dtype=np.float64,
    )


METRICS: Final = ("ttft_s", "tpot_s")


def unit_of(point: Point, unit: str) -> str:
    """Return the unit that a point is left out with."""
    s = point.system
    if unit == "system":
        return f"{s.llm.id}|{s.accelerator.id}|{s.engine}"
    return point.system.group
