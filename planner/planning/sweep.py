"""The chosen fleet at more demand than planned for: how near the cliff it stands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.candidates.frontier import setup_of
from planner.errors import LimitReachedError
from planner.planning.results import weighted_quantiles
from planner.problem.arrivals import PoissonArrivals, RenewalArrivals, UserArrivals
from planner.problem.prefixes import ConstantHits, HistoryPrefixes, TracePrefixes
from planner.simulation.capacity import SWEEPING
from planner.simulation.draw import Draws
from planner.simulation.effort import RunSize
from planner.simulation.fleet import FleetPool, sample_fleet

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from planner.planning.fleet import Fleet, PoolChoice
    from planner.problem.arrivals import ArrivalLaw
    from planner.problem.resolve import Problem
    from planner.scenario.policies import Routing
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import FleetSample, Study

MULTIPLES: Final = (0.8, 0.9, 1.0, 1.1, 1.2, 1.35, 1.5)
FULL: Final = (1.0, 1.1, 1.2)
"""Multiples of the demand with as many replications as a verification; others have half."""
CVS: Final = (1.0, 2.0, 3.0)
"""Coefficients of variation of the gaps of a workload; 1 is Poisson."""
MOST_TIMES: Final = 8
"""Multiple of the planned units at which the search for enough of them ends."""


def sweep_demand(
    study: Study,
    fleet: Fleet,
    router: Routing,
    effort: Effort,
    over: Callable[[], bool] = lambda: False,
) -> tuple[tuple[float, FleetSample], ...]:
    """Simulate a fleet at multiples of its demand, every workload growing alike.

    Returns:
        Multiple and sample; under overload the sample tells what the simulated span gave. Fewer
        where the time is ``over``.
    """
    pools = fleet.for_simulation(router)
    verify = effort.verify
    few = RunSize(verify.requests, max(verify.replications // 2, 3), verify.per_replica)
    found = []
    for multiple in MULTIPLES:
        if over():
            break
        size = verify if multiple in FULL else few
        sample = sample_fleet(study, pools, size, stream=SWEEPING, multiple=multiple)
        found.append((multiple, sample))
    return tuple(found)


def _instead(law: ArrivalLaw, rate_rps: float, cv: float) -> ArrivalLaw:
    """Return independent gaps at the same rate; users who wait come as they do."""
    if isinstance(law, UserArrivals):
        return law
    return PoissonArrivals(rate_rps) if cv == 1 else RenewalArrivals(rate_rps, cv, "gamma")


def _late(
    ttft_s: NDArray[np.float64],
    workload: NDArray[np.int32],
    rates_rps: tuple[float, ...],
    parts: tuple[int, ...],
) -> float:
    """Return the 99 % quantile of TTFT of a workload; its parts weigh by their rates."""
    mine = np.isin(workload, parts)
    if not mine.any():
        return 0.0
    if len(parts) == 1:
        return float(np.quantile(ttft_s[mine], 0.99))
    counts = np.bincount(workload, minlength=len(rates_rps))
    weight = np.array(rates_rps) / np.maximum(counts, 1)
    return weighted_quantiles(ttft_s[mine], weight[workload[mine]], (0.99,))[0]


@dataclass(frozen=True, slots=True)
class Arrived:
    """A fleet whose load came otherwise, at the same mean rate."""

    name: str
    """What the arrivals are, such as ``gamma, CV 3``."""
    cv: float
    sample: FleetSample
    ttft_p99_s: tuple[float, ...]
    """By workload."""
    accelerators: int | None
    """Fewest that keep every promise under these arrivals, with the pools and the routing of the
    fleet; None if several times as many do not."""


def sweep_arrivals(
    problem: Problem,
    study: Study,
    fleet: Fleet,
    hit_rates: tuple[float, ...],
    effort: Effort,
    over: Callable[[], bool] = lambda: False,
) -> tuple[Arrived, ...]:
    """Simulate a fleet at its demand under evener and burstier arrivals.

    Prefixes of sessions and traces belong to their arrivals: under others, requests are taken
    to find as much as they did.

    Args:
        problem: The question.
        study: Draws, deadlines and promises of the problem.
        fleet: Its pools.
        hit_rates: Share of prompt tokens that each workload found under its own arrivals.
        effort: How much to simulate.
        over: Asked before each run; where the time is over, arrivals that are left are left out.
    """
    verify, rates_rps = effort.verify, problem.rates_rps
    router = problem.policies.router
    size = RunSize(verify.requests, max(verify.replications // 2, 3), verify.per_replica)
    found = []
    prefixes = tuple(
        ConstantHits(rate) if isinstance(law, TracePrefixes | HistoryPrefixes) else law
        for law, rate in zip(study.draws.prefixes, hit_rates, strict=False)
    )
    for cv in CVS:
        if over():
            break
        name = "poisson" if cv == 1 else f"gamma, CV {cv:g}"
        laws = tuple(
            _instead(law, rate, cv)
            for law, rate in zip(study.draws.arrivals, rates_rps, strict=True)
        )
        draws = Draws(study.draws.laws, study.draws.seed, laws, prefixes)
        other = replace(study, draws=draws)
        sample = sample_fleet(
            other,
            fleet.for_simulation(router),
            size,
            stream=SWEEPING,
            keep=True,
            parts=False,
        )
        kept = [run.latencies for pool in sample.runs for run in pool if run.latencies is not None]
        ttft = np.concatenate([part.ttft_s for part in kept])
        who = np.concatenate([part.workload for part in kept])
        late = tuple(
            whole.demand.network_s + _late(ttft, who, rates_rps, whole.parts)
            for whole in problem.asked
        )
        try:
            enough = _accelerators(other, fleet, router, size, over)
        except LimitReachedError:
            break
        found.append(Arrived(name, cv, sample, late, enough))
    return tuple(found)


def _accelerators(
    study: Study, fleet: Fleet, router: Routing, size: RunSize, over: Callable[[], bool]
) -> int | None:
    """Return how many accelerators keep every promise; None if several times as many do not."""
    found = units_needed(study, fleet, router, size, over)
    if found is None:
        return None
    return sum(
        n * pool.template.build.accelerators for n, pool in zip(found, fleet.pools, strict=True)
    )


def units_needed(
    study: Study, fleet: Fleet, router: Routing, size: RunSize, over: Callable[[], bool]
) -> list[int] | None:
    """Return how many units of each pool keep its promises at its load, by the mean of the runs.

    Raises:
        LimitReachedError: The time is over.
    """
    needed = []
    for pool in fleet.pools:

        def keeps(units: int, pool: PoolChoice = pool) -> bool:
            if over():
                raise LimitReachedError("the time is over")
            setup = setup_of(pool.template.build, units, router)
            sample = sample_fleet(study, [FleetPool(setup, pool.load_rps)], size, stream=SWEEPING)
            attained = sample.attainment().mean(axis=0)
            served = [w for w, load in enumerate(pool.load_rps) if load > 0]
            return not sample.unstable()[0] and all(attained[w] >= study.promise[w] for w in served)

        units = fewest(keeps, pool.units)
        if units is None:
            return None
        needed.append(units)
    return needed


def fewest(keeps: Callable[[int], bool], start: int) -> int | None:
    """Return the smallest number from 1 on that keeps, of numbers that keep from some number on.

    Args:
        keeps: Whether a number does.
        start: Where to begin: near the answer, few numbers are tried.

    Returns:
        None if ``MOST_TIMES`` the start does not.
    """
    low, high, step = start, start, 1
    if keeps(start):
        low = start - 1
        while low > 0 and keeps(low):
            low, high, step = max(low - 2 * step, 0), low, 2 * step
    else:
        high = start + 1
        while not keeps(high):
            if high >= MOST_TIMES * start:
                return None
            low, high, step = high, high + 2 * step, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high
