"""Demand that may turn out one way or another: what to plan for, and what becomes of all.

A fleet that is planned for several scenarios is planned for the highest demand of each workload
among them. Of all choices of scenarios that weigh enough, the one whose demand is cheapest to
serve is taken; the chosen fleet is then simulated in every scenario, those let go too.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from planner.candidates.enumerate import enumerate_builds
from planner.candidates.screen import screen
from planner.candidates.serve import templates_of
from planner.fleet import ScenarioResult
from planner.planning.results import interval, whole_verdict
from planner.planning.study import study_of
from planner.problem.arrivals import at_rate
from planner.simulation.fleet import FleetPool, judge_fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.planning.answered import Answer
    from planner.planning.clock import Clock
    from planner.planning.fleet import Fleet
    from planner.problem.resolve import Outcome, Problem

SCENARIOS: Final = 6
"""Stream of random draws for this purpose, beside those of ``planner.simulation.capacity``."""

Multiples = tuple[float, ...]


def planned_for(answer: Answer, check: Callable[[], None]) -> Problem:
    """Return the problem at the demand that its scenarios ask to plan for.

    Args:
        answer: The question.
        check: Called before each run; raises where the time is over.
    """
    problem = answer.problem
    if not problem.outcomes:
        return problem
    choices = least_demands(problem.outcomes, problem.keep)
    if len(choices) == 1:
        return at_multiples(problem, choices[0])
    worth = _usd_per_request(answer, check)
    rates = problem.rates_rps

    def price(multiples: Multiples) -> float:
        return sum(v * r * m for v, r, m in zip(worth, rates, multiples, strict=True))

    return at_multiples(problem, min(choices, key=lambda m: (price(m), m)))


def least_demands(outcomes: Sequence[Outcome], keep: float) -> list[Multiples]:
    """Return the demands to choose from: the highest multiples of scenarios that weigh enough.

    A demand that is nowhere below another of them is left out.

    Args:
        outcomes: The scenarios.
        keep: Least share of the weight.
    """
    found: set[Multiples] = set()
    for size in range(1, len(outcomes) + 1):
        for some in itertools.combinations(outcomes, size):
            if sum(o.weight for o in some) >= keep - 1e-9:
                found.add(tuple(map(max, zip(*(o.multiples for o in some), strict=True))))

    def needless(one: Multiples) -> bool:
        return any(
            other != one and all(a <= b for a, b in zip(other, one, strict=True)) for other in found
        )

    return sorted(one for one in found if not needless(one))


def at_multiples(problem: Problem, multiples: Multiples) -> Problem:
    """Return a problem whose demands are these multiples of what they were."""
    demands = tuple(
        replace(d, arrivals=at_rate(d.arrivals, d.rate_rps * m))
        for d, m in zip(problem.demands, multiples, strict=True)
    )
    return replace(problem, demands=demands, planned_multiples=multiples)


def _usd_per_request(answer: Answer, check: Callable[[], None]) -> tuple[float, ...]:
    """Return what a request of each workload costs at least, alone in replicas of its own."""
    problem, study = answer.problem, study_of(answer.problem, answer.study.meter)
    builds, _ = enumerate_builds(problem, answer.catalogue)
    groups, _ = templates_of(problem, study, builds, check)
    tpot_s = [d.slo.tpot for d in problem.demands]
    found = []
    for w in range(len(problem.demands)):
        mine = [t for serves, group in groups.items() if w in serves for t in group]
        fewest = min((len(t.serves) for t in mine), default=0)
        alone = [t for t in mine if len(t.serves) == fewest]
        router = problem.policies.router
        kept, _ = screen(study, alone, tpot_s, router, answer.effort, check)
        found.append(kept[0].usd_per_request if kept else 0.0)
    return tuple(found)


def scenario_results(answer: Answer, fleet: Fleet, clock: Clock) -> tuple[ScenarioResult, ...]:
    """Simulate a fleet in every scenario, routed as it is at the demand planned for.

    Args:
        answer: The question.
        fleet: The pools and their loads.
        clock: Once its time is over, no run is made longer for an open verdict.
    """
    problem = answer.problem
    asked = problem.asked
    results = []
    for outcome in problem.outcomes:
        scale = [1.0] * len(problem.demands)
        for v, whole in enumerate(asked):
            for w in whole.parts:
                scale[w] = outcome.multiples[v] / problem.planned_multiples[v]
        pools = [
            FleetPool(pool.setup, tuple(x * s for x, s in zip(pool.load_rps, scale, strict=True)))
            for pool in fleet.for_simulation(problem.policies.router)
        ]
        judged = judge_fleet(
            answer.study,
            pools,
            effort=answer.effort,
            stream=SCENARIOS,
            over=lambda: clock.over,
        )
        found = judged.sample.intervals([whole.parts for whole in asked])
        verdicts = [
            whole_verdict(whole, judged.verdicts, estimate)
            for whole, estimate in zip(asked, found, strict=True)
        ]
        names = [whole.demand.id for whole in asked]
        results.append(
            ScenarioResult(
                id=outcome.id,
                weight=outcome.weight,
                planned_for=all(
                    m <= p + 1e-12
                    for m, p in zip(outcome.multiples, problem.planned_multiples, strict=True)
                ),
                multiples=dict(zip(names, outcome.multiples, strict=True)),
                attainment={n: interval(e) for n, e in zip(names, found, strict=True)},
                verdicts=dict(zip(names, verdicts, strict=True)),
            )
        )
    return tuple(results)


def kept_share(results: Sequence[ScenarioResult]) -> float | None:
    """Return the weight of scenarios in which every promise is kept; None without scenarios."""
    if not results:
        return None
    return sum(r.weight for r in results if set(r.verdicts.values()) == {"kept"})
