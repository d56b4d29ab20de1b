"""Cases of demand and step times that nobody interpolates: each is simulated as it is."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from planner.planning.margins import slower_by
from planner.planning.replay import fleet_in
from planner.planning.study import study_of
from planner.simulation.fleet import sample_fleet

if TYPE_CHECKING:
    from planner.fleet import FleetPlan
    from planner.simulation.effort import RunSize


def kept_in_cases(
    plan: FleetPlan,
    demand_cv: float,
    curve_error: float | None,
    cases: int,
    size: RunSize,
    seed: int,
) -> float:
    """Return the share of independent cases in which a plan keeps every promise.

    Args:
        plan: Made for stated demand, or robust.
        demand_cv: Of the demand, lognormal with mean 1.
        curve_error: Mean absolute error of step times; None: of each curve its own.
        cases: How many.
        size: Of the simulation of each.
        seed: Of cases and requests.
    """
    problem, fleet = fleet_in(plan, seed, Path())
    planned = next(iter(plan.planned_multiples.values()), 1.0)
    if problem.robust is not None:
        problem = replace(
            problem, robust=problem.robust.model_copy(update={"curve_error": curve_error})
        )
    rng = np.random.default_rng(seed)
    sigma = math.sqrt(math.log1p(demand_cv**2))
    demand = np.exp(sigma * rng.standard_normal(cases) - sigma**2 / 2)
    deviations = rng.standard_normal(cases)
    promises = [whole.demand.slo.attainment for whole in problem.asked]
    groups = [whole.parts for whole in problem.asked]
    kept = 0
    for i, (m, z) in enumerate(zip(demand.tolist(), deviations.tolist(), strict=True)):
        study = study_of(replace(problem, seed=seed + 1 + i))
        pools = slower_by(fleet, problem, z, curve_error)
        sample = sample_fleet(study, pools, size, stream=0, multiple=m / planned)
        means = [estimate.value for estimate in sample.intervals(groups)]
        kept += all(x >= p for x, p in zip(means, promises, strict=True))
    return kept / cases
