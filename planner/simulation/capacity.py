"""The largest load at which the promise holds: a secant on the load under common draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.simulation.interval import Estimate, t_interval
from planner.simulation.points import measured
from planner.simulation.side_by_side import side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.simulation.draw import Draw, NamedDraw
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import Study
    from planner.simulation.pool import PoolSetup

SCREENING, SEARCHING, VERIFYING, SWEEPING, REPLAYING = 0, 1, 2, 3, 4
"""Streams of random draws, by purpose: what was searched is verified on fresh luck."""

STEEPEST_MOVE: Final = 0.15
"""A secant step stays this share of the bracket away from its ends: attainment falls off a
cliff, and a chord across a cliff points almost at one of them."""
CHORD: Final = 0.0125
"""Relative width of a bracket across which attainment under one draw is straight enough."""
GROWTH_AT_CAPACITY: Final = 0.003
"""Growth of waiting per unit of time that ends a capacity where deadlines are too loose to. It
is load / capacity - 1, so such a capacity is high by that much; a smaller one would be noise."""
LONG_RUN: Final = 5_000
"""Requests per simulated replica of a run whose start and end no longer tell. In a shorter run of
one replica the attainment comes out up to 0.01 too high."""
FEWEST_ROOTS: Final = 8
"""Replications behind a capacity of a wanted precision, at least: with fewer, one that looks
precise by luck would end the search."""


def falling_root(
    margin: Callable[[float], float], guess: float, *, step: float, tolerance: float, most: int = 24
) -> float:
    """Find the load at which a falling margin crosses zero.

    Brackets from the guess by growing steps, then narrows by clipped secants until the ends
    are within the tolerance, and interpolates.

    Args:
        margin: Attainment minus promise at a load; falls with the load but for noise.
        guess: Where to start, > 0.
        step: Relative first step, such as 0.1.
        tolerance: Relative width of the final bracket.
        most: Evaluations at most; the best bracket so far is then interpolated.

    Returns:
        The load; 0 if the margin is negative however small the load.
    """
    low, low_margin, high, high_margin, used = _bracket(margin, guess, step, most)
    if low == 0.0:
        return 0.0
    last_was_low: bool | None = None
    halve = False
    while high / low - 1 > tolerance and used < most:
        steep = halve or low_margin <= high_margin
        share = 0.5 if steep else low_margin / (low_margin - high_margin)
        middle = low + (high - low) * min(max(share, STEEPEST_MOVE), 1 - STEEPEST_MOVE)
        value = margin(middle)
        used += 1
        halve = (value >= 0) is last_was_low  # the same end moved twice: the chord misleads
        last_was_low = value >= 0
        if value >= 0:
            low, low_margin = middle, value
        else:
            high, high_margin = middle, value
    if low_margin <= high_margin:
        return low
    return low + (high - low) * low_margin / (low_margin - high_margin)


def _bracket(
    margin: Callable[[float], float], guess: float, step: float, most: int
) -> tuple[float, float, float, float, int]:
    low = high = guess
    low_margin = high_margin = margin(guess)
    used = 1
    while high_margin >= 0 and used < most:
        low, low_margin = high, high_margin
        high = high * (1 + step)
        high_margin = margin(high)
        step *= 2
        used += 1
    while low_margin < 0:
        if used >= most or low < guess * 1e-6:
            return 0.0, 0.0, high, high_margin, used
        high, high_margin = low, low_margin
        low = low / (1 + step)
        low_margin = margin(low)
        step = min(step * 2, 9.0)
        used += 1
    return low, low_margin, high, high_margin, used


def margin_at(study: Study, setup: PoolSetup, draw: Draw | NamedDraw, rate_rps: float) -> float:
    """Return by how much a pool keeps its promises at a load; negative if it does not.

    The smallest attainment minus promise over the workloads of a draw. A backlog that grows is
    no kept promise, however loose the deadlines: an overload is never averaged into a capacity.
    """
    run = measured(study.points, setup, draw, rate_rps, study.deadlines)
    study.meter.count(run.simulated if draw.closed else draw.size)
    spare = run.attainment - np.array(study.promise)
    least = float(spare[run.offered > 0].min(initial=1.0))
    return min(least, GROWTH_AT_CAPACITY - run.backlog_growth)


def coarse_capacity(
    study: Study,
    setup: PoolSetup,
    rates_rps: tuple[float, ...],
    guess: float,
    requests: int,
    check: Callable[[], None] = lambda: None,
) -> float:
    """Return the capacity of a pool for a mix by one short search; within some per cent.

    Args:
        study: Draws, deadlines and promises of the problem.
        setup: The pool.
        rates_rps: The mix; only proportions matter.
        guess: Total load to start from, requests per second.
        requests: Length of each run.
        check: Called before each run; raises where the time is over.
    """
    draw = study.draws.named(rates_rps, setup.run_requests(0, requests), 0, SCREENING)

    def margin(rate: float) -> float:
        check()
        return margin_at(study, setup, draw, rate)

    return falling_root(margin, guess, step=0.15, tolerance=0.03)


def pool_capacity(
    study: Study,
    setup: PoolSetup,
    rates_rps: tuple[float, ...],
    guess: float,
    effort: Effort,
    check: Callable[[], None] = lambda: None,
) -> Estimate:
    """Return the capacity of a pool for a mix, with its interval over replications.

    One secant per replication, each under its own draw, the first of which tells the others
    where to look; a t-interval over the roots.
    """
    requests = setup.run_requests(effort.search.requests, effort.search.per_replica)
    draws = [
        study.draws.named(rates_rps, requests, r, SEARCHING)
        for r in range(effort.search.replications)
    ]
    first = _roots(study, setup, draws[:1], guess, step=0.03, tolerance=CHORD, check=check)
    start = first[0] if first[0] > 0 else guess
    rest = _roots(study, setup, draws[1:], start, step=0.012, tolerance=CHORD, check=check)
    return t_interval(first + rest)


@dataclass(frozen=True, slots=True)
class CapacityFound:
    """A capacity with its interval, and what it rests on."""

    capacity_rps: Estimate
    """Of the whole pool, all workloads together; 0 if the promise holds at no load."""
    replications: int
    requests: int
    """Of one run; each replication took a few runs."""
    precise: bool
    """Whether the interval is as narrow as was asked."""


def precise_capacity(
    study: Study,
    setup: PoolSetup,
    rates_rps: tuple[float, ...],
    guess: float,
    *,
    requests: int,
    precision: float,
    most: int = 40,
) -> CapacityFound:
    """Return the capacity of a pool for a mix to a wanted precision.

    One coarse search on a short run, then long runs near its root only. Replications are added
    until the half-width of the interval is at most ``precision`` times the capacity.

    Args:
        study: Draws, deadlines and promises of the problem.
        setup: The pool.
        rates_rps: The mix; only proportions matter.
        guess: Total load to start from, requests per second.
        requests: Length of the long runs, at least; large pools take longer ones.
        precision: Wanted half-width of the 95 % interval as a share, such as 0.005.
        most: Replications at which the search ends anyhow.
    """
    requests = setup.run_requests(requests, LONG_RUN)
    start = coarse_capacity(study, setup, rates_rps, guess, max(requests // 5, 5_000))
    if start <= 0:
        return CapacityFound(Estimate(0.0, 0.0, 0.0), 1, requests, precise=True)
    roots: list[float] = []
    while True:
        batch = range(len(roots), len(roots) + (4 if roots else FEWEST_ROOTS))
        draws = [study.draws.named(rates_rps, requests, r, SEARCHING) for r in batch]
        roots += _roots(study, setup, draws, start, step=0.012, tolerance=CHORD)
        found = t_interval(roots)
        if found.value <= 0:
            return CapacityFound(found, len(roots), requests, precise=True)
        start = found.value
        precise = found.half_width <= precision * found.value
        if precise or len(roots) >= most:
            return CapacityFound(found, len(roots), requests, precise)


def _roots(
    study: Study,
    setup: PoolSetup,
    draws: list[NamedDraw],
    guess: float,
    *,
    step: float,
    tolerance: float,
    check: Callable[[], None] = lambda: None,
) -> list[float]:
    """Return the capacity under each draw."""

    def root(draw: NamedDraw, go_on: Callable[[], None]) -> float:
        def margin(rate: float) -> float:
            go_on()
            return margin_at(study, setup, draw, rate)

        return falling_root(margin, guess, step=step, tolerance=tolerance)

    return side_by_side(root, draws, check=check)
