"""Measured requests held against a plan: whether its promise held, and what differed from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, cast

import numpy as np
from scipy.special import ndtri

from planner.attribution.diagnosis import FEWEST, Due, compliant, joint_interval
from planner.errors import InputError, nearest
from planner.fleet import Interval, Verdict
from planner.measurements.staged import SPANS
from planner.planning.lengths_sweep import Scaled
from planner.planning.replay import fleet_in
from planner.planning.study import effort_for, study_of
from planner.simulation.effort import RunSize
from planner.simulation.fleet import sample_fleet
from planner.simulation.interval import t_interval
from planner.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from planner.fleet import FleetPlan, WorkloadResult
    from planner.measurements.staged import StagedRun
    from planner.planning.fleet import Fleet
    from planner.problem.resolve import Demand, Problem
    from planner.simulation.draw import Draws

    Floats = NDArray[np.float64]

CONFIRMING: Final = 11
"""Purpose of the random draws."""
BATCHES: Final = 10
"""In order of arrival: requests near each other are late together."""
REQUESTS: Final = 60_000
REPLICATIONS: Final = 3
"""Of each simulation: means of lengths and medians need fewer than verdicts do."""
EXACT: Final = 0.02
"""Relative difference below which a measured figure counts as the planned one."""

Quantity = Literal["rate", "prompt tokens", "output tokens", "time per token"]


class Difference(Spec):
    """A figure of the plan beside the measured one."""

    of: Quantity
    planned: float
    """Requests per second, mean tokens, or the median TPOT in seconds: against what the fleet would
    show at the measured rate and lengths, so that it tells of the engine and not of the demand."""
    measured: float
    ratio: Interval
    """Measured / planned with its 95 % interval."""
    differs: bool
    """The interval lies outside 1 ± 2 %."""


class Confirmation(Spec):
    """One run of a workload against its promise."""

    workload: str
    run: str
    requests: int
    failed: int
    promise: float
    planned: Interval
    """Attainment by the plan's simulation."""
    attainment: float
    """Joint: completed and within all deadlines."""
    low: float | None
    high: float | None
    """95 % interval by batch means in order of arrival; null for fewer than 1,000 requests."""
    verdict: Verdict
    requests_needed: int | None
    """About how many would decide, were attainment as seen; null where decided, or where it is
    the promise itself."""
    differences: tuple[Difference, ...]
    """The largest that is no chance first."""
    missing: tuple[str, ...]
    """What the data do not tell, so that it was not compared."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """Requests of one run of the whole fleet, in order of arrival."""

    name: str
    joint: NDArray[np.bool_]
    completed: NDArray[np.bool_]
    start_s: Floats
    prompt: Floats
    output: Floats
    tpot_s: Floats
    interval: tuple[float, float] | None


def confirm(
    plan: FleetPlan, runs: Sequence[StagedRun], workload: str | None, folder: Path
) -> tuple[Confirmation, ...]:
    """Hold measured requests against a plan.

    Spans of several pools are one run of the fleet, as long as all of them tell of requests; the
    runs of a benchmark are judged one by one.

    Args:
        plan: A plan with pools.
        runs: Requests that were served.
        workload: Whose requests they are; the plan's only one if left out.
        folder: Where files that the scenario names by a relative path lie.

    Raises:
        InputError: The workload is not known, the plan cannot be rebuilt, or the data do not tell
            what a deadline is about.
    """
    results = {result.id: result for result in plan.workloads}
    if workload is None and len(results) > 1:
        raise InputError(
            f"--workload: the plan has {len(results)}: {', '.join(results)}; name the one that was"
            " measured"
        )
    name = workload or next(iter(results), "")
    if name not in results:
        raise InputError(f"--workload {name}: {nearest(name, results)}")
    problem, fleet = fleet_in(plan, None, folder)
    w = next((w for w, d in enumerate(problem.demands) if d.id == name), None)
    if w is None:
        raise InputError(
            f"--workload {name}: the plan splits it by prompt length; confirm each part by name"
        )
    due = _due(plan, problem.demands[w])
    found = [_seen(group, due) for group in _together(runs)]
    longest = max(pool.max_model_len for pool in plan.pools)
    return tuple(_confirm(results[name], problem, fleet, w, seen, longest) for seen in found)


def _due(plan: FleetPlan, demand: Demand) -> Due:
    """Return the deadlines as users see them: with the way to them."""
    for given in plan.scenario.document["workloads"]:
        if given["id"] == demand.id and given["slo"].get("ttft_by_prompt"):
            raise InputError(
                f"{demand.id}: slo.ttft_by_prompt: measured requests are held against one deadline"
            )
    slo, way_s = demand.slo, demand.network_s
    return Due(
        slo.ttft + way_s, slo.tpot, slo.max_itl, None if slo.e2e is None else slo.e2e + way_s
    )


def _together(runs: Sequence[StagedRun]) -> list[list[StagedRun]]:
    pools = [run.pool for run in runs]
    if len(set(pools)) == len(pools) and all(run.format in SPANS for run in runs):
        return [list(runs)]
    return [[run] for run in runs]


def _seen(runs: Sequence[StagedRun], due: Due) -> _Seen:
    """Join the requests of a run in order of arrival, as long as every pool tells of some."""

    def column(read: Callable[[StagedRun], NDArray[np.generic]]) -> NDArray[np.generic]:
        return np.concatenate([read(run) for run in runs])

    start = cast("Floats", column(lambda run: run.records.start_s))
    known = bool(np.isfinite(start).all())
    order = np.arange(start.size)
    if known:
        order = np.argsort(start, kind="stable")
        order = order[start[order] <= min(float(run.records.start_s.max()) for run in runs)]
    joint = cast("NDArray[np.bool_]", column(lambda run: compliant(run, due)[0]))[order]
    return _Seen(
        name=runs[0].name if len(runs) == 1 else f"{len(runs)} pools together",
        joint=joint,
        completed=cast("NDArray[np.bool_]", column(lambda run: run.records.completed))[order],
        start_s=start[order] if known else np.full(order.size, np.nan),
        prompt=cast("Floats", column(lambda run: run.records.prompt_tokens))[order],
        output=cast("Floats", column(lambda run: run.records.output_tokens))[order],
        tpot_s=cast("Floats", column(lambda run: run.records.tpot_s))[order],
        interval=joint_interval(joint),
    )


def _confirm(
    result: WorkloadResult, problem: Problem, fleet: Fleet, w: int, seen: _Seen, longest: int
) -> Confirmation:
    attained = float(seen.joint.mean())
    verdict: Verdict = "undecided"
    if seen.interval is not None:
        low, high = seen.interval
        verdict = (
            "kept" if low >= result.promise else "broken" if high < result.promise else verdict
        )
    differences, missing = _differences(problem, fleet, w, seen, longest)
    return Confirmation(
        workload=result.id,
        run=seen.name,
        requests=seen.joint.size,
        failed=int((~seen.completed).sum()),
        promise=result.promise,
        planned=result.attainment,
        attainment=attained,
        low=None if seen.interval is None else seen.interval[0],
        high=None if seen.interval is None else seen.interval[1],
        verdict=verdict,
        requests_needed=None if verdict != "undecided" else _needed(attained, result.promise, seen),
        differences=tuple(
            sorted(differences, key=lambda d: (not d.differs, -abs(np.log(d.ratio.value))))
        ),
        missing=missing,
    )


def _needed(attained: float, promise: float, seen: _Seen) -> int | None:
    """Return how many requests narrow the interval to the distance from the promise.

    The width falls with the root of the number; below 1,000 requests, whose interval is not told,
    requests count as independent, and it is 1,000 at least.
    """
    distance = abs(attained - promise)
    if distance == 0:
        return None
    n = seen.joint.size
    if seen.interval is not None:
        reach = attained - seen.interval[0] if attained > promise else seen.interval[1] - attained
        return int(np.ceil(n * (reach / distance) ** 2))
    alone = float(ndtri(0.975)) ** 2 * promise * (1 - promise) / distance**2
    return max(FEWEST, int(np.ceil(alone)))


def _differences(
    problem: Problem, fleet: Fleet, w: int, seen: _Seen, longest: int
) -> tuple[list[Difference], tuple[str, ...]]:
    """Compare rate and lengths with the plan, and the time per token at those measured.

    Where a usual request would not fit into ``longest`` tokens, the fleet could not show any.
    """
    study = study_of(problem)
    pools = fleet.for_simulation(problem.policies.router)
    verify = effort_for(problem).verify
    size = RunSize(
        min(verify.requests, REQUESTS), REPLICATIONS, min(verify.per_replica, REQUESTS // 10)
    )
    offered = problem.demands[w].rate_rps
    sample = sample_fleet(study, pools, size, stream=CONFIRMING, keep=True, parts=False)
    kept = [run.latencies for pool in sample.runs for run in pool if run.latencies is not None]
    mine = [part.workload == w for part in kept]
    prompt = np.concatenate([p.prompt[m] for p, m in zip(kept, mine, strict=True)])
    output = np.concatenate([p.output[m] for p, m in zip(kept, mine, strict=True)])
    found, missing = [], ["prefix hits", "blocks of the KV cache"]
    rate = _rate(seen.start_s)
    if rate is None:
        missing.append("rate")
    else:
        found.append(_difference("rate", offered, rate))
    lengths: list[tuple[Quantity, Floats, float]] = [
        ("prompt tokens", seen.prompt, float(prompt.mean())),
        ("output tokens", seen.output, float(output.mean())),
    ]
    factors = []
    for name, values, planned in lengths:
        tokens = values[np.isfinite(values) & (values > 0)]
        if tokens.size < 2 * BATCHES:
            missing.append(name)
            factors.append(1.0)
            continue
        found.append(_difference(name, planned, _batches(tokens, np.mean)))
        factors.append(found[-1].ratio.value)
    tpot = seen.tpot_s[np.isfinite(seen.tpot_s) & (seen.tpot_s > 0)]
    usual = float(prompt.mean()) * factors[0] + float(output.mean()) * factors[1]
    if tpot.size < 2 * BATCHES or rate is None or usual > longest:
        missing.append("time per token")
        return found, tuple(missing)
    draws = cast("Draws", Scaled(study.draws, factors[0], factors[1]))
    there = sample_fleet(
        replace(study, draws=draws),
        pools,
        size,
        stream=CONFIRMING,
        multiple=rate.value / offered,
        keep=True,
        parts=False,
    )
    expected = np.concatenate(
        [
            run.latencies.tpot_s[(run.latencies.workload == w) & (run.latencies.tpot_s > 0)]
            for pool in there.runs
            for run in pool
            if run.latencies is not None
        ]
    )
    median = float(np.median(expected))
    found.append(_difference("time per token", median, _batches(tpot, np.median)))
    return found, tuple(missing)


def _rate(start_s: Floats) -> Interval | None:
    """Return requests per second: batches of arrivals by the times they took."""
    if not np.isfinite(start_s).all() or start_s.size < 2 * BATCHES:
        return None
    at = np.linspace(0, start_s.size - 1, BATCHES + 1).astype(np.int64)
    took = np.diff(start_s[at]) / np.diff(at)
    if not (took > 0).all():
        return None
    gap = t_interval(took.tolist())
    low = max(gap.low, 0.1 * gap.value)
    return Interval(value=1 / gap.value, low=1 / gap.high, high=1 / low)


def _batches(values: Floats, of: Callable[[Floats], object]) -> Interval:
    means = [float(cast("float", of(part))) for part in np.array_split(values, BATCHES)]
    found = t_interval(means)
    return Interval(value=found.value, low=found.low, high=found.high)


def _difference(of: Quantity, planned: float, measured: Interval) -> Difference:
    ratio = Interval(
        value=measured.value / planned, low=measured.low / planned, high=measured.high / planned
    )
    return Difference(
        of=of,
        planned=planned,
        measured=measured.value,
        ratio=ratio,
        differs=ratio.low > 1 + EXACT or ratio.high < 1 - EXACT,
    )
