"""The demand at which a fixed fleet breaks a promise, and what its requests are then late for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from planner.planning.results import latencies_of, misses_of
from planner.simulation.capacity import SWEEPING
from planner.simulation.fleet import sample_fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from planner.planning.fleet import Fleet
    from planner.problem.resolve import Problem, Whole
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import FleetSample, Study
    from planner.simulation.interval import Estimate

LADDER: Final = (25, 40, 55, 70, 80, 90, 100, 110, 120, 135, 150, 175, 200, 250, 300)
"""Multiples of the demand, in per cent, between two of which a promise is first seen to break."""


@dataclass(frozen=True, slots=True)
class Break:
    """How much of the demand a workload's promise bears, all workloads growing alike."""

    workload: str
    kept_at: float | None
    """Highest multiple seen at which the promise is kept; None below the least that was tried."""
    broken_at: float | None
    """Lowest seen at which it is not, a hundredth above; None beyond the most that was tried."""
    attainment: Estimate | None
    """There."""
    cause: str | None
    """What most of the misses there are charged to; a field of ``Misses``."""


def where_it_breaks(
    problem: Problem,
    study: Study,
    fleet: Fleet,
    effort: Effort,
    known: Iterable[tuple[float, FleetSample]] = (),
    over: Callable[[], bool] = lambda: False,
) -> tuple[Break, ...]:
    """Find the multiple of the demand at which each promise breaks, to a hundredth.

    The draws are common to all multiples, and the mean of the runs decides, so that attainment
    differs by the load alone. Between two steps of a ladder a promise is taken to break once.

    Args:
        problem: The question.
        study: Draws, deadlines and promises of the problem.
        fleet: Its pools.
        effort: How much to simulate.
        known: Multiples already simulated on the same stream; those with fewer replications than a
            verification has are left aside.
        over: Asked before each run; nothing is returned where the time is over before the end.

    Returns:
        One for each asked workload.
    """
    pools = fleet.for_simulation(problem.policies.router)
    groups = [whole.parts for whole in problem.asked]
    seen = {
        round(100 * m): sample.intervals(groups)
        for m, sample in known
        if len(sample.runs[0]) == effort.verify.replications
    }

    def attained(percent: int) -> tuple[Estimate, ...]:
        if percent not in seen:
            if over():
                raise _OverError
            sample = sample_fleet(
                study, pools, effort.verify, stream=SWEEPING, multiple=percent / 100
            )
            seen[percent] = sample.intervals(groups)
        return seen[percent]

    found = []
    try:
        for i, whole in enumerate(problem.asked):

            def keeps(percent: int, i: int = i, whole: Whole = whole) -> bool:
                return attained(percent)[i].value >= whole.demand.slo.attainment

            low, high = _between(keeps)
            found.append((whole, low, high, None if high is None else seen[high][i]))
        causes = _causes(problem, study, fleet, effort, [high for _, _, high, _ in found], over)
    except _OverError:
        return ()
    return tuple(
        Break(whole.demand.id, _share(low), _share(high), estimate, cause)
        for (whole, low, high, estimate), cause in zip(found, causes, strict=True)
    )


def _causes(
    problem: Problem,
    study: Study,
    fleet: Fleet,
    effort: Effort,
    broken_at: list[int | None],
    over: Callable[[], bool],
) -> list[str | None]:
    """Return what most misses of each workload are charged to where its promise breaks."""
    causes: list[str | None] = [None] * len(broken_at)
    for percent in sorted({one for one in broken_at if one is not None}):
        if over():
            raise _OverError
        kept = latencies_of(problem, study, effort, fleet, SWEEPING, percent / 100)
        for i, whole in enumerate(problem.asked):
            if broken_at[i] == percent:
                charged = misses_of(problem, study, kept, whole.parts).model_dump()
                causes[i] = max(charged, key=lambda cause: charged[cause])
    return causes


def _share(percent: int | None) -> float | None:
    return None if percent is None else percent / 100


class _OverError(Exception):
    """The time is over."""


def _between(keeps: Callable[[int], bool]) -> tuple[int | None, int | None]:
    """Return the last per cent that keeps and the first that does not; None beyond the ladder."""
    at = LADDER.index(100)
    if keeps(LADDER[at]):
        while at + 1 < len(LADDER) and keeps(LADDER[at + 1]):
            at += 1
        if at + 1 == len(LADDER):
            return LADDER[-1], None
        low, high = LADDER[at], LADDER[at + 1]
    else:
        while at > 0 and not keeps(LADDER[at - 1]):
            at -= 1
        if at == 0:
            return None, LADDER[0]
        low, high = LADDER[at - 1], LADDER[at]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low, high
