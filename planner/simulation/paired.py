"""Two setups under the same requests: their difference, far more sharply than each alone.

Both see the same gaps, lengths and classes, so that what luck does to one it does to the
other, and most of it cancels in the difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from planner.simulation.capacity import LONG_RUN
from planner.simulation.interval import Estimate, t_interval
from planner.simulation.points import measured
from planner.simulation.side_by_side import side_by_side

if TYPE_CHECKING:
    from planner.simulation.fleet import Study
    from planner.simulation.pool import PoolRun, PoolSetup


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Attainment of one setup minus that of another, for one workload."""

    difference: Estimate
    """With the 95 % interval of the paired differences."""
    one: Estimate
    other: Estimate
    """Each setup alone, with its Student interval; for comparison."""


def paired_difference(
    study: Study,
    one: PoolSetup,
    other: PoolSetup,
    load_rps: tuple[float, ...],
    *,
    requests: int,
    replications: int,
    stream: int,
) -> tuple[PairedDifference, ...]:
    """Compare two setups under common random numbers at the same load.

    Args:
        study: Draws, deadlines and promises of the problem.
        one: A pool.
        other: Another pool, offered the same requests at the same times.
        load_rps: Total load of each workload, requests per second.
        requests: Per replication; not fewer than the larger pool needs.
        replications: Independent pairs of runs, at least two.
        stream: Purpose of the random draws.

    Returns:
        One difference per workload.
    """
    n = max(requests, LONG_RUN * one.simulated, LONG_RUN * other.simulated)
    draws = [study.draws.named(load_rps, n, r, stream) for r in range(replications)]
    rate = sum(load_rps)

    def run(job: tuple[PoolSetup, int], _: object) -> PoolRun:
        setup, r = job
        return measured(study.points, setup, draws[r], rate, study.deadlines)

    jobs = [(setup, r) for setup in (one, other) for r in range(replications)]
    runs = side_by_side(run, jobs)
    study.meter.count(n * len(jobs))
    first = np.array([r.attainment for r in runs[:replications]])
    second = np.array([r.attainment for r in runs[replications:]])
    return tuple(
        PairedDifference(
            t_interval((first - second)[:, w].tolist()),
            t_interval(first[:, w].tolist()),
            t_interval(second[:, w].tolist()),
        )
        for w in range(first.shape[1])
    )
