"""A plan's pools served once more with every step kept, for traces and for who harms whom."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.attribution.traced import MOST_TOKENS, TracedRun, no_deadline
from planner.kernels.engine import simulate_fleet
from planner.planning.replay import fleet_in
from planner.planning.study import study_of
from planner.simulation.cached_pool import NO_LIMIT, Replicas, engine_question
from planner.simulation.capacity import REPLAYING
from planner.simulation.group import CellQuestion, first_cell
from planner.simulation.pool import counted_span
from planner.simulation.users import serve_users

if TYPE_CHECKING:
    from pathlib import Path

    from planner.fleet import FleetPlan
    from planner.planning.fleet import PoolChoice
    from planner.problem.resolve import Problem
    from planner.simulation.draw import Draw, Traffic
    from planner.simulation.fleet import FleetPool, Study
    from planner.simulation.pool import PoolSetup

PS: Final = 1e-12


def trace_plan(
    plan: FleetPlan, *, seed: int | None = None, requests: int = 4_000, folder: Path
) -> tuple[TracedRun, ...]:
    """Serve each pool of a plan under one draw, step by step.

    Args:
        plan: A plan with pools.
        seed: Seed of the draws; the plan's if left out.
        requests: Requests of each pool; fewer where their outputs are so long that the steps
            would not fit in memory.
        folder: Where files that the scenario names by a relative path lie.

    Raises:
        InputError: The plan has no pools, or its scenario or a pool cannot be rebuilt here.
    """
    problem, fleet = fleet_in(plan, seed, folder)
    study = study_of(problem)
    pools = fleet.for_simulation(problem.policies.router)
    return tuple(
        trace_pool(problem, study, pool, choice, requests)
        for pool, choice in zip(pools, fleet.pools, strict=True)
    )


def trace_pool(
    problem: Problem, study: Study, pool: FleetPool, choice: PoolChoice, requests: int
) -> TracedRun:
    """Serve one pool under the first draw of the plan's replay, step by step."""
    setup = pool.setup
    draw = study.draws.get(pool.load_rps, requests, 0, REPLAYING)
    rate = sum(pool.load_rps) * setup.simulated / setup.replicas
    traffic = _first(_traffic(setup, draw, rate))
    asked, engines, own = _question(setup, traffic)
    records = simulate_fleet(asked, engines, stages=True, keep_steps=True, max_steps=NO_LIMIT)
    due, of = study.deadlines, traffic.workload[own]
    n = of.size
    span = counted_span(asked.arrival, records.finish)
    too_long = asked.prompt.astype(np.int64) + asked.output > due.context_tokens[of]
    return TracedRun(
        name=choice.template.id,
        tick_s=PS,
        traffic=asked,
        setup=engines,
        records=records,
        workloads=tuple(d.id for d in problem.demands),
        workload=of,
        models=tuple(d.llm.id for d in problem.demands),
        first_by=np.where(too_long, -1, due.ttft_limit_ps(of, asked.prompt)),
        rest_by=due.decode_limit_ps(of, asked.output),
        whole_by=no_deadline(n) if due.e2e_ps is None else due.e2e_ps[of],
        gap_by=no_deadline(n) if due.max_itl_ps is None else due.max_itl_ps[of],
        counted=np.arange(n)[span],
        path=setup.path_ps,
        accelerators=choice.template.build.accelerators * choice.units,
        usd_per_hour=choice.template.build.usd_per_hour * choice.units,
    )


def _question(setup: PoolSetup, traffic: Traffic) -> CellQuestion:
    """Return what the engine is asked: a pool's replicas, or its first groups on one link."""
    if setup.group is not None:
        decode = (setup.law, setup.limits)
        return first_cell(setup.group, decode, traffic, setup.replicas, setup.router)
    finds = traffic.prefix is not None or traffic.cached is not None
    asked, engines = engine_question(
        setup.law,
        setup.limits,
        setup.cache if finds else None,
        traffic,
        Replicas(setup.simulated, setup.router, setup.priority, setup.ranks, setup.stages),
    )
    return CellQuestion(asked, engines, np.arange(traffic.arrival_ps.size))


def _traffic(setup: PoolSetup, draw: Draw, rate_rps: float) -> Traffic:
    if draw.closed:  # what users send depends on what they are answered
        return serve_users(setup, draw, rate_rps, stages=False)[0]
    cache = setup.cache
    return draw.at(rate_rps, block_tokens=None if cache is None else cache.block_tokens)


def _first(traffic: Traffic) -> Traffic:
    """Return the first requests: as many as there is room for the steps of."""
    fits = int(np.searchsorted(np.cumsum(traffic.output.astype(np.int64)), MOST_TOKENS))
    if fits >= traffic.output.size:
        return traffic
    rows = np.arange(max(fits, 1))
    return replace(
        traffic,
        arrival_ps=traffic.arrival_ps[rows],
        workload=traffic.workload[rows],
        prompt=traffic.prompt[rows],
        output=traffic.output[rows],
        prefix=None if traffic.prefix is None else traffic.prefix.of(rows),
        cached=None if traffic.cached is None else traffic.cached[rows],
    )
