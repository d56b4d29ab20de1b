"""Simulate a plan that was read from a file: the same fleet, by default on other draws."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from planner.candidates.enumerate import enumerate_builds
from planner.candidates.split import Split, split_problem
from planner.candidates.template import PRIORITY, Template
from planner.catalogue import Catalogue
from planner.errors import InputError
from planner.planning.fleet import Fleet, PoolChoice
from planner.planning.group_pools import (
    PREFILL,
    build_of_group,
    is_second,
    sides_to_place,
    ways_of_plan,
)
from planner.planning.own_fields import require_own_fields
from planner.planning.periods import JUDGING_AGAIN, judge_over_time
from planner.planning.results import workload_results
from planner.planning.scenarios import at_multiples
from planner.planning.study import effort_for, study_of
from planner.planning.teller import Teller
from planner.problem.answered import answered_scenario
from planner.problem.resolve import resolve
from planner.simulation.capacity import REPLAYING
from planner.simulation.fleet import judge_fleet

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.fleet import FleetPlan, SplitByLength, WorkloadResult
    from planner.problem.resolve import Problem
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import Study


def simulate_plan(
    plan: FleetPlan,
    *,
    seed: int | None = None,
    progress: Callable[[str, float], None] | None = None,
    effort: Effort | None = None,
    folder: Path = Path(),
) -> tuple[WorkloadResult, ...]:
    """Simulate a plan's fleet request by request, on draws that its making never saw.

    Args:
        plan: A plan with pools.
        seed: Seed of the draws; the plan's if left out.
        progress: Told what is being done and which share of the whole is done.
        effort: How much to simulate; what suits the kernel if left out.
        folder: Where files that the scenario names by a relative path lie.

    Raises:
        InputError: The plan has no pools, or its scenario or a pool cannot be rebuilt here.
    """
    tell = Teller(progress)
    problem, fleet = fleet_in(plan, seed, folder)
    effort = effort or effort_for(problem)
    study = study_of(problem)
    tell("simulating the fleet", 0.2)
    judgement = judge_fleet(
        study,
        fleet.for_simulation(problem.policies.router),
        effort=effort,
        stream=REPLAYING,
    )
    judgement = judge_over_time(problem, study, fleet, effort, judgement, stream=JUDGING_AGAIN)
    return workload_results(problem, study, effort, fleet, judgement)


def fleet_in(plan: FleetPlan, seed: int | None, folder: Path) -> tuple[Problem, Fleet]:
    """Build the question and the fleet of a plan again; arguments as :func:`simulate_plan`.

    Raises:
        InputError: The plan has no pools, or its scenario or a pool cannot be rebuilt here.
    """
    if plan.capacity_table is not None:
        raise InputError(
            "the plan rests on a measured capacity table; there is no curve to simulate it by"
        )
    if not plan.pools:
        raise InputError("the plan has no pools; there is nothing to simulate")
    catalogue = Catalogue()
    problem = resolve(answered_scenario(plan, folder), catalogue)
    problem = replace(problem, seed=plan.seed if seed is None else seed)
    if plan.planned_multiples:
        names = [demand.id for demand in problem.demands]
        problem = at_multiples(problem, tuple(plan.planned_multiples.get(n, 1.0) for n in names))
    problem = replace(problem, slower_by=plan.planned_deviations)
    for split in plan.splits:
        problem = _split(problem, split)
    return problem, _fleet_of(plan, problem, catalogue, study_of(problem))


def _split(problem: Problem, split: SplitByLength) -> Problem:
    """Split a workload as a plan says.

    Raises:
        InputError: The plan's scenario has no such workload, or it has no two parts.
    """
    ids = [demand.id for demand in problem.demands]
    if split.workload not in ids or len(split.parts) != 2:
        raise InputError(
            f"splits: {split.workload}: no such workload, or not in two parts; is the plan whole?"
        )
    w = ids.index(split.workload)
    short, long = (part.promise for part in split.parts)
    return split_problem(problem, Split(w, split.up_to, split.parts[1].share, 0.0), (short, long))


def _fleet_of(plan: FleetPlan, problem: Problem, catalogue: Catalogue, study: Study) -> Fleet:
    """Build the pools of a plan again from its scenario."""
    builds = {build.id: build for build in enumerate_builds(problem, catalogue)[0]}
    parts = {p.id: split.workload for split in plan.splits for p in split.parts}
    pools = []
    for pool in plan.pools:
        if is_second(pool):
            continue
        name, _, label = pool.id.partition("@")
        build_id = name.removesuffix(PRIORITY)
        units = pool.replicas
        if pool.role == "prefill":
            builds[build_id], units = build_of_group(pool, builds, problem, study)
            label = label.removesuffix(PREFILL)
        if build_id not in builds:
            raise InputError(
                f"pool {pool.id}: its template does not follow from the plan's scenario and this"
                " catalogue; plan again"
            )
        served = set(label.split(":"))
        names = [
            parts.get(d.id, d.id) if d.id in served or d.id not in parts else ""
            for d in problem.demands
        ]
        load = _load(plan, pool.id, names)
        serves = tuple(w for w, rate in enumerate(load) if rate > 0)
        build = builds[build_id]
        if build_id != name:
            build = replace(build, priority=problem.priorities)
        template = Template(build, serves, load, label)
        ways = ways_of_plan(plan, pool.group, build) if pool.group is not None else ()
        pools.append(PoolChoice(template, units, load, ways=ways))
    fleet = Fleet(tuple(pools))
    sides = {name: (b, units * n) for p in pools for name, b, units, n, _ in sides_to_place(p)}
    require_own_fields((pool, *sides[pool.id]) for pool in plan.pools if pool.id in sides)
    return fleet


def _load_of(result: WorkloadResult) -> float:
    """Return the load of a workload: its offered rate, unless it counts users who wait."""
    users = result.users
    return result.offered_rps if users is None else users.users * users.user_rps


def _load(plan: FleetPlan, pool: str, names: list[str]) -> tuple[float, ...]:
    """Return the load of a pool by workload, from the routing shares."""
    shares = {
        result.id: share.share * _load_of(result)
        for result in plan.workloads
        for share in result.routing
        if share.pool == pool
    }
    unknown = sorted(set(shares) - set(names))
    if unknown or not shares:
        what = f"workload {unknown[0]} is not in its scenario" if unknown else "no workload uses it"
        raise InputError(f"pool {pool}: {what}; is the plan whole?")
    if not (min(shares.values()) >= 0 and 0 < sum(shares.values()) < math.inf):
        raise InputError(f"pool {pool}: its shares of the load are no positive load; plan again")
    return tuple(shares.get(name, 0.0) for name in names)
