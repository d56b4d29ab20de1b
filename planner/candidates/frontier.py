"""What one unit of a template serves at several loads: the operating points of the program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.simulation.capacity import SEARCHING, pool_capacity
from planner.simulation.fleet import FleetPool, sample_fleet
from planner.simulation.pool import PoolSetup

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.candidates.template import Build, Template
    from planner.kernels import Router
    from planner.scenario.policies import Routing
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import Study
    from planner.simulation.interval import Estimate

FRACTIONS: Final = (0.4, 0.7, 0.85, 0.93, 1.0)
"""Loads of the operating points, as shares of the capacity. Past the capacity the promise is
broken, and soon after it the compliant rate falls to nothing."""


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """One unit under a load: offered and compliant requests per second, by workload."""

    load_rps: tuple[float, ...]
    goodput_rps: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Frontier:
    """The operating points of a template in a pool of a certain size."""

    template: Template
    pool_size: int
    capacity_rps: Estimate
    """Largest load of one unit, all workloads together, at which every promise holds."""
    points: tuple[OperatingPoint, ...]
    replications: int
    """Behind the capacity; more means a narrower interval."""

    def scaled(self, factor: float) -> Frontier:
        """Return the frontier with every rate multiplied: the same shape, more or less of it."""
        points = tuple(
            OperatingPoint(
                tuple(rate * factor for rate in p.load_rps),
                tuple(rate * factor for rate in p.goodput_rps),
            )
            for p in self.points
        )
        capacity = replace(
            self.capacity_rps,
            value=self.capacity_rps.value * factor,
            low=self.capacity_rps.low * factor,
            high=self.capacity_rps.high * factor,
        )
        return replace(self, points=points, capacity_rps=capacity)


def setup_of(build: Build, replicas: int, router: Routing) -> PoolSetup:
    """Return the numbers that the kernel needs for a pool of a build.

    A router that looks at what replicas keep, where they keep nothing, sees the counts only.
    """
    counts: Router = "least_outstanding" if router == "prefix_affinity" else router
    path_ps = round(build.curve.path_s * 1e12)
    group = None if build.group is None else build.group.setup()
    cache = build.cache if group is None else None
    return PoolSetup(
        build.law,
        build.limits,
        replicas,
        counts,
        cache,
        path_ps,
        build.priority,
        group,
        build.curve.layout.dp_degree,
        build.curve.layout.pp_degree,
    )


def measure_frontier(
    study: Study,
    template: Template,
    router: Routing,
    pool_size: int,
    guess_rps: float,
    effort: Effort,
    check: Callable[[], None] = lambda: None,
) -> Frontier | None:
    """Measure a template in a pool of a given size.

    Capacity and points are those of the pool, divided by its size: a pool shares bursts among
    its replicas, so that each carries more than it would alone.

    Args:
        study: Draws, deadlines and promises of the problem.
        template: What to measure, in the direction of its mix.
        router: How the pool spreads requests.
        pool_size: Units in the pool.
        guess_rps: Load of one unit near which the capacity is sought.
        effort: How much to simulate.
        check: Called before each run; raises where the time is over.

    Returns:
        The frontier, or None if the promise does not hold at any load.
    """
    setup = setup_of(template.build, pool_size, router)
    mix = np.array(template.mix_rps) / sum(template.mix_rps)
    found = pool_capacity(study, setup, template.mix_rps, guess_rps * pool_size, effort, check)
    if found.value <= 0:
        return None
    capacity = replace(
        found,
        value=found.value / pool_size,
        low=found.low / pool_size,
        high=found.high / pool_size,
    )
    points = []
    for fraction in FRACTIONS:
        check()
        load = mix * capacity.value * fraction
        sample = sample_fleet(
            study,
            [FleetPool(setup, tuple((load * pool_size).tolist()))],
            replace(effort.search, replications=2),
            stream=SEARCHING,
        )
        attained = sample.attainment().mean(axis=0)
        if fraction == 1.0:  # by definition of the capacity; the two draws differ by chance
            attained = np.maximum(attained, study.promise)
        points.append(OperatingPoint(tuple(load.tolist()), tuple((load * attained).tolist())))
    return Frontier(template, pool_size, capacity, tuple(points), effort.search.replications)
