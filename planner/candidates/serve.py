"""Which workloads a build may serve: templates, and why some are none.

A build that no request can use within its deadlines, even alone in it, is useless in any
number: that is physics, and more replicas do not help.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from planner.candidates.number_formats import accepts, suits
from planner.candidates.physics import Reachable, lengths_of, reachable
from planner.candidates.regions import regions_of, stands_in
from planner.candidates.template import Build, Removed, Template
from planner.kernels.engine import COMPILED
from planner.problem.arrivals import UserArrivals
from planner.simulation.lengths import longest_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from planner.problem.resolve import Problem
    from planner.simulation.fleet import Study


@dataclass(frozen=True, slots=True)
class Barrier:
    """Why a build cannot serve a workload in any number."""

    build: Build
    workload: int
    kind: str
    """``context``, ``memory`` or ``deadline``."""
    reached: Reachable | None
    removed: Removed


def longest_requests(problem: Problem) -> tuple[int, ...]:
    """Return the longest request of each workload, in tokens; at most its model's context."""
    return tuple(min(longest_request(d.lengths), d.llm.max_context) for d in problem.demands)


def templates_of(
    problem: Problem,
    study: Study,
    builds: list[Build],
    check: Callable[[], None] = lambda: None,
) -> tuple[dict[tuple[int, ...], list[Template]], list[Barrier]]:
    """Pair builds with the workloads that they can serve.

    A build serves each of its workloads alone, and all of its model's workloads that it can
    serve together, as far as the scenario's ``sharing`` allows. Long prompts that were split from
    the rest of their workload stay alone.

    Args:
        problem: The question.
        study: Draws, deadlines and promises of the problem.
        builds: What can be built.
        check: Called before each build; raises where the time is over.

    Returns:
        Templates by the workloads they serve, and what stands in the way of the rest.
    """
    longest = longest_requests(problem)
    templates: dict[tuple[int, ...], list[Template]] = {}
    barriers: list[Barrier] = []
    for build in builds:
        check()
        able = []
        for w, demand in enumerate(problem.demands):
            if not accepts(demand, build) or not stands_in(problem, build, demand.regions):
                continue
            barrier = (
                _beyond_context(problem, study, build, w)
                or _too_long(problem, build, w, longest[w])
                or _too_slow(problem, study, build, w)
            )
            if barrier is None:
                able.append(w)
            else:
                barriers.append(barrier)
        for serves in _groups(problem, build, able):
            if not suits(problem.demands, build, serves):
                continue
            templates.setdefault(serves, []).extend(
                _template(problem, one, serves) for one in _scheduled(problem, build, serves)
            )
    return templates, barriers


def _groups(problem: Problem, build: Build, able: list[int]) -> Iterator[tuple[int, ...]]:
    """Yield the sets of workloads that replicas of a build may serve."""
    sharing = problem.policies.sharing
    rivals = [
        w
        for w, d in enumerate(problem.demands)
        if accepts(d, build) and stands_in(problem, build, d.regions)
    ]
    if sharing == "shared" and len(rivals) > 1:
        for asked in _where_alike(problem, build, rivals):
            if set(asked) <= set(able):
                yield asked
        return
    for w in able:
        yield (w,)
    apart = {part for whole in problem.wholes for part in whole.parts[1:]}
    together = tuple(w for w in able if w not in apart)
    for alike in _where_alike(problem, build, together) if sharing == "search" else ():
        if len(alike) > 1:
            yield alike


def _where_alike(
    problem: Problem, build: Build, workloads: Sequence[int]
) -> Iterator[tuple[int, ...]]:
    """Yield workloads that one replica may serve: all where they share a region, else by region."""
    if stands_in(problem, build, regions_of(problem, workloads)):
        yield tuple(workloads)
        return
    alike: dict[frozenset[str] | None, list[int]] = {}
    for w in workloads:
        alike.setdefault(problem.demands[w].regions, []).append(w)
    yield from map(tuple, alike.values())


def _scheduled(problem: Problem, build: Build, serves: tuple[int, ...]) -> Iterator[Build]:
    """Yield a build under each scheduling policy that makes a difference to whom it serves.

    Without a compiler priority is simulated some hundred times slower than the rest, so it is
    then not searched unless it is asked for alone. Users who wait for their answers are simulated
    first come, first served only.
    """
    wait = any(isinstance(problem.demands[w].arrivals, UserArrivals) for w in serves)
    differs = len({problem.priorities[w] for w in serves}) > 1 and not wait
    policies = problem.policies.scheduling_policy
    if not COMPILED and "fcfs" in policies:
        policies = ("fcfs",)
    if "fcfs" in policies or not differs:
        yield build
    if "priority" in policies and differs:
        yield replace(build, priority=problem.priorities)


def _template(problem: Problem, build: Build, serves: tuple[int, ...]) -> Template:
    mix = tuple(d.rate_rps if w in serves else 0.0 for w, d in enumerate(problem.demands))
    return Template(build, serves, mix, ":".join(problem.demands[w].id for w in serves))


def _beyond_context(problem: Problem, study: Study, build: Build, w: int) -> Barrier | None:
    """Tell whether the model itself refuses too many requests for the promise, for their length."""
    demand = problem.demands[w]
    only = tuple(float(v == w) for v in range(len(problem.demands)))
    draw = study.draws.get(only, 4_000, 0, 0)
    within = float((draw.prompt + draw.output <= demand.llm.max_context).mean())
    if within >= demand.slo.attainment:
        return None
    why = (
        f"only {within:.1%} of {demand.id} fit in the context of {demand.llm.id}"
        f" ({demand.llm.max_context:,} tokens, prompt and output); {demand.slo.attainment:.1%}"
        " promised"
    )
    numbers = {"within_context": within, "max_context_tokens": float(demand.llm.max_context)}
    name = f"{build.id}@{demand.id}"
    return Barrier(build, w, "context", None, Removed(name, why, numbers))


def _too_long(problem: Problem, build: Build, w: int, longest: int) -> Barrier | None:
    if build.kv_tokens >= longest:
        return None
    why = (
        f"the longest request of {problem.demands[w].id} ({longest:,} tokens) does not fit; the"
        f" KV cache holds {build.kv_tokens:,} tokens. More tensor parallelism, fewer"
        " max_num_batched_tokens or a higher memory_utilisation make room"
    )
    numbers = {"kv_tokens": float(build.kv_tokens), "longest_request_tokens": float(longest)}
    name = f"{build.id}@{problem.demands[w].id}"
    return Barrier(build, w, "memory", None, Removed(name, why, numbers))


def _too_slow(problem: Problem, study: Study, build: Build, w: int) -> Barrier | None:
    demand = problem.demands[w]
    only = tuple(1.0 if v == w else 0.0 for v in range(len(problem.demands)))
    prompt, output, computed = lengths_of(study, build, only)
    slo = demand.slo
    ttft_s = study.deadlines.ttft_limit_ps(np.full(prompt.size, w, np.int32), prompt)
    ttft_by = ttft_s.astype(np.float64) * 1e-12
    limits_s = (ttft_by, slo.tpot, slo.e2e or np.inf, slo.max_itl or np.inf)
    found = reachable(build, computed, output, limits_s, slo.attainment)
    if found.attainment >= slo.attainment:
        return None
    slow = []
    if found.ttft_at_promise_s > slo.ttft:
        slow.append(f"TTFT {found.ttft_at_promise_s * 1e3:.0f} ms against {slo.ttft * 1e3:.0f} ms")
    if found.tpot_at_promise_s > slo.tpot:
        slow.append(f"TPOT {found.tpot_at_promise_s * 1e3:.1f} ms against {slo.tpot * 1e3:.1f} ms")
    if slo.max_itl is not None and found.max_itl_at_promise_s > slo.max_itl:
        gap_ms = found.max_itl_at_promise_s * 1e3
        slow.append(f"between two tokens {gap_ms:.1f} ms against {slo.max_itl * 1e3:.1f} ms")
    why = (
        f"even in an empty replica only {found.attainment:.1%} of {demand.id} meet all deadlines"
        f" ({slo.attainment:.1%} promised{'; ' if slow else ''}{', '.join(slow)}); more replicas"
        " cannot help"
    )
    numbers = {
        "attainment_when_empty": found.attainment,
        "ttft_s_at_promise": found.ttft_at_promise_s,
        "tpot_s_at_promise": found.tpot_at_promise_s,
        "max_itl_s_at_promise": found.max_itl_at_promise_s,
    }
    return Barrier(build, w, "deadline", found, Removed(f"{build.id}@{demand.id}", why, numbers))
