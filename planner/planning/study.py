"""What all simulations of one problem share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.problem.deadlines import deadlines_of
from planner.problem.prefixes import can_find
from planner.simulation.draw import Draws
from planner.simulation.effort import default_effort
from planner.simulation.fleet import Study
from planner.simulation.meter import Meter

if TYPE_CHECKING:
    from planner.problem.resolve import Problem
    from planner.simulation.effort import Effort


def study_of(problem: Problem, meter: Meter | None = None) -> Study:
    """Return draws, deadlines and promises of a problem; a ``meter`` that counts on, if given."""
    deadlines = deadlines_of(
        [d.slo for d in problem.demands], [d.llm.max_context for d in problem.demands]
    )
    laws = tuple(d.lengths for d in problem.demands)
    promise = tuple(d.slo.attainment for d in problem.demands)
    arrivals = tuple(d.arrivals for d in problem.demands)
    prefixes = tuple(d.prefix for d in problem.demands)
    draws = Draws(laws, problem.seed, arrivals, prefixes)
    return Study(draws, deadlines, promise, meter or Meter())


def effort_for(problem: Problem) -> Effort:
    """Return how much to simulate: shorter runs where prefixes are kept, which cost more each."""
    kept = problem.policies.prefix_caching and any(can_find(d.prefix) for d in problem.demands)
    return default_effort().halved() if kept else default_effort()
