"""What all simulations of one problem share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.problem.deadlines import deadlines_of
from planner.simulation.draw import Draws
from planner.simulation.fleet import Study
from planner.simulation.meter import Meter

if TYPE_CHECKING:
    from planner.problem.resolve import Problem


def study_of(problem: Problem, meter: Meter | None = None) -> Study:
    """Return draws, deadlines and promises of a problem; a ``meter`` that counts on, if given."""
    deadlines = deadlines_of(
        [d.slo for d in problem.demands], [d.llm.max_context for d in problem.demands]
    )
    laws = tuple(d.lengths for d in problem.demands)
    promise = tuple(d.slo.attainment for d in problem.demands)
    arrivals = tuple(d.arrivals for d in problem.demands)
    return Study(Draws(laws, problem.seed, arrivals), deadlines, promise, meter or Meter())
