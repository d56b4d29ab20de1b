"""A fleet of groups under other lengths: its ratio of sides is fixed, the work of either is not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from planner.problem.arrivals import PoissonArrivals, RenewalArrivals
from planner.simulation.capacity import SWEEPING
from planner.simulation.fleet import sample_fleet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.planning.answered import Answer
    from planner.planning.fleet import Fleet
    from planner.simulation.draw import Draw, Draws
    from planner.simulation.fleet import FleetSample

MULTIPLES: Final = ((0.75, 1.0), (1.25, 1.0), (1.0, 0.75), (1.0, 1.25))
"""Of prompts and of outputs."""


@dataclass(frozen=True, slots=True)
class _Scaled:
    """Draws whose prompts and outputs are longer or shorter by a factor each."""

    draws: Draws
    prompt: float
    output: float

    @property
    def arrivals(self) -> object:
        """The arrival laws: the same."""
        return self.draws.arrivals

    def named(self, rates_rps: tuple[float, ...], n: int, replication: int, stream: int) -> Draw:
        """Return the same requests, longer or shorter; at least one token each."""
        draw = self.draws.get(rates_rps, n, replication, stream)
        return replace(
            draw,
            prompt=_times(draw.prompt, self.prompt),
            output=_times(draw.output, self.output),
        )


def _times(tokens: NDArray[np.int32], factor: float) -> NDArray[np.int32]:
    return np.asarray(np.maximum(np.rint(tokens * factor), 1), np.int32)


def sweep_lengths(answer: Answer, fleet: Fleet) -> tuple[tuple[float, float, FleetSample], ...]:
    """Simulate a fleet with groups under other lengths, on the same draws otherwise.

    Returns:
        Multiples of prompts and outputs, and what was seen; nothing where no pool has groups, or
        where arrivals carry their own lengths.
    """
    grouped = any(pool.template.build.group is not None for pool in fleet.pools)
    laws = [demand.arrivals for demand in answer.problem.demands]
    if not grouped or not all(isinstance(law, PoissonArrivals | RenewalArrivals) for law in laws):
        return ()
    found = []
    for prompt, output in MULTIPLES:
        draws = cast("Draws", _Scaled(answer.study.draws, prompt, output))
        sample = sample_fleet(
            replace(answer.study, draws=draws),
            fleet.for_simulation(answer.problem.policies.router),
            answer.effort.verify,
            stream=SWEEPING,
        )
        found.append((prompt, output, sample))
    return tuple(found)
