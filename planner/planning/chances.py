"""P(promise kept): how often a fleet keeps its promises if curves and demand are not exact."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import ndtri

from planner.curves.doubt import step_sigma
from planner.fleet import BearsPoint, KeptChance, PromiseKept
from planner.planning.margins import sides_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from planner.planning.fleet import Fleet
    from planner.planning.margins import Margin
    from planner.problem.resolve import Problem

    Floats = NDArray[np.float64]

DRAWS: Final = 4096
DEMAND_CVS: Final = (0.0, 0.1, 0.2)
"""Of the demand, where nothing is said of it."""
_GOLDEN: Final = (math.sqrt(5) - 1) / 2


def lattice(n: int = DRAWS) -> tuple[Floats, Floats]:
    """Return two independent standard normal variables at ``n`` points of equal weight.

    A rank-1 lattice: the first is stratified exactly, the pair evenly.
    """
    i = np.arange(n)
    return ndtri((i + 0.5) / n), ndtri((i * _GOLDEN + 0.5) % 1.0)


def demand_multiples(normal: Floats, cv: float) -> Floats:
    """Return lognormal multiples of the demand with mean 1 and this coefficient of variation."""
    sigma = math.sqrt(math.log1p(cv * cv))
    return np.asarray(np.exp(sigma * normal - sigma * sigma / 2))


def kept_shares(
    margins: Sequence[Margin], cv: float, planned: float = 1.0
) -> tuple[tuple[float, ...], float]:
    """Return in which share of cases each promise is kept, and in which all of them are.

    Args:
        margins: What each promise bears.
        cv: Coefficient of variation of the demand.
        planned: Demand of which the margins are multiples, as a multiple of the stated one.
    """
    deviations, normal = lattice()
    multiples = demand_multiples(normal, cv)
    kept = np.array([multiples <= planned * m.at(deviations) + 1e-12 for m in margins])
    return tuple(float(x) for x in kept.mean(axis=1)), float(kept.all(axis=0).mean())


def promise_kept(problem: Problem, fleet: Fleet, margins: Sequence[Margin]) -> PromiseKept | None:
    """Return the document of how sure the promises of a fleet are; None where it is not known.

    Where a scenario states how far demand and curves may be off, for that; multiples are then of
    the demand that it states, not of that which is planned for.
    """
    if not margins:
        return None
    robust = problem.robust
    planned = planned_multiple(problem)
    chances = []
    for cv in DEMAND_CVS if robust is None else (robust.demand_cv,):
        each, together = kept_shares(margins, cv, planned)
        names = (m.workload for m in margins)
        chances.append(
            KeptChance(demand_cv=cv, kept=dict(zip(names, each, strict=True)), all=together)
        )
    return PromiseKept(
        step_time_sigma={
            side.curve.id: step_sigma(side.curve, robust.curve_error if robust else None)
            for pool in fleet.pools
            for side in sides_of(pool.template.build)
        },
        bears=tuple(
            BearsPoint(deviations=z, multiples={m.workload: planned * m.bears[i] for m in margins})
            for i, z in enumerate(margins[0].deviations)
        ),
        chances=tuple(chances),
    )


def planned_multiple(problem: Problem) -> float:
    """Return the multiple of the demand that a robust plan is made for; 1 for other plans."""
    if problem.robust is None or not problem.planned_multiples:
        return 1.0
    return problem.planned_multiples[0]
