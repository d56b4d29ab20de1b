"""Questions about the catalogue with many templates, small enough to measure them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from planner.candidates.enumerate import enumerate_builds
from planner.candidates.serve import templates_of
from planner.catalogue import Catalogue
from planner.planning.clock import Clock
from planner.planning.column_prices import columns_of
from planner.planning.pricing import Pricing
from planner.planning.study import study_of
from planner.planning.teller import Teller
from planner.problem.resolve import resolve
from planner.scenario.load import load_scenario
from planner.simulation.effort import Effort, RunSize

if TYPE_CHECKING:
    from pathlib import Path

    from planner.problem.resolve import Problem
    from planner.simulation.fleet import Study

SMALL = Effort(8_000, RunSize(12_000, 3, 800), RunSize(12_000, 4, 2_000), 24_000, 20_000, 12)
"""Little, the same for what is enumerated and what is priced."""

SMALL_LLM, LARGE = "llama-3.1-8b", "llama-3.1-70b"
CHAT = ("chat", "{mean: 900 tokens, cv: 1}", "{mean: 200 tokens, cv: 0.8}")
CODE = ("code", "{mean: 2500 tokens, cv: 0.8}", "{mean: 120 tokens, cv: 0.7}")
DOCS = ("docs", "{mean: 5000 tokens, cv: 0.6}", "{mean: 350 tokens, cv: 0.5}")


def workload(kind: tuple[str, str, str], model: str, rate: float, slo: str) -> str:
    name, prompt, output = kind
    precisions = "[bf16]" if model == SMALL_LLM else "[bf16, fp8]"
    return (
        f"  - id: {name}\n    model: {model}\n    precisions: {precisions}\n"
        f"    arrivals: {{poisson: {rate} req/s}}\n"
        f"    lengths:\n      prompt: {{lognormal: {prompt}}}\n"
        f"      output: {{lognormal: {output}}}\n"
        f"    slo: {{{slo}}}\n"
    )


def scenario(
    workloads: list[str],
    accelerators: dict[str, float],
    *,
    tp: str,
    budgets: str = "[2048, 8192]",
    seqs: str = "[64, 128, 256]",
    stock: dict[str, int] | None = None,
    more: str = "",
) -> str:
    lines = "".join(
        f"  - {{id: {g}, price: {usd} USD/h"
        + (f", stock: {stock[g]}" if stock and g in stock else "")
        + "}\n"
        for g, usd in accelerators.items()
    )
    return (
        'format_version: "1.0"\nname: Columns\nworkloads:\n'
        + "".join(workloads)
        + f"accelerators:\n{lines}"
        + f"policies:\n  tp_degrees: {tp}\n  max_num_batched_tokens: {budgets}\n"
        + f"  max_num_seqs: {seqs}\n{more}"
    )


class Question(NamedTuple):
    problem: Problem
    study: Study
    pricing: Pricing


def question(text: str, folder: Path, effort: Effort = SMALL) -> Question:
    """Return a problem, and all its templates ready to be priced."""
    path = folder / "scenario.yaml"
    path.write_text(text)
    catalogue = Catalogue()
    problem = resolve(load_scenario(path), catalogue)
    study = study_of(problem)
    builds, _ = enumerate_builds(problem, catalogue)
    groups, _ = templates_of(problem, study, builds)
    columns, _ = columns_of(study, groups, [d.slo.tpot for d in problem.demands])
    clock = Clock(3600.0)
    return Question(problem, study, Pricing(problem, study, effort, clock, Teller(None), columns))
