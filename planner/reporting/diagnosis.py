"""A diagnosis as tables: what was met, what the misses come from, what is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.reporting.format import NONE, count, seconds, share
from planner.reporting.layout import grid, heading, lines, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from planner.attribution.diagnosis import QuantileSum, RunDiagnosis
    from planner.explanation.counterfactual import Counterfactuals

SHOWN_RUNS = 12
"""Runs of a file that are told in full; the table of all runs has every one."""


def diagnosis_tables(
    runs: Sequence[RunDiagnosis], counterfactuals: Sequence[Counterfactuals] = ()
) -> Iterator[RenderableType]:
    """Lay out a diagnosis, readable at 100 columns."""
    yield plain("Compliance of requests, all deadlines together", style="bold")
    names = list(dict.fromkeys(d.deadline for run in runs for d in run.deadlines))
    headers = ("run", ">requests", ">failed", *(f">{_deadline(n)} met" for n in names))
    yield grid((*headers, ">product", ">joint"), [_row(run, names) for run in runs])
    for run in runs[:SHOWN_RUNS]:
        yield from _run(run)
    if len(runs) > SHOWN_RUNS:
        yield plain(f"\n{len(runs) - SHOWN_RUNS} more runs; --json has all")
    for found in counterfactuals:
        yield from _counterfactuals(found)


def _deadline(name: str) -> str:
    return {"ttft": "TTFT", "tpot": "TPOT", "max_itl": "max ITL", "e2e": "E2E"}[name]


def _row(run: RunDiagnosis, names: Sequence[str]) -> list[str]:
    met: dict[str, float] = {d.deadline: d.met for d in run.deadlines}
    return [
        run.run,
        f"{run.requests:,}",
        f"{run.failed:,}",
        *(share(met.get(name)) for name in names),
        share(run.product_of_shares),
        share(run.attainment),
    ]


def _run(run: RunDiagnosis) -> Iterator[RenderableType]:
    yield heading(run.run + (f" ({run.pool})" if run.pool and run.pool != run.run else ""))
    deadlines = ", ".join(f"{_deadline(d.deadline)} {seconds(d.allowed_s)}" for d in run.deadlines)
    within = "" if run.low is None or run.high is None else f" ({_between(run.low, run.high)})"
    off = run.product_of_shares - run.attainment
    facts = [
        f"{share(run.attainment)}{within} of {count(run.requests, 'request')} meet {deadlines}",
        f"shares multiplied would give {share(run.product_of_shares)}"
        f" ({100 * off:+.1f} points); they allow {share(run.least_possible)} at least",
    ]
    facts += [_sum(q) for q in run.quantile_sums if q.level in (0.5, 0.99)]
    yield lines([*facts, *run.notes])
    if run.misses:
        rows = [[m.cause, share(m.share), share(m.of_misses)] for m in run.misses]
        yield grid(("charged to", ">of requests", ">of misses"), rows)
    stages = [
        [
            s.stage,
            s.side,
            "own" if s.own else "company",
            seconds(s.mean_s),
            seconds(s.p50_s),
            seconds(s.p99_s),
        ]
        for s in run.stages
    ]
    if stages:
        yield grid(("stage", "side", "kind", ">mean", ">p50", ">p99"), stages)
    meanings = {s.stage: s.means for s in run.stages if s.means}
    told = [f"{name}: {what}" for name, what in meanings.items()]
    told += [f"what a request takes alone is {run.unloaded}"]
    told += [f"not in the data: {what}" for what in run.missing]
    yield lines(told)


def _sum(q: QuantileSum) -> str:
    name, total = f"p{100 * q.level:g}", q.sum_of_quantiles_s
    return (
        f"{name} of {_deadline(q.of)} is {seconds(q.quantile_s)}; the {name} of its stages add up"
        f" to {seconds(total)} ({_times(total, q.quantile_s)})"
    )


def _counterfactuals(found: Counterfactuals) -> Iterator[RenderableType]:
    yield heading(f"What would have been: {found.run}, simulated on {found.template}")
    rows = [
        [
            row.change,
            f"{row.replicas:,}",
            share(row.attainment),
            NONE if row.difference is None else f"{100 * row.difference:+.1f} points",
        ]
        for row in found.rows
    ]
    yield grid(("change", ">replicas", ">attainment", ">against unchanged"), rows)
    if found.simulated_misses:
        causes = [[m.cause, share(m.share), share(m.of_misses)] for m in found.simulated_misses]
        yield grid(("the simulation charges", ">of requests", ">of misses"), causes)
    yield lines(found.notes)


def _between(low: float, high: float) -> str:
    return f"{100 * low:.1f}–{100 * high:.1f}"


def _times(value: float, of: float) -> str:
    return NONE if of <= 0 else f"{value / of:.2f} ×"
