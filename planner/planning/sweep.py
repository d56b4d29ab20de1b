"""The chosen fleet at more demand than planned for: how near the cliff it stands."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.planning.results import weighted_quantiles
from planner.problem.arrivals import PoissonArrivals, RenewalArrivals, UserArrivals
from planner.problem.prefixes import ConstantHits, HistoryPrefixes, TracePrefixes
from planner.simulation.capacity import SWEEPING
from planner.simulation.draw import Draws
from planner.simulation.effort import RunSize
from planner.simulation.fleet import sample_fleet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.planning.fleet import Fleet
    from planner.problem.arrivals import ArrivalLaw
    from planner.problem.resolve import Problem
    from planner.scenario.policies import Routing
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import FleetSample, Study

MULTIPLES: Final = (1.0, 1.1, 1.2)
CVS: Final = (1.0, 2.0, 3.0)
"""Coefficients of variation of the gaps of a workload; 1 is Poisson."""


def sweep_demand(
    study: Study, fleet: Fleet, router: Routing, effort: Effort
) -> tuple[tuple[float, FleetSample], ...]:
    """Simulate a fleet at multiples of its demand, every workload growing alike.

    Returns:
        Multiple and sample; under overload the sample tells what the simulated span gave.
    """
    pools = fleet.for_simulation(router)
    return tuple(
        (
            multiple,
            sample_fleet(
                study,
                pools,
                effort.verify,
                stream=SWEEPING,
                multiple=multiple,
            ),
        )
        for multiple in MULTIPLES
    )


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


def sweep_arrivals(
    problem: Problem,
    study: Study,
    fleet: Fleet,
    hit_rates: tuple[float, ...],
    effort: Effort,
) -> tuple[tuple[str, FleetSample, tuple[float, ...]], ...]:
    """Simulate a fleet at its demand under evener and burstier arrivals.

    Prefixes of sessions and traces belong to their arrivals: under others, requests are taken
    to find as much as they did.

    Args:
        problem: The question.
        study: Draws, deadlines and promises of the problem.
        fleet: Its pools.
        hit_rates: Share of prompt tokens that each workload found under its own arrivals.
        effort: How much to simulate.

    Returns:
        What the arrivals are, the sample, and the 99 % quantile of TTFT by workload in seconds.
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
        name = "poisson" if cv == 1 else f"gamma, CV {cv:g}"
        laws = tuple(
            _instead(law, rate, cv)
            for law, rate in zip(study.draws.arrivals, rates_rps, strict=True)
        )
        draws = Draws(study.draws.laws, study.draws.seed, laws, prefixes)
        other = replace(study, draws=draws)
        sample = sample_fleet(other, fleet.for_simulation(router), size, stream=SWEEPING, keep=True)
        kept = [run.latencies for pool in sample.runs for run in pool if run.latencies is not None]
        ttft = np.concatenate([part.ttft_s for part in kept])
        who = np.concatenate([part.workload for part in kept])
        late = tuple(_late(ttft, who, rates_rps, whole.parts) for whole in problem.asked)
        found.append((name, sample, late))
    return tuple(found)
