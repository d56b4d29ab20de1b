"""The chosen fleet if the demand is not what was planned for, in ways that have a name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

from planner.fleet import StressResult
from planner.planning.fleet import Fleet
from planner.planning.lengths_sweep import Scaled
from planner.planning.results import interval
from planner.problem.arrivals import RenewalArrivals, UserArrivals
from planner.simulation.capacity import SWEEPING
from planner.simulation.draw import Draws
from planner.simulation.effort import RunSize
from planner.simulation.fleet import FleetPool, Study, sample_fleet, verdict_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from planner.planning.answered import Answer
    from planner.planning.fleet import PoolChoice
    from planner.problem.arrivals import ArrivalLaw

LEVEL: Final = 1.25
SHIFT: Final = 1.5
"""Of one workload; the others shrink alike, so that the rate of all stays."""
LONGER: Final = 1.25
CV: Final = 3.0
TWICE: Final = 2.0


@dataclass(frozen=True, slots=True)
class Stress:
    """One way in which the demand is other than planned for."""

    preset: str
    what: str
    multiples: tuple[float, ...]
    """Of the demand, by asked workload."""
    prompt: float = 1.0
    output: float = 1.0
    cv: float | None = None
    """Of gaps between arrivals, in place of what is stated."""
    cold: bool = False
    """Every prompt is computed whole."""


def stresses_of(
    presets: Sequence[str], names: Sequence[str], rates: Sequence[float]
) -> list[Stress]:
    """Return what presets mean for these workloads, in the order of the presets.

    Args:
        presets: Names, as scenarios write them.
        names: Of the workloads.
        rates: Of their requests; shifts keep the sum.
    """
    made: dict[str, Callable[[], Iterator[Stress]]] = {
        "level": lambda: iter((_all(names, "level", LEVEL),)),
        "mix": lambda: _mixes(names, rates),
        "lengths": lambda: _lengths(names),
        "bursts": lambda: iter(
            (replace(_all(names, "bursts", 1), what=f"gaps with a CV of {CV:g}", cv=CV),)
        ),
        "client": lambda: _clients(names),
        "failover": lambda: iter((_all(names, "failover", TWICE),)),
        "no_cache": lambda: iter(
            (replace(_all(names, "no_cache", 1), what="no prefix is found", cold=True),)
        ),
    }
    return [stress for preset in presets for stress in made[preset]()]


def _all(names: Sequence[str], preset: str, multiple: float) -> Stress:
    return Stress(preset, f"every workload × {multiple:g}", (multiple,) * len(names))


def _mixes(names: Sequence[str], rates: Sequence[float]) -> Iterator[Stress]:
    for i, name in enumerate(names):
        rest = sum(rates) - rates[i]
        grown = min(SHIFT, sum(rates) / rates[i])
        others = (sum(rates) - grown * rates[i]) / rest
        multiples = tuple(grown if j == i else others for j in range(len(names)))
        yield Stress("mix", f"{name} × {grown:.3g}, others × {others:.3g}", multiples)


def _lengths(names: Sequence[str]) -> Iterator[Stress]:
    same = (1.0,) * len(names)
    yield Stress("lengths", f"prompts × {LONGER:g}", same, prompt=LONGER)
    yield Stress("lengths", f"outputs × {LONGER:g}", same, output=LONGER)


def _clients(names: Sequence[str]) -> Iterator[Stress]:
    for i, name in enumerate(names):
        for word, multiple in (("doubles", TWICE), ("leaves", 0.0)):
            if multiple or len(names) > 1:
                multiples = tuple(multiple if j == i else 1.0 for j in range(len(names)))
                yield Stress("client", f"{name} {word}", multiples)


def stress_results(
    answer: Answer, fleet: Fleet, over: Callable[[], bool] = lambda: False
) -> tuple[StressResult, ...]:
    """Simulate a fleet under every preset that its scenario names, routed as planned.

    Half the replications of a verification, on the draws of the sweep of the demand.

    Args:
        answer: The question.
        fleet: The pools and their loads.
        over: Asked before each run; fewer results where the time is over.
    """
    problem = answer.problem
    names = [whole.demand.id for whole in problem.asked]
    rates = [whole.demand.rate_rps for whole in problem.asked]
    results = []
    for stress in stresses_of(problem.stress, names, rates):
        if over():
            break
        results.append(_result(answer, fleet, stress))
    return tuple(results)


def _result(answer: Answer, fleet: Fleet, stress: Stress) -> StressResult:
    problem, verify = answer.problem, answer.effort.verify
    size = RunSize(verify.requests, max(verify.replications // 2, 3), verify.per_replica)
    left = [w for w, multiple in zip(problem.asked, stress.multiples, strict=True) if multiple > 0]
    sample = sample_fleet(
        _study(answer.study, stress), _pools(answer, fleet, stress), size, stream=SWEEPING
    )
    found = sample.intervals([whole.parts for whole in left])
    names = [whole.demand.id for whole in left]
    unstable = any(sample.unstable())
    return StressResult(
        preset=stress.preset,
        what=stress.what,
        attainment={name: interval(e) for name, e in zip(names, found, strict=True)},
        verdicts={
            whole.demand.id: verdict_of(e, whole.demand.slo.attainment)
            for whole, e in zip(left, found, strict=True)
        },
        unstable=unstable,
    )


def _pools(answer: Answer, fleet: Fleet, stress: Stress) -> list[FleetPool]:
    """Return the pools that have a load, at that load."""
    problem = answer.problem
    scale = [1.0] * len(problem.demands)
    for multiple, whole in zip(stress.multiples, problem.asked, strict=True):
        for w in whole.parts:
            scale[w] = multiple
    if stress.cold:
        fleet = Fleet(tuple(_without_cache(pool) for pool in fleet.pools))
    pools = [
        FleetPool(pool.setup, tuple(x * s for x, s in zip(pool.load_rps, scale, strict=True)))
        for pool in fleet.for_simulation(problem.policies.router)
    ]
    return [pool for pool in pools if sum(pool.load_rps) > 0]


def _without_cache(pool: PoolChoice) -> PoolChoice:
    build = replace(pool.template.build, cache=None)
    return replace(pool, template=replace(pool.template, build=build))


def _study(study: Study, stress: Stress) -> Study:
    """Return the study with other lengths or gaps; users who wait come as they do."""
    draws = study.draws
    if stress.cv is not None:
        laws = tuple(_bursty(law, stress.cv) for law in draws.arrivals)
        draws = Draws(draws.laws, draws.seed, laws, draws.prefixes)
    if (stress.prompt, stress.output) != (1.0, 1.0):
        draws = cast("Draws", Scaled(draws, stress.prompt, stress.output))
    return replace(study, draws=draws)


def _bursty(law: ArrivalLaw, cv: float) -> ArrivalLaw:
    if isinstance(law, UserArrivals):
        return law
    return RenewalArrivals(law.rate_rps, cv, "gamma")
