"""Pricing and refinement in turn: until neither what was measured nor what was not wants more."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from planner.errors import InfeasibleError, LimitReachedError
from planner.planning.refine import LIMIT_ENDED
from planner.simulation.effort import RunSize

if TYPE_CHECKING:
    from planner.planning.pricing import Pricing
    from planner.planning.refine import Refined, Refinement
    from planner.simulation.effort import Effort

MOST_TURNS: Final = 40
"""Times that the templates left open are priced anew after a fleet was verified."""


MEASURED_TO: Final = 0.01
"""Share to which a capacity is known by coarse runs: a template that promises less of an
improvement is not measured."""


def coarsely(effort: Effort) -> Effort:
    """Return shorter and fewer runs, for templates that may never be chosen."""
    fine = effort.search
    short = RunSize(max(fine.requests // 2, 5_000), 2, max(fine.per_replica // 2, 1_500))
    return replace(effort, search=short)


def refine_priced(refinement: Refinement, pricing: Pricing, *, enough: bool = False) -> Refined:
    """Refine the fleet, and price what was not measured by what is then believed.

    Verification lowers some beliefs, which makes templates worth a look that were not before.

    Args:
        refinement: Of the fleet.
        pricing: After it was run.
        enough: The first fleet that keeps every promise will do.

    Raises:
        InfeasibleError: The program has no solution with the points measured.
        LimitReachedError: The time is over before the first fleet was simulated.
    """
    beliefs = refinement.beliefs
    beliefs.frontiers = pricing.measured()
    refined = _first(refinement, pricing, enough=enough)
    if enough:
        return refined
    try:
        for _ in range(MOST_TURNS):
            before, pricing.problem = set(pricing.measured()), refinement.problem
            if refined.unsettled or not pricing.wanted_by_whole_units(beliefs.believed()):
                break
            fresh = {j: f for j, f in pricing.measured().items() if j not in before}
            if fresh:
                beliefs.frontiers |= fresh
                refined = refinement.run(refined.best)
    except (LimitReachedError, KeyboardInterrupt) as error:
        refinement.clock.stop_on(error)
        refined = replace(refined, unsettled=LIMIT_ENDED)
    return replace(refined, proof=pricing.proof)


def _first(refinement: Refinement, pricing: Pricing, *, enough: bool) -> Refined:
    """Refine, and measure more where what is measured has no place on the nodes."""
    for _ in range(MOST_TURNS):
        try:
            return refinement.run(enough=enough)
        except InfeasibleError:
            before, pricing.problem = set(pricing.measured()), refinement.problem
            if not refinement.problem.cuts:
                raise
            beliefs = refinement.beliefs
            while set(pricing.measured()) == before:
                if not pricing.wanted_by_whole_units(beliefs.believed()):
                    raise
            beliefs.frontiers |= {j: f for j, f in pricing.measured().items() if j not in before}
    return refinement.run(enough=enough)
