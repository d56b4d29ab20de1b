"""The goodput curve of a pool: what it completes, and what it completes in time, at each load.

Completed work keeps rising to the end; the compliant rate has a peak, and past it falls to
nothing within a few steps of load.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.simulation.capacity import SEARCHING
from planner.simulation.effort import RunSize
from planner.simulation.fleet import FleetPool, sample_fleet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.simulation.fleet import Study
    from planner.simulation.pool import PoolSetup

BELOW: Final = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 1.0)
"""Loads up to the capacity, as shares of it."""
STEP: Final = 0.03
"""First step past the capacity, as a share of it; each next one is half as large again."""
COLLAPSED: Final = 0.05
"""Share of the peak below which the compliant rate counts as collapsed."""
FARTHEST: Final = 4.0
"""The curve ends at this multiple of the capacity even without a collapse, as under deadlines
that the length of the run does not reach."""
PEAK_ROUNDS: Final = 3
"""How often the steps beside the highest point are halved."""
REPLICATIONS: Final = 4


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A pool at one load; rates in requests per second, all workloads together."""

    load_rps: float
    completed_rps: float
    compliant_rps: float
    attainment: tuple[float, ...]
    """By workload; 1 where none is offered."""
    unstable: bool
    """The backlog grows: the compliant rate is what the simulated span gave, no steady state."""
    hit_rate: tuple[float, ...] = ()
    """By workload: share of the prompt tokens that a replica held."""


@dataclass(frozen=True, slots=True)
class GoodputCurve:
    """Points by ascending load."""

    points: tuple[CurvePoint, ...]
    collapsed: bool
    """Whether the last point's compliant rate is nearly nothing."""

    @property
    def peak(self) -> CurvePoint:
        """The point with the highest compliant rate."""
        return max(self.points, key=lambda p: p.compliant_rps)


def goodput_curve(
    study: Study,
    setup: PoolSetup,
    rates_rps: tuple[float, ...],
    capacity_rps: float,
    *,
    requests: int,
) -> GoodputCurve:
    """Measure a pool from light load past its capacity until its goodput has collapsed.

    All loads, and the search for the capacity, see the same draws, so that the curve is smooth
    and passes the promise where the search found the capacity.

    Long runs only where it decides: around the capacity and the peak.

    Args:
        study: Draws, deadlines and promises of the problem.
        setup: The pool.
        rates_rps: The mix; only proportions matter.
        capacity_rps: Load of the pool around which to look, > 0.
        requests: Length of the long runs; elsewhere a quarter.
    """
    mix = np.array(rates_rps) / sum(rates_rps)

    def at(share: float) -> CurvePoint:
        near = 0.9 <= share <= 1.2
        return _point(
            study, setup, mix * (share * capacity_rps), requests if near else max(requests // 4, 1)
        )

    points = {share: at(share) for share in BELOW}
    share, step = 1.0, STEP
    collapsed = False
    while not collapsed and share < FARTHEST:
        share += step
        step *= 1.5
        points[share] = at(share)
        best = max(p.compliant_rps for p in points.values())
        collapsed = points[share].compliant_rps <= COLLAPSED * best
    for _ in range(PEAK_ROUNDS):
        shares = sorted(points)
        i = max(range(len(shares)), key=lambda k: points[shares[k]].compliant_rps)
        for j in (i - 1, i + 1):
            if 0 <= j < len(shares):
                middle = (shares[i] + shares[j]) / 2
                points[middle] = at(middle)
    return GoodputCurve(tuple(points[share] for share in sorted(points)), collapsed)


def _point(study: Study, setup: PoolSetup, load: NDArray[np.float64], requests: int) -> CurvePoint:
    pool = FleetPool(setup, tuple(load.tolist()))
    size = RunSize(requests, REPLICATIONS, requests // 4)
    sample = sample_fleet(study, [pool], size, stream=SEARCHING)
    attained = sample.attainment().mean(axis=0)
    runs = sample.runs[0]
    return CurvePoint(
        load_rps=float(load.sum()),
        completed_rps=sum(r.completed_rps for r in runs) / len(runs),
        compliant_rps=float((load * attained).sum()),
        attainment=tuple(np.where(load > 0, attained, 1.0).tolist()),
        unstable=sample.unstable()[0],
        hit_rate=sample.hit_rates(),
    )
