"""The chosen fleet at more demand than planned for: how near the cliff it stands."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.problem.arrivals import PoissonArrivals, RenewalArrivals, UserArrivals
from planner.simulation.capacity import SWEEPING
from planner.simulation.draw import Draws
from planner.simulation.effort import RunSize
from planner.simulation.fleet import sample_fleet

if TYPE_CHECKING:
    from planner.kernels import Router
    from planner.planning.fleet import Fleet
    from planner.problem.arrivals import ArrivalLaw
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import FleetSample, Study

MULTIPLES: Final = (1.0, 1.1, 1.2)
CVS: Final = (1.0, 2.0, 3.0)
"""Coefficients of variation of the gaps of a workload; 1 is Poisson."""


def sweep_demand(
    study: Study, fleet: Fleet, router: Router, effort: Effort
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


def sweep_arrivals(
    study: Study, fleet: Fleet, router: Router, rates_rps: tuple[float, ...], effort: Effort
) -> tuple[tuple[str, FleetSample, tuple[float, ...]], ...]:
    """Simulate a fleet at its demand under evener and burstier arrivals.

    Returns:
        What the arrivals are, the sample, and the 99 % quantile of TTFT by workload in seconds.
    """
    verify = effort.verify
    size = RunSize(verify.requests, max(verify.replications // 2, 3), verify.per_replica)
    found = []
    for cv in CVS:
        name = "poisson" if cv == 1 else f"gamma, CV {cv:g}"
        laws = tuple(
            _instead(law, rate, cv)
            for law, rate in zip(study.draws.arrivals, rates_rps, strict=True)
        )
        other = replace(study, draws=Draws(study.draws.laws, study.draws.seed, laws))
        sample = sample_fleet(other, fleet.for_simulation(router), size, stream=SWEEPING, keep=True)
        kept = [run.latencies for pool in sample.runs for run in pool if run.latencies is not None]
        ttft = np.concatenate([part.ttft_s for part in kept])
        who = np.concatenate([part.workload for part in kept])
        late = tuple(
            float(np.quantile(ttft[who == w], 0.99)) if (who == w).any() else 0.0
            for w in range(len(rates_rps))
        )
        found.append((name, sample, late))
    return tuple(found)
