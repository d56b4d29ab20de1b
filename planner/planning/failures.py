"""What is left of a fleet after a failure, simulated; and what it costs to be ready for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from planner.errors import InfeasibleError, LimitReachedError
from planner.fleet import Decision, FailureResult, Interval
from planner.milp import choose
from planner.milp.indices import ALONE
from planner.milp.surviving import lost_units, not_survived, recourse, threats
from planner.planning.fleet import Fleet, PoolChoice
from planner.planning.housing import floor_of, placed_of
from planner.planning.program import instance_of
from planner.simulation.fleet import judge_fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from planner.candidates.frontier import Frontier
    from planner.planning.refine import Refined, Verified
    from planner.problem.resolve import Problem
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import Judgement, Study

SURVIVING: Final = 12
"""Stream of the random draws."""
MOST_SIMULATED: Final = 12
"""Failures that are simulated: those that leave the least to spare, by the operating points."""


@dataclass(frozen=True, slots=True)
class Survived:
    """One failure, and what the fleet that is left of it showed."""

    name: str
    lost: Mapping[str, int]
    """Units by template."""
    left: Fleet
    turned_away: tuple[float, ...]
    """Share of each workload's requests."""
    judgement: Judgement | None
    """None where nothing is left that serves a workload."""
    floors: tuple[float, ...]

    @property
    def kept(self) -> bool:
        """Whether every floor held."""
        return self.judgement is not None and self.judgement.verdict == "kept"


def survives(problem: Problem, believed: Mapping[str, Frontier], fleet: Fleet) -> bool:
    """Tell whether a fleet survives every failure, by its operating points."""
    if problem.sites.spare is None:
        return True
    units_in = {(j, d, ALONE): n for (j, d), n in placed_of(fleet).items()}
    return not not_survived(instance_of(problem, believed), units_in)


def try_failures(
    problem: Problem,
    study: Study,
    believed: Mapping[str, Frontier],
    fleet: Fleet,
    effort: Effort,
    over: Callable[[], bool] = lambda: False,
) -> tuple[Survived, ...]:
    """Simulate what every failure leaves of a fleet, its traffic routed anew.

    Args:
        problem: The question; nothing is simulated where it asks for no spare.
        study: Draws and deadlines.
        believed: Operating points, by which traffic is routed anew.
        fleet: With its places.
        effort: How long runs are.
        over: Asked before a run is made longer.
    """
    if problem.sites.spare is None:
        return ()
    data = instance_of(problem, believed)
    units = {p.template.id: p.units for p in fleet.pools}
    placed = placed_of(fleet)
    ways = []
    for position, loss in enumerate(threats(data, placed)):
        lost = {j: round(n) for j, n in lost_units(placed, loss).items()}
        anew = recourse(data, units, lost)
        still = {j: round(n) for j, n in anew.units.items()}
        room = sum(n * believed[j].capacity_rps.value for j, n in still.items())
        ways.append((room, position, loss.id, lost, still, anew))
    tried = []
    for _, _, name, lost, still, anew in sorted(ways, key=lambda way: way[:2])[:MOST_SIMULATED]:
        away = tuple(anew.shed_rps[d.id] / d.rate_rps for d in problem.demands)
        left = _left(problem, believed, fleet, still, anew.weights)
        floors = tuple(floor_of(problem, w) for w in range(len(problem.demands)))
        judged = None
        served = [sum(p.load_rps[w] for p in left.pools) for w in range(len(floors))]
        if all(load > 0 for load in served):
            promise = tuple(f / max(1 - a, 1e-12) for f, a in zip(floors, away, strict=True))
            judged = judge_fleet(
                replace(study, promise=promise),
                left.for_simulation(problem.policies.router),
                effort=effort,
                stream=SURVIVING,
                over=over,
            )
        tried.append(Survived(name, lost, left, away, judged, floors))
    return tuple(tried)


def _left(
    problem: Problem,
    believed: Mapping[str, Frontier],
    fleet: Fleet,
    units: Mapping[str, int],
    weights: Mapping[tuple[str, str], float],
) -> Fleet:
    """Return the pools that are left, under the load that is routed to them."""
    pools = []
    for pool in fleet.pools:
        j = pool.template.id
        load = tuple(
            sum(
                weights.get((j, str(o)), 0.0) * point.load_rps[w]
                for o, point in enumerate(believed[j].points)
            )
            for w in range(len(problem.demands))
        )
        if units.get(j, 0) and sum(load) > 0:
            pools.append(PoolChoice(pool.template, units[j], load))
    return Fleet(tuple(pools))


def failure_results(problem: Problem, tried: tuple[Survived, ...]) -> tuple[FailureResult, ...]:
    """Write down what was tried; attainment counts what is turned away as missed."""
    names = [d.id for d in problem.demands]
    results = []
    for one in tried:
        found = one.judgement.intervals if one.judgement else ()
        results.append(
            FailureResult(
                lost=one.name,
                units_lost=dict(one.lost),
                turned_away={n: a for n, a in zip(names, one.turned_away, strict=True) if a > 1e-9},
                attainment={
                    n: Interval(value=e.value * s, low=e.low * s, high=e.high * s)
                    for n, e, s in zip(names, found, (1 - a for a in one.turned_away), strict=False)
                },
                floor=dict(zip(names, one.floors, strict=True)),
                verdict=one.judgement.verdict if one.judgement else "broken",
            )
        )
    return tuple(results)


def spare_decisions(
    problem: Problem, refined: Refined, shown: Verified, tried: tuple[Survived, ...]
) -> tuple[Decision, ...]:
    """Say what it costs to be ready for failures."""
    spare = problem.sites.spare
    if spare is None:
        return ()
    data = instance_of(problem, refined.frontiers)
    assert data.nodes is not None
    bare = replace(data, nodes=replace(data.nodes, spare=None))
    cost = shown.fleet.usd_per_hour
    what = f"{spare.count} of {'its nodes' if spare.lose == 'nodes' else 'its ' + spare.lose + 's'}"
    numbers = {"usd_per_hour": cost}
    words = "; ".join(
        f"without {one.name}: "
        + ", ".join(
            f"{d.id} {i.value * (1 - a):.1%}"
            for d, i, a in zip(
                problem.demands, one.judgement.intervals, one.turned_away, strict=True
            )
        )
        for one in tried
        if one.judgement is not None
    )
    try:
        without = choose(bare, "min_cost", time_limit_s=5.0, gap=1e-3).cost_usd_per_hour
    except (InfeasibleError, LimitReachedError):
        answer = "not known"
    else:
        numbers |= {
            "usd_per_hour_without_spare": without,
            "usd_per_hour_of_spare": max(cost - without, 0.0),
        }
        answer = f"{max(cost - without, 0.0):.2f} USD/h"
        words += (
            f"; the cheapest fleet that need not survive this costs {without:.2f} USD/h, by"
            " measured operating points"
        )
    return (
        Decision(
            question=f"what does it cost to survive the loss of {what}",
            answer=answer,
            because=words.removeprefix("; "),
            numbers=numbers,
        ),
    )
