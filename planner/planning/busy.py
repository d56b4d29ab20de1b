"""Keeping accelerators busy against keeping promises: the same fleet, as full as it can be.

Settings with the highest raw rate are found by the mean field, which knows no deadline then.
How much they complete is simulated under a backlog that never ends; the fleet is then offered a
little less, and loads between that and the plan's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.candidates.frontier import setup_of
from planner.candidates.meanfield import coarse_bounds, moments
from planner.candidates.physics import computed_lengths
from planner.candidates.settings import engine_defaults
from planner.fleet import BusyPoint
from planner.planning.inventory import flops_of
from planner.planning.settings import Changes, goodput_rps, rebuilt
from planner.simulation.capacity import SWEEPING
from planner.simulation.effort import RunSize
from planner.simulation.fleet import FleetPool, FleetSample, sample_fleet
from planner.simulation.pool import STEP_WISE_SHORTER

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.candidates.template import Build
    from planner.planning.fleet import PoolChoice
    from planner.planning.settings import Bench

FULL: Final = 0.98
"""Share of what a pool completes under a backlog that it is offered when it is kept full: more,
and no wait would end."""
BACKLOG: Final = 1.25
"""Load, as a multiple of the most by the mean field, that surely leaves a backlog."""
STAYS: Final = 6
"""Mean stays of a request that a run lasts at least: seats fill in one."""
LOADS: Final = (1.0, 1.1, 1.2)
"""Multiples of the plan's load between."""
ALIKE: Final = 0.005
"""Raw rates by the mean field that differ by less are alike; the plan's settings then come
first, smaller ones next."""


@dataclass(frozen=True, slots=True)
class Busiest:
    """The settings of one pool with the highest raw rate."""

    build: Build
    raw_rps: float
    """What the pool completes under a backlog."""


def busy_points(bench: Bench, over: Callable[[], bool]) -> tuple[BusyPoint, ...]:
    """Put the plan beside the settings of its accelerators that keep them busiest."""
    points = [_point(bench, "the plan", {}, _loads(bench, 1.0))]
    if over():
        return tuple(points)
    found = [_busiest(bench, pool) for pool in bench.fleet.pools]
    changes: Changes = {
        p: (one.build, bench.router)
        for p, one in enumerate(found)
        if one.build is not bench.fleet.pools[p].template.build
    }
    full = [FULL * one.raw_rps for one in found]
    if not all(full):
        return tuple(points)
    most = min(f / sum(pool.load_rps) for f, pool in zip(full, bench.fleet.pools, strict=True))
    for multiple in LOADS:
        if over() or multiple >= most or (multiple == 1.0 and not changes):
            continue
        label = f"busiest settings, load × {multiple:g}"
        points.append(_point(bench, label, changes, _loads(bench, multiple)))
    if not over():
        loads = [
            tuple(load * f / sum(pool.load_rps) for load in pool.load_rps)
            for f, pool in zip(full, bench.fleet.pools, strict=True)
        ]
        points.append(_point(bench, "highest raw rate and MFU", changes, loads))
    return tuple(points)


def _loads(bench: Bench, multiple: float) -> list[tuple[float, ...]]:
    return [tuple(load * multiple for load in pool.load_rps) for pool in bench.fleet.pools]


def _busiest(bench: Bench, pool: PoolChoice) -> Busiest:
    build = _highest_raw_rate(bench, pool)
    bound = _most_rps(bench, pool, [build])[0] * pool.units
    scale = BACKLOG * bound / sum(pool.load_rps)
    load = tuple(x * scale for x in pool.load_rps)
    size = _size(bench, pool, build)
    one = FleetPool(setup_of(build, pool.units, bench.router), load)
    sample = sample_fleet(bench.answer.study, [one], size, stream=SWEEPING)
    runs = sample.runs[0]
    return Busiest(build, sum(run.completed_rps for run in runs) / len(runs))


def _highest_raw_rate(bench: Bench, pool: PoolChoice) -> Build:
    """Return the build of a pool under the settings with the highest raw rate."""
    own, policies = pool.template.build, bench.answer.problem.policies
    default = engine_defaults(own.engine, own.curve.accelerator)
    tokens, seqs = own.max_num_batched_tokens, own.max_num_seqs
    budgets = {*policies.max_num_batched_tokens, tokens, 2 * tokens}
    seats = {*policies.max_num_seqs, seqs, 2 * seqs}
    if default is not None:
        budgets.add(default.max_num_batched_tokens)
        seats.add(default.max_num_seqs)
    pairs = [(b, s) for b in sorted(budgets) for s in sorted(seats)]
    made = [rebuilt(bench.answer, pool, b, s) for b, s in pairs]
    builds = [own, *(one for one in made if not isinstance(one, str) and one is not own)]
    rates = _most_rps(bench, pool, builds)
    enough = max(rates) * (1 - ALIKE)
    return next(build for build, rate in zip(builds, rates, strict=True) if rate >= enough)


def _most_rps(bench: Bench, pool: PoolChoice, builds: list[Build]) -> list[float]:
    """Return the mean-field load of one replica of each build if there were no deadline."""
    prompt, output = computed_lengths(bench.answer.study, builds[0], pool.load_rps)
    means = [moments(prompt, output, b.max_num_batched_tokens) for b in builds]
    return [x.load_rps for x in coarse_bounds(builds, means, [np.inf] * len(builds))]


def _size(bench: Bench, pool: PoolChoice, build: Build) -> RunSize:
    """Return runs that are long against the time that seats take to fill."""
    prompt, output = computed_lengths(bench.answer.study, build, pool.load_rps)
    held = float((prompt + output / 2).mean())
    seats = min(build.max_num_seqs, build.kv_tokens / held) * build.curve.layout.dp_degree
    wanted = STAYS * seats
    if setup_of(build, pool.units, bench.router).step_wise:
        wanted *= STEP_WISE_SHORTER
    return RunSize(bench.size.requests, 2, max(bench.size.per_replica, round(wanted)))


def _point(bench: Bench, label: str, changes: Changes, loads: list[tuple[float, ...]]) -> BusyPoint:
    """Simulate the fleet under some settings and loads."""
    fleet = bench.fleet
    pools, runs = [], []
    for p, pool in enumerate(fleet.pools):
        build, router = changes.get(p, (pool.template.build, bench.router))
        one = FleetPool(setup_of(build, pool.units, router), loads[p])
        size = _size(bench, pool, build)
        sample = sample_fleet(bench.answer.study, [one], size, stream=SWEEPING)
        pools.append(one)
        runs.append(sample.runs[0])
    sample = FleetSample(tuple(pools), tuple(runs))
    offered = float(sum(map(sum, loads)))
    goodput = goodput_rps(sample)
    raw = [
        sum(run.completed_rps for run in own) / len(own) if grows else sum(load)
        for own, load, grows in zip(runs, loads, sample.unstable(), strict=True)
    ]
    units = [pool.units for pool in fleet.pools]
    busy = [sum(run.busy_share for run in own) / len(own) for own in runs]
    cost = fleet.usd_per_hour
    return BusyPoint(
        label=label,
        pools=bench.pools(changes),
        offered_rps=offered,
        completed_rps=sum(raw),
        goodput_rps=goodput,
        attainment=goodput / offered,
        mfu=_mfu(bench, loads, raw),
        busy_share=sum(n * x for n, x in zip(units, busy, strict=True)) / sum(units),
        usd_per_thousand_compliant=cost / 3.6 / goodput if goodput else None,
        unstable=any(sample.unstable()),
    )


def _mfu(bench: Bench, loads: list[tuple[float, ...]], raw: list[float]) -> float | None:
    """Return model FLOP/s of what is completed over the dense peak of the fleet."""
    done = peak = 0.0
    for pool, load, completed in zip(bench.fleet.pools, loads, raw, strict=True):
        flops = flops_of(bench.answer, pool, load)
        if flops is None:
            return None
        done += flops[0] * completed / sum(load)
        peak += flops[1]
    return done / peak
