"""What prefix caches find in the chosen fleet, and the plan at a hit rate of 0 beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.fleet import Decision, WithoutPrefixCache
from planner.kernels.engine import COMPILED
from planner.planning.fleet import Fleet
from planner.planning.results import hits_document, interval
from planner.problem.arrivals import UserArrivals
from planner.problem.prefixes import ConstantHits, can_find
from planner.simulation.capacity import VERIFYING
from planner.simulation.fleet import sample_fleet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.fleet import PrefixHits
    from planner.planning.answered import Answer
    from planner.planning.fleet import PoolChoice
    from planner.planning.refine import Verified
    from planner.problem.resolve import Problem
    from planner.simulation.fleet import FleetSample
    from planner.simulation.pool import PoolRun


@dataclass(frozen=True, slots=True)
class Cold:
    """The plan if every prompt were computed whole."""

    sample: FleetSample
    """The same fleet."""
    planned: Verified | None
    """The fleet that would be planned; None if none was found."""
    why: str
    """Why none was found; empty if one was."""


def keeps_prefixes(problem: Problem, pool: PoolChoice) -> bool:
    """Tell whether a pool keeps prefixes that requests of its workloads could find."""
    mine = [problem.demands[w] for w in pool.template.serves]
    known = any(can_find(demand.prefix) for demand in mine)
    return known and pool.template.build.cache is not None and not _has_users(problem, pool)


def _has_users(problem: Problem, pool: PoolChoice) -> bool:
    """Tell whether users of a pool wait for answers: it is then simulated without a cache."""
    return any(isinstance(problem.demands[w].arrivals, UserArrivals) for w in pool.template.serves)


def beside_users(problem: Problem, fleet: Fleet) -> Iterator[str]:
    """Say whose prefixes are not looked for, because users who wait share the replicas."""
    for pool in fleet.pools:
        if pool.template.build.cache is None or not _has_users(problem, pool):
            continue
        for w in pool.template.serves:
            if can_find(problem.demands[w].prefix):
                yield (
                    f"{problem.demands[w].id}: shares replicas with users who wait for their"
                    " answers; these are simulated without a prefix cache, every prompt computed"
                    " whole"
                )


def why_slow(problem: Problem) -> tuple[str, ...]:
    """Say what keeps a plan with prefix caches from its end, if there is no compiled simulator."""
    kept = problem.policies.prefix_caching and any(can_find(d.prefix) for d in problem.demands)
    if COMPILED or not kept:
        return ()
    return (
        "prefix caches are simulated in plain Python here, some hundred requests a second, and such"
        " a plan takes millions: install with a C++17 compiler at hand, or plan at a hit rate of 0"
        " by policies.prefix_caching=false",
    )


def without_prefixes(problem: Problem) -> Problem:
    """Return the same question with no prefix ever kept."""
    policies = problem.policies.model_copy(update={"prefix_caching": False})
    return replace(problem, policies=policies)


def cold_sample(answer: Answer, fleet: Fleet) -> FleetSample:
    """Simulate a fleet on the draws of its verification, every prompt computed whole."""
    pools = tuple(
        replace(
            pool,
            template=replace(pool.template, build=replace(pool.template.build, cache=None)),
        )
        for pool in fleet.pools
    )
    setups = Fleet(pools).for_simulation(answer.problem.policies.router)
    return sample_fleet(answer.study, setups, answer.effort.verify, stream=VERIFYING)


def hits_of(
    problem: Problem, runs: Sequence[PoolRun], serves: Sequence[int]
) -> tuple[PrefixHits, ...]:
    """Return the share of prompt tokens that a pool found, by workload.

    Args:
        problem: The question.
        runs: Every replication of the pool.
        serves: Workloads of the pool; only those of whose prefixes something is known are told.
    """
    found = []
    for w in serves:
        if problem.demands[w].prefix is None:
            continue
        prompt = sum(int(run.prompt_tokens[w]) for run in runs)
        cached = sum(int(run.cached_tokens[w]) for run in runs)
        found.append(hits_document(problem.demands[w], cached / prompt if prompt else 0.0))
    return tuple(found)


def cold_evidence(answer: Answer, cold: Cold | None) -> WithoutPrefixCache | None:
    """Write down the plan at a hit rate of 0."""
    if cold is None:
        return None
    planned = cold.planned
    asked = answer.problem.asked
    names = [whole.demand.id for whole in asked]
    attained = cold.sample.intervals([whole.parts for whole in asked])
    return WithoutPrefixCache(
        attainment={name: interval(found) for name, found in zip(names, attained, strict=True)},
        unstable=any(cold.sample.unstable()),
        usd_per_hour=None if planned is None else planned.fleet.usd_per_hour,
        goodput_rps=None if planned is None else planned.goodput_rps,
        pools=()
        if planned is None
        else tuple(f"{pool.units} x {pool.template.id}" for pool in planned.fleet.pools),
        reason=cold.why or None,
    )


def what_the_cache_is_worth(
    problem: Problem, shown: Verified, cold: Cold | None
) -> tuple[Decision, ...]:
    """Say what prefix caches save, in dollars an hour."""
    if cold is None:
        return ()
    cost = shown.fleet.usd_per_hour
    numbers = {"usd_per_hour": cost, "goodput_rps": shown.goodput_rps}
    hits = shown.judgement.sample.hit_rates()
    said = []
    for demand, rate in zip(problem.demands, hits, strict=True):
        if demand.prefix is not None:
            numbers[f"hit_rate_{demand.id}"] = rate
            assumed = " (assumed)" if isinstance(demand.prefix, ConstantHits) else ""
            said.append(f"{rate:.1%} of the prompt tokens of {demand.id} are found{assumed}")
    if cold.planned is None:
        answer = "no plan stands without it"
        said.append(f"at a hit rate of 0 {cold.why}")
    else:
        other = cold.planned
        worth = other.fleet.usd_per_hour - cost
        numbers |= {
            "usd_per_hour_without": other.fleet.usd_per_hour,
            "goodput_rps_without": other.goodput_rps,
            "usd_per_hour_saved": worth,
        }
        answer = f"{worth:.2f} USD/h"
        said.append(
            f"planned at a hit rate of 0 the fleet costs {other.fleet.usd_per_hour:.2f} USD/h"
            f" instead of {cost:.2f} ({other.fleet.usd_per_hour / cost - 1:+.0%})"
            + (", both without units for work that waits" if problem.deferred else "")
        )
    return (
        Decision(
            question="what is the prefix cache worth",
            answer=answer,
            because="; ".join(said),
            numbers=numbers,
        ),
    )
