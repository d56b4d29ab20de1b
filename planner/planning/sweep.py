"""The chosen fleet at more demand than planned for: how near the cliff it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from planner.simulation.capacity import SWEEPING
from planner.simulation.fleet import sample_fleet

if TYPE_CHECKING:
    from planner.kernels import Router
    from planner.planning.fleet import Fleet
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import FleetSample, Study

MULTIPLES: Final = (1.0, 1.1, 1.2)


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
