"""What each scheduler setting is worth: the chosen fleet with others, under the same requests.

Both fleets see the same gaps and lengths, so that a difference is known far better than either
attainment, and short runs tell it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from planner.candidates.frontier import setup_of
from planner.candidates.serve import longest_requests
from planner.candidates.settings import EngineDefaults, engine_defaults, with_settings
from planner.errors import LimitReachedError
from planner.fleet import PoolSettings, SettingEffect
from planner.kernels.engine import COMPILED
from planner.planning.results import interval
from planner.planning.sweep import units_needed
from planner.problem.arrivals import UserArrivals
from planner.simulation.capacity import SWEEPING
from planner.simulation.effort import RunSize
from planner.simulation.fleet import FleetPool, FleetSample, sample_fleet
from planner.simulation.interval import t_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from planner.candidates.template import Build
    from planner.planning.answered import Answer
    from planner.planning.fleet import Fleet, PoolChoice
    from planner.scenario.policies import Routing
    from planner.simulation.effort import Effort

REPLICATIONS: Final = 4
MOST_POOLS: Final = 4
"""Pools whose settings are tried, the dearest; each takes some runs."""
LIMITS_OF_KNOBS: Final = {"max_num_batched_tokens": (16, 131_072), "max_num_seqs": (1, 8192)}
"""As the scenario allows them."""

Changes = dict[int, tuple["Build", "Routing"]]
"""By place of the pool in the fleet: how its replicas are built then, and the router."""


def short_runs(effort: Effort) -> RunSize:
    """Return runs that are long enough for paired differences."""
    per_replica = max(effort.search.per_replica // 4, 400)
    return RunSize(effort.screen_requests, REPLICATIONS, per_replica)


class Knob(NamedTuple):
    """One change of one pool; ``build`` is why it cannot be made, where it cannot."""

    change: str
    pool: int
    build: Build | str
    router: Routing


@dataclass(frozen=True, slots=True)
class Bench:
    """The chosen fleet in short runs, beside which others are put."""

    answer: Answer
    fleet: Fleet
    size: RunSize
    base: FleetSample

    @property
    def router(self) -> Routing:
        """The plan's."""
        return self.answer.problem.policies.router

    def changed(self, changes: Changes) -> FleetSample:
        """Simulate the pools that change, under the requests that they had in the base."""
        pools, runs = list(self.base.pools), list(self.base.runs)
        loads = [sum(pool.load_rps) for pool in self.fleet.pools]
        for p, (build, router) in changes.items():
            own = self.fleet.pools[p]
            part = replace(self.size, requests=round(self.size.requests * loads[p] / sum(loads)))
            pool = FleetPool(setup_of(build, own.units, router), own.load_rps)
            sample = sample_fleet(self.answer.study, [pool], part, stream=SWEEPING)
            pools[p], runs[p] = pool, sample.runs[0]
        return FleetSample(tuple(pools), tuple(runs), self.base.users)

    def shares(self, sample: FleetSample) -> NDArray[np.float64]:
        """Return attainment by replication and workload as the user gave it."""
        attained = sample.attainment()
        load = np.sum([pool.load_rps for pool in self.fleet.pools], axis=0)
        columns = [
            attained[:, list(whole.parts)] @ load[list(whole.parts)] / load[list(whole.parts)].sum()
            for whole in self.answer.problem.asked
        ]
        return np.stack(columns, axis=1)

    def effect(self, change: str, changes: Changes) -> SettingEffect:
        """Simulate a change and say what it does."""
        sample = self.changed(changes) if changes else self.base
        ids = [whole.demand.id for whole in self.answer.problem.asked]
        groups = [whole.parts for whole in self.answer.problem.asked]
        apart = (self.shares(sample) - self.shares(self.base)).T.tolist()
        goodput = goodput_rps(sample)
        cost = self.fleet.usd_per_hour
        return SettingEffect(
            change=change,
            pools=self.pools(changes),
            attainment={
                name: interval(x) for name, x in zip(ids, sample.intervals(groups), strict=True)
            },
            difference={name: interval(t_interval(x)) for name, x in zip(ids, apart, strict=True)}
            if changes
            else {},
            goodput_rps=goodput,
            usd_per_thousand_compliant=cost / 3.6 / goodput if goodput else None,
            unstable=any(sample.unstable()),
        )

    def pools(self, changes: Changes) -> tuple[PoolSettings, ...]:
        """Write down the settings of every pool."""
        return tuple(
            settings_of(pool.template.id, *changes.get(p, (pool.template.build, self.router)))
            for p, pool in enumerate(self.fleet.pools)
        )


def settings_of(pool: str, build: Build, router: Routing) -> PoolSettings:
    """Write down how a pool's replicas schedule."""
    return PoolSettings(
        pool=pool,
        max_num_batched_tokens=build.max_num_batched_tokens,
        max_num_seqs=build.max_num_seqs,
        scheduling_policy=build.scheduling_policy,
        router=router,
    )


def goodput_rps(sample: FleetSample) -> float:
    """Return compliant requests per second of a fleet, all workloads together."""
    return float((sample.asked_rps().sum(axis=0) * sample.attainment().mean(axis=0)).sum())


def bench_of(answer: Answer, fleet: Fleet) -> Bench:
    """Simulate a fleet shortly."""
    size = short_runs(answer.effort)
    pools = fleet.for_simulation(answer.problem.policies.router)
    return Bench(answer, fleet, size, sample_fleet(answer.study, pools, size, stream=SWEEPING))


def tried_pools(fleet: Fleet) -> list[int]:
    """Return the places of the pools whose settings are tried: replicas that do both, dear first.

    Groups have settings on either side, which their own search has chosen.
    """
    whole = [p for p, pool in enumerate(fleet.pools) if pool.template.build.group is None]

    def price(p: int) -> float:
        return fleet.pools[p].units * fleet.pools[p].template.build.usd_per_hour

    return sorted(sorted(whole, key=price, reverse=True)[:MOST_POOLS])


def rebuilt(answer: Answer, pool: PoolChoice, budget: int, seqs: int) -> Build | str:
    """Return the build of a pool with other limits per step, or why there is none."""
    longest = max(longest_requests(answer.problem)[w] for w in pool.template.serves)
    return with_settings(answer.problem.policies, pool.template.build, budget, seqs, longest)


def knobs_of(answer: Answer, fleet: Fleet) -> Iterator[Knob]:
    """Yield each setting of each pool halved and doubled, and the others of its kind."""
    several = len(fleet.pools) > 1
    for p in tried_pools(fleet):
        pool = fleet.pools[p]
        build, router = pool.template.build, answer.problem.policies.router
        at = f"{pool.template.id}: " if several else ""
        now = {
            "max_num_batched_tokens": build.max_num_batched_tokens,
            "max_num_seqs": build.max_num_seqs,
        }
        for name, value in now.items():
            least, most = LIMITS_OF_KNOBS[name]
            for other in (value // 2, value * 2):
                if least <= other <= most:
                    asked = {**now, name: other}
                    made = rebuilt(answer, pool, *asked.values())
                    yield Knob(f"{at}{name} {value} → {other}", p, made, router)
        yield from _kinds(answer, p, pool, at)


def _kinds(answer: Answer, p: int, pool: PoolChoice, at: str) -> Iterator[Knob]:
    """Yield another router, and another order of admission where that makes a difference."""
    build, router = pool.template.build, answer.problem.policies.router
    if pool.units > 1:
        other: Routing = "round_robin" if router == "least_outstanding" else "least_outstanding"
        blind = build
        if build.cache is not None and router == "prefix_affinity":
            blind = replace(build, cache=replace(build.cache, affinity_slack=None))
        yield Knob(f"{at}router {router} → {other}", p, blind, other)
    priorities = answer.problem.priorities
    served = {priorities[w] for w in pool.template.serves}
    wait = any(
        isinstance(answer.problem.demands[w].arrivals, UserArrivals) for w in pool.template.serves
    )
    if len(served) > 1 and not wait and COMPILED:
        turned = replace(build, priority=priorities if build.priority is None else None)
        words = f"{build.scheduling_policy} → {turned.scheduling_policy}"
        yield Knob(f"{at}scheduling_policy {words}", p, turned, router)


def knob_effects(bench: Bench, over: Callable[[], bool]) -> tuple[SettingEffect, ...]:
    """Simulate every knob; fewer where the time is over."""
    found = []
    for knob in knobs_of(bench.answer, bench.fleet):
        if over():
            break
        if isinstance(knob.build, str):
            found.append(
                SettingEffect(change=knob.change, pools=bench.pools({}), impossible=knob.build)
            )
        else:
            found.append(bench.effect(knob.change, {knob.pool: (knob.build, knob.router)}))
    return tuple(found)


def with_needs(
    bench: Bench, effect: SettingEffect, changes: Changes, over: Callable[[], bool]
) -> SettingEffect:
    """Add how many accelerators keep every promise under some settings, and what they cost."""
    pools = tuple(
        replace(pool, template=replace(pool.template, build=changes[p][0]))
        if p in changes
        else pool
        for p, pool in enumerate(bench.fleet.pools)
    )
    fleet = replace(bench.fleet, pools=pools)
    try:
        needed = units_needed(bench.answer.study, fleet, bench.router, bench.size, over)
    except LimitReachedError:
        needed = None
    if needed is None:
        return effect
    builds = [pool.template.build for pool in pools]
    return effect.model_copy(
        update={
            "accelerators": sum(n * b.accelerators for n, b in zip(needed, builds, strict=True)),
            "usd_per_hour": sum(n * b.usd_per_hour for n, b in zip(needed, builds, strict=True)),
        }
    )


def defaults_of(bench: Bench) -> tuple[Changes, str, EngineDefaults | None]:
    """Return what the engine's defaults change, or why they cannot be had, and their source."""
    changes: Changes = {}
    found: EngineDefaults | None = None
    for p, pool in enumerate(bench.fleet.pools):
        build = pool.template.build
        own = engine_defaults(build.engine, build.curve.accelerator)
        if build.group is not None or own is None:
            continue
        found = own
        made = rebuilt(bench.answer, pool, own.max_num_batched_tokens, own.max_num_seqs)
        if isinstance(made, str):
            return {}, f"{pool.template.id}: {made}", found
        changes[p] = (replace(made, priority=None), bench.router)
    return changes, "", found
