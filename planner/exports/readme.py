"""The page that lies beside what was exported: what, in which order, what to watch, how to test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.exports.facts import file_name, plain
from planner.exports.load_test import load_tests

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.exports.options import ExportOptions
    from planner.fleet import FleetPlan


def readme(plan: FleetPlan, targets: Sequence[str], options: ExportOptions) -> str:
    """Write the page as Markdown."""
    return "\n".join(_lines(plan, targets, options)).rstrip() + "\n"


def _lines(plan: FleetPlan, targets: Sequence[str], options: ExportOptions) -> Iterator[str]:
    totals = plan.totals
    name = plain(str(plan.scenario.document.get("name", "plan")))
    yield f"# {name}\n"
    if totals is not None:
        yield (
            f"{totals.accelerators} accelerators for {totals.cost_usd_per_hour:.4g} USD/h serve"
            f" {totals.goodput_rps:.4g} of {totals.offered_rps:.4g} req/s within all deadlines, by"
            f" simulation. Status of the plan: {plan.status}, seed {plan.seed}.\n"
        )
    yield "| pool | role | replicas | accelerators each | weights | file |"
    yield "| --- | --- | ---: | --- | --- | --- |"
    for pool in plan.pools:
        each = f"{pool.tp_degree * pool.pp_degree * pool.dp_degree} {plain(pool.accelerator)}"
        yield (
            f"| {plain(pool.id)} | {pool.role} | {pool.replicas} | {each} |"
            f" {plain(pool.model)}, {plain(pool.precision)} | {file_name(pool.id)}.yaml |"
        )
    yield "\n## In which order\n"
    steps = [
        "Weights: in the precision of the table; another one has other step times.",
        "Decode pools before prefill pools, then pools that do both."
        if any(pool.role != "colocated" for pool in plan.pools)
        else "Pools in any order.",
    ]
    if "vllm" in targets:
        steps.append("`vllm/`: on every replica `vllm serve --config FILE`, as often as it says.")
    if "lws" in targets:
        steps.append("`lws/`: `kubectl apply -f lws/`; the LeaderWorkerSet controller is needed.")
    routers = sorted({plain(pool.router) for pool in plan.pools})
    steps += [
        f"A front door that routes by {', '.join(routers)}, with the shares below.",
        "The load test at the end, before users come.",
    ]
    yield from (f"{i}. {step}" for i, step in enumerate(steps, start=1))
    yield "\n## Who goes where\n"
    for result in plan.workloads:
        shares = ", ".join(f"{100 * r.share:.4g} % to {plain(r.pool)}" for r in result.routing)
        yield f"- {plain(result.id)}, {result.offered_rps:.4g} req/s: {shares}"
    yield "\n## What to watch\n"
    for point in plan.evidence.breaks_at:
        if point.kept_at is not None and point.broken_at is not None:
            yield (
                f"- {plain(point.workload)}: its promise breaks at {point.broken_at:g} times the"
                f" planned demand, by {(point.cause or 'none').replace('_', ' ')} first"
            )
    yield "- waiting and running requests per replica, preemptions, use of the KV cache"
    yield "- any pool's share of the requests against the table above"
    yield "\n## The load test that confirms it\n"
    yield from load_tests(plan, options)
