"""How much demand a fixed fleet bears if its steps take longer or shorter than its curves say."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.curves.doubt import step_sigma
from planner.simulation.capacity import SWEEPING
from planner.simulation.effort import RunSize
from planner.simulation.fleet import FleetPool, sample_fleet
from planner.simulation.slowed import slowed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from planner.candidates.template import Build
    from planner.planning.breaking import Break
    from planner.planning.fleet import Fleet
    from planner.problem.resolve import Problem
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import Study
    from planner.simulation.interval import Estimate

    Floats = NDArray[np.float64]

SPREAD: Final = 1.5
"""Standard deviations of the step times, on either side, at which a fleet is simulated."""
REPLICATIONS: Final = 3
LEAST: Final = 10
MOST: Final = 300
"""Multiples of the demand, in per cent, between which the break is sought."""


def slower_by(
    fleet: Fleet, problem: Problem, deviations: float, stated: float | None = None
) -> list[FleetPool]:
    """Return the pools of a fleet with steps so many standard deviations longer than stated.

    All curves are off the same way at once, each by as much as its own error. The fleet's own
    laws are slower than stated by what the problem plans for.
    """
    deviations -= problem.slower_by
    found = []
    pools = fleet.for_simulation(problem.policies.router)
    for pool, choice in zip(pools, fleet.pools, strict=True):
        build = choice.template.build
        factor = math.exp(step_sigma(build.curve, stated) * deviations)
        prefill = factor
        if build.group is not None:
            prefill = math.exp(step_sigma(build.group.prefill.curve, stated) * deviations)
        found.append(FleetPool(slowed(pool.setup, factor, prefill), pool.load_rps))
    return found


@dataclass(frozen=True, slots=True)
class Margin:
    """The demand that a workload's promise bears, as a function of how wrong the curves are."""

    workload: str
    deviations: tuple[float, ...]
    """Of the step times; ascending."""
    bears: tuple[float, ...]
    """Multiple of the demand up to which the promise is kept there; 0 where none was."""

    def at(self, deviations: Floats) -> Floats:
        """Return the multiple that is borne at each deviation, never rising with it.

        Log-linear between and beyond the points; nothing from the last point that bears any on
        if the next bears none.
        """
        z = np.asarray(self.deviations)
        b = np.minimum.accumulate(np.asarray(self.bears))
        n = int((b > 0).sum())
        x = np.asarray(deviations, np.float64)
        if n == 0:
            return np.zeros(x.shape)
        if n == 1:
            return np.where(x <= z[0], b[0], 0.0)
        log = np.log(b[:n])
        i = np.clip(np.searchsorted(z[:n], x) - 1, 0, n - 2)
        slope = (log[i + 1] - log[i]) / (z[i + 1] - z[i])
        found = np.exp(log[i] + slope * (x - z[i]))
        return np.where(x > z[n - 1], 0.0, found) if n < len(b) else found


def margins_of(
    problem: Problem,
    study: Study,
    fleet: Fleet,
    effort: Effort,
    breaks: Sequence[Break] = (),
    over: Callable[[], bool] = lambda: False,
    stream: int = SWEEPING,
) -> tuple[Margin, ...]:
    """Find how much demand every promise bears as stated, and with steps longer and shorter.

    Few replications, on draws that are common to all points; a hundredth of the demand is told
    apart, and the mean of the runs decides.

    Args:
        problem: The question.
        study: Draws, deadlines and promises of the problem.
        fleet: Its pools.
        effort: How much to simulate.
        breaks: What each promise bears with steps as planned for, where that is known.
        over: Asked before each run.
        stream: Purpose of the random draws.

    Returns:
        One for each asked workload; none where the time is over before the end.
    """
    verify = effort.verify
    size = RunSize(verify.requests, REPLICATIONS, verify.per_replica)
    sides = [side for p in fleet.pools for side in sides_of(p.template.build)]
    stated = problem.robust.curve_error if problem.robust is not None else None
    sigma = max(step_sigma(side.curve, stated) for side in sides)
    middle = problem.slower_by
    rows: dict[float, list[float]] = {}
    if breaks:
        rows[middle] = [b.kept_at or 0.0 for b in breaks]
    for z in points_about(middle) if sigma > 0 else (middle,):
        if z in rows:
            continue
        swept = _Swept(problem, study, slower_by(fleet, problem, z, stated), size, over, stream)
        about = math.exp(-sigma * (z - middle))
        near = [b * about for b in rows[middle]] if rows else [1.0] * len(problem.asked)
        try:
            rows[z] = [swept.bears(i, round(100 * m)) / 100 for i, m in enumerate(near)]
        except _OverError:
            return ()
    order = sorted(rows)
    return tuple(
        Margin(whole.demand.id, tuple(order), tuple(rows[z][i] for z in order))
        for i, whole in enumerate(problem.asked)
    )


def points_about(middle: float) -> tuple[float, float, float]:
    """Return the deviations at which a fleet is simulated, that which it was planned for first."""
    return (middle, -SPREAD, SPREAD if middle < SPREAD / 2 else 0.0)


def sides_of(build: Build) -> tuple[Build, ...]:
    """Return the builds of replicas in a unit: one, or both sides of a group."""
    return (build,) if build.group is None else (build.group.prefill, build.group.decode)


class _OverError(Exception):
    """The time is over."""


class _Swept:
    """Pools at multiples of their demand; each is simulated once, for all workloads."""

    def __init__(
        self,
        problem: Problem,
        study: Study,
        pools: list[FleetPool],
        size: RunSize,
        over: Callable[[], bool],
        stream: int,
    ) -> None:
        self.study, self.pools, self.size, self.over = study, pools, size, over
        self.stream = stream
        self.groups = [whole.parts for whole in problem.asked]
        self.promises = [whole.demand.slo.attainment for whole in problem.asked]
        self.seen: dict[int, tuple[Estimate, ...]] = {}

    def keeps(self, i: int, percent: int) -> bool:
        """Tell whether a promise is kept at a multiple of the demand, by the mean of the runs."""
        if percent not in self.seen:
            if self.over():
                raise _OverError
            sample = sample_fleet(
                self.study, self.pools, self.size, stream=self.stream, multiple=percent / 100
            )
            self.seen[percent] = sample.intervals(self.groups)
        return self.seen[percent][i].value >= self.promises[i]

    def bears(self, i: int, near: int) -> int:
        """Return the last per cent that keeps a promise, sought from ``near``; 0 for none."""
        return last_kept(lambda percent: self.keeps(i, percent), near)


def last_kept(keeps: Callable[[int], bool], near: int) -> int:
    """Return the last per cent from ``LEAST`` to ``MOST`` that keeps; 0 where none does.

    Args:
        keeps: Whether one does; those that do are taken to lie below those that do not.
        near: Where to begin: few are tried near the answer.
    """
    at = min(max(near, LEAST), MOST)
    step = 2
    if keeps(at):
        low = at
        while True:
            if low == MOST:
                return MOST
            high = min(low + step, MOST)
            if not keeps(high):
                break
            low, step = high, 2 * step
    else:
        high = at
        while True:
            if high == LEAST:
                return 0
            low = max(high - step, LEAST)
            if keeps(low):
                break
            high, step = low, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low
