"""A fleet of groups under other lengths: its ratio of sides is fixed, the work of either is not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from planner.fleet import Decision
from planner.planning.apart import either_way
from planner.problem.arrivals import BurstArrivals, PoissonArrivals, RenewalArrivals
from planner.simulation.capacity import SWEEPING
from planner.simulation.fleet import sample_fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from planner.planning.answered import Answer
    from planner.planning.fleet import Fleet
    from planner.planning.refine import Refined, Verified
    from planner.simulation.draw import Draw, Draws
    from planner.simulation.fleet import FleetSample

MULTIPLES: Final = ((0.75, 1.0), (1.25, 1.0), (1.0, 0.75), (1.0, 1.25))
"""Of prompts and of outputs."""
FREE: Final = (PoissonArrivals, RenewalArrivals, BurstArrivals)
"""Arrivals that carry no lengths of their own."""


LONGEST: Final = 2**30
"""Tokens of a request that is longer than any memory, and still a number of 32 bits."""


@dataclass(frozen=True, slots=True)
class Scaled:
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
    return np.asarray(np.clip(np.rint(tokens * factor), 1, LONGEST), np.int32)


@dataclass(frozen=True, slots=True)
class Moved:
    """A fleet whose prompts or outputs are longer or shorter than it was planned for."""

    prompt: float
    """Multiple of the prompts, as the next."""
    output: float
    sample: FleetSample
    lost: float
    """Share of the compliant goodput that is lost against the lengths planned for."""
    lost_together: float | None
    """The same of the cheapest fleet whose replicas do both; None if there is none."""


def sweep_lengths(
    answer: Answer,
    refined: Refined,
    shown: Verified,
    over: Callable[[], bool] = lambda: False,
) -> tuple[Moved, ...]:
    """Simulate a fleet with groups under other lengths, on the same draws otherwise.

    Beside it the cheapest fleet of replicas that do both, whose ratio is never off.

    Returns:
        What was seen; nothing where no pool has groups, or where arrivals carry their own lengths;
        less where the time is ``over``.
    """
    grouped = any(pool.template.build.group is not None for pool in shown.fleet.pools)
    laws = [demand.arrivals for demand in answer.problem.demands]
    if not grouped or not all(isinstance(law, FREE) for law in laws) or over():
        return ()
    joint, _ = either_way(answer, refined, shown)
    _, before = _goodput(answer, shown.fleet, 1.0, 1.0)
    beside = None if joint is None else _goodput(answer, joint, 1.0, 1.0)[1]
    found = []
    for prompt, output in MULTIPLES:
        if over():
            break
        sample, rps = _goodput(answer, shown.fleet, prompt, output)
        together = None
        if joint is not None and beside:
            together = 1 - _goodput(answer, joint, prompt, output)[1] / beside
        found.append(Moved(prompt, output, sample, 1 - rps / before if before else 0.0, together))
    return tuple(found)


def _goodput(
    answer: Answer, fleet: Fleet, prompt: float, output: float
) -> tuple[FleetSample, float]:
    """Simulate a fleet at multiples of its lengths; also return its compliant goodput, req/s."""
    draws = cast("Draws", Scaled(answer.study.draws, prompt, output))
    sample = sample_fleet(
        replace(answer.study, draws=draws),
        fleet.for_simulation(answer.problem.policies.router),
        answer.effort.verify,
        stream=SWEEPING,
    )
    load = np.sum([pool.load_rps for pool in fleet.pools], axis=0)
    return sample, float(sample.attainment().mean(axis=0) @ load)


def if_lengths_moved(moved: Sequence[Moved]) -> tuple[Decision, ...]:
    """Say how fragile a fleet of groups is: what it loses while its ratio stays."""
    if not moved:
        return ()
    worst = max(moved, key=lambda one: one.lost)
    numbers, words = {}, []
    for one in moved:
        numbers[f"goodput_lost_at_{_name(one, '_')}"] = one.lost
        beside = ""
        if one.lost_together is not None:
            numbers[f"goodput_lost_together_at_{_name(one, '_')}"] = one.lost_together
            beside = f" ({_percent(one.lost_together)} by replicas that do both)"
        words.append(f"{_name(one, ' ')}: {_percent(one.lost)}{beside}")
    return (
        Decision(
            question="what if prompts or outputs were a quarter longer or shorter, the ratio fixed",
            answer=f"{_percent(max(worst.lost, 0.0))} of the compliant goodput is lost at worst",
            because="of this fleet, " + ", ".join(words),
            numbers=numbers,
        ),
    )


def _percent(share: float) -> str:
    text = f"{share:.1%}"
    return "0.0%" if text == "-0.0%" else text


def _name(one: Moved, gap: str) -> str:
    what, multiple = ("prompts", one.prompt) if one.prompt != 1 else ("outputs", one.output)
    return f"{what}{gap}{'x' if gap == '_' else '×'}{gap}{multiple:g}"
