"""The largest load at which the promise holds: a secant on the load under common draws."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.simulation.fleet import THREADS
from planner.simulation.interval import Estimate, t_interval
from planner.simulation.pool import run_pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.simulation.draw import Draw
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import Study
    from planner.simulation.pool import PoolSetup

SCREENING, SEARCHING, VERIFYING, SWEEPING, REPLAYING = 0, 1, 2, 3, 4
"""Streams of random draws, by purpose: what was searched is verified on fresh luck."""

STEEPEST_MOVE: Final = 0.15
"""A secant step stays this share of the bracket away from its ends: attainment falls off a
cliff, and a chord across a cliff points almost at one of them."""


OVERLOADED: Final = 0.05
"""Margin by which an overloaded run misses its promise at least."""


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


def margin_at(study: Study, setup: PoolSetup, draw: Draw, rate_rps: float) -> float:
    """Return the smallest attainment minus promise over the workloads of a draw, at a load.

    A load whose backlog grows is none that the pool carries, whatever was attained so far: its
    margin is negative.
    """
    run = run_pool(setup, draw, rate_rps, study.deadlines)
    study.meter.count(draw.gap.size)
    spare = run.attainment - np.array(study.promise)
    margin = float(spare[run.offered > 0].min(initial=1.0))
    return min(margin, -OVERLOADED) if run.unstable else margin


def coarse_capacity(
    study: Study, setup: PoolSetup, rates_rps: tuple[float, ...], guess: float, requests: int
) -> float:
    """Return the capacity of a pool for a mix by one short search; within some per cent.

    Args:
        study: Draws, deadlines and promises of the problem.
        setup: The pool.
        rates_rps: The mix; only proportions matter.
        guess: Total load to start from, requests per second.
        requests: Length of each run.
    """
    draw = study.draws.get(rates_rps, requests * setup.simulated, 0, SCREENING)
    return falling_root(
        lambda rate: margin_at(study, setup, draw, rate), guess, step=0.15, tolerance=0.03
    )


def pool_capacity(
    study: Study,
    setup: PoolSetup,
    rates_rps: tuple[float, ...],
    guess: float,
    effort: Effort,
) -> Estimate:
    """Return the capacity of a pool for a mix, with its interval over replications.

    One secant per replication, each under its own draw; a t-interval over the roots.
    """
    requests = max(effort.search.requests, effort.search.per_replica * setup.simulated)
    draws = [
        study.draws.get(rates_rps, requests, r, SEARCHING)
        for r in range(effort.search.replications)
    ]

    def root(draw: Draw) -> float:
        return falling_root(
            lambda rate: margin_at(study, setup, draw, rate), guess, step=0.03, tolerance=0.004
        )

    with ThreadPoolExecutor(THREADS) as threads:
        roots = list(threads.map(root, draws))
    return t_interval(roots)
