"""Time of engines that served nobody in time: for requests that missed, and done twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from planner.attribution.traced import TracedRun


class Waste(NamedTuple):
    """Shares of the time between the first step and the last, of all engines together."""

    busy: float
    """In steps."""
    in_vain: float
    """In steps, for requests that missed a deadline; each step is shared by tokens computed."""
    twice: float
    """In steps, computing again what was lost to preemption; part of it may be in vain too."""


def waste_of(run: TracedRun) -> Waste:
    """Return which share of the engines' time went where; over the whole run, warm-up included."""
    assert run.records.steps is not None
    missed = ~run.met
    reached: dict[int, int] = {}
    busy = vain = twice = 0.0
    first, last = _span(run)
    for steps in run.records.steps:
        reached.clear()  # an engine knows only what it computed itself
        for step in steps:
            ticks = float(step.end - step.start)
            tokens = sum(item[1] for item in step.items)
            busy += ticks
            if not tokens:
                continue
            for rank, new, before, _, _ in step.items:
                had = reached.get(rank, 0)
                again = max(0, min(before + new, had) - before)
                reached[rank] = max(had, before + new)
                vain += ticks * new / tokens * bool(missed[rank])
                twice += ticks * again / tokens
    whole = max(last - first, 1) * len(run.records.steps)
    return Waste(busy / whole, vain / whole, twice / whole)


def _span(run: TracedRun) -> tuple[int, int]:
    assert run.records.steps is not None
    starts = [steps[0].start for steps in run.records.steps if steps]
    ends = [steps[-1].end for steps in run.records.steps if steps]
    return min(starts, default=0), max(ends, default=0)
