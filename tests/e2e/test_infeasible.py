"""Whatever stands in the way is named, and what is said to mend it does, and no less does.

Each question has no answer, for one reason or for several. The changes that a plan proposes are
made with ``--set``, and one per cent less of each (one less of what is counted) as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from planner.catalogue import Catalogue
from planner.data import shipped
from planner.errors import LimitReachedError
from planner.kernels import COMPILED
from planner.planning import plan_scenario
from planner.planning.answer import first_fleet
from planner.planning.clock import Clock
from planner.planning.relaxing import with_relaxations
from planner.scenario.load import load_scenario
from planner.simulation.effort import Effort, RunSize
from planner.units import read_share

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from planner.fleet import FleetPlan, Relaxation
    from planner.scenario.load import LoadedScenario

SHORT = Effort(2_000, RunSize(6_000, 3, 1_500), RunSize(6_000, 4, 2_000), 48_000, 6_000, 4)
"""Shorter runs than a user gets; what is told is held against plans of the same effort."""

QUESTION = """
format_version: "1.0"
name: A question without an answer
workloads:
  - id: chat
    model: llama-3.1-8b
    precisions: [bf16]
    arrivals: {poisson: 40 req/s}
    lengths:
      prompt: {lognormal: {mean: 1200 tokens, cv: 1}}
      output: {lognormal: {mean: 250 tokens, cv: 0.8}}
    slo: {ttft: 500 ms, tpot: 30 ms, attainment: 0.9}
accelerators:
  - {id: h100-sxm, price: 3 USD/h}
policies: {tp_degrees: [1], max_num_seqs: [256], max_num_batched_tokens: [2048]}
objective: min_cost
"""


class Case(NamedTuple):
    """A reason for which there is no fleet."""

    settings: tuple[str, ...]
    cause: str
    """Limit that is named first."""
    levers: tuple[str, ...]
    """That must be among what would mend it."""


LARGE = ("workloads.chat.model=llama-3.1-70b", "workloads.chat.arrivals.poisson=1 req/s")
TWO = (
    "workloads=[{id: chat, model: llama-3.1-8b, precisions: [bf16], arrivals: {poisson: 5 req/s},"
    " lengths: {prompt: {fixed: 2000 tokens}, output: {fixed: 200 tokens}},"
    " slo: {ttft: 20 ms, tpot: 15 ms, attainment: 0.9}},"
    " {id: code, model: llama-3.1-8b, precisions: [bf16], arrivals: {poisson: 5 req/s},"
    " lengths: {prompt: {fixed: 500 tokens}, output: {fixed: 200 tokens}},"
    " slo: {ttft: 500 ms, tpot: 2 ms, attainment: 0.9}}]",
)
SLO, ARRIVALS = "workloads.chat.slo", "workloads.chat.arrivals.poisson"
STOCK, BUDGET = "accelerators.h100-sxm.stock", "limits.budget"
CASES = {
    "ttft": Case((f"{SLO}.ttft=16 ms", f"{SLO}.tpot=15 ms"), "chat: ttft", (f"{SLO}.ttft",)),
    "tpot": Case((f"{SLO}.tpot=3 ms",), "chat: tpot", (f"{SLO}.tpot",)),
    "e2e": Case((f"{SLO}.e2e=1 s",), "chat: all deadlines together", (f"{SLO}.e2e",)),
    "ttft by prompt": Case(
        (f"{SLO}.ttft_by_prompt=[{{up_to: 1500 tokens, ttft: 12 ms}}]",),
        "chat: all deadlines together",
        (f"{SLO}.ttft_by_prompt.0.ttft",),
    ),
    "stock": Case((f"{STOCK}=1",), "stock of h100-sxm", (STOCK, ARRIVALS)),
    "budget": Case((f"{BUDGET}=4 USD/h",), "limits.budget", (BUDGET, ARRIVALS)),
    "stocks": Case(
        (
            "accelerators=[{id: h100-sxm, price: 3 USD/h, stock: 1},"
            " {id: l40s, price: 1 USD/h, stock: 1}]",
        ),
        "stock of h100-sxm",
        (STOCK, "accelerators.l40s.stock"),
    ),
    "attainment": Case(
        (
            f"{STOCK}=2",
            f"{SLO}.attainment=99 %",
            f"{ARRIVALS}=38 req/s",
            "policies.max_num_seqs=[256]",  # of policies alike, chance tells which is found
            "policies.max_num_batched_tokens=[8192]",
        ),
        "stock of h100-sxm",
        (f"{SLO}.attainment", f"{SLO}.tpot"),
    ),
    "context": Case(
        (
            "workloads.chat.lengths.prompt.lognormal={mean: 60000 tokens, cv: 3}",
            f"{ARRIVALS}=0.2 req/s",
            f"{SLO}.ttft=60 s",
        ),
        "chat: context",
        ("workloads.chat.lengths.prompt.lognormal.mean",),
    ),
    "memory": Case(
        (
            "policies.memory_utilisation=0.35",
            "workloads.chat.lengths.prompt={fixed: 100000 tokens}",
            f"{ARRIVALS}=0.2 req/s",
            f"{SLO}.ttft=60 s",
        ),
        "chat: memory",
        ("policies.memory_utilisation", "workloads.chat.lengths.prompt.fixed"),
    ),
    "degree": Case(LARGE, "chat: llama-3.1-70b in bf16", ("policies.tp_degrees",)),
    "precision": Case(
        (*LARGE, "accelerators=[{id: h200-sxm, price: 4 USD/h}]"),
        "chat: llama-3.1-70b in bf16",
        ("workloads.chat.precisions",),
    ),
    "accelerator": Case(
        ("accelerators=[{id: l40s, price: 1 USD/h}]", f"{SLO}.tpot=15 ms"),
        "chat: tpot",
        ("accelerators", f"{SLO}.tpot"),
    ),
    "deadline and stock": Case(
        (f"{STOCK}=1", f"{SLO}.tpot=3 ms", f"{ARRIVALS}=60 req/s"),
        "chat: tpot",
        (f"{SLO}.tpot and {STOCK}",),
    ),
    "two deadlines": Case(
        TWO, "chat: ttft", ("workloads.chat.slo.ttft and workloads.code.slo.tpot",)
    ),
}


def load(folder: Path, *settings: str) -> LoadedScenario:
    file = folder / "question.yaml"
    file.write_text(QUESTION)
    return load_scenario(file, settings)


def has_fleet(plan: FleetPlan) -> bool:
    return plan.status in ("optimal", "feasible") and plan.evidence.verified


def one_per_cent_less(setting: str, short: str) -> str:
    """Write the change with one per cent less of it, on the side of a value that is not enough."""
    path, _, text = setting.partition("=")
    number, _, unit = text.partition(" ")
    value, less = float(number), float(short.partition("=")[2].partition(" ")[0])
    if path.endswith(".stock"):
        return f"{path}={int(value) - 1}"
    if path.endswith("attainment"):
        return f"{path}={1 - (1 - read_share(number)) * 0.99:.10g}"
    return f"{path}={value * (0.99 if less < value else 1.01):.10g} {unit}".strip()


def mended(loaded: LoadedScenario, settings: Sequence[str]) -> bool:
    """Tell whether a plan of the question with these changes holds a fleet."""
    brief = loaded.changed([*settings, "solver.evidence=brief"])
    return has_fleet(plan_scenario(brief, effort=SHORT))


@pytest.mark.skipif(not COMPILED, reason="hundreds of plans in plain Python take hours")
@pytest.mark.parametrize("name", CASES)
def test_what_would_mend_it_does_and_no_less_does(tmp_path, name):
    case = CASES[name]
    loaded = load(tmp_path, *case.settings)
    plan = with_relaxations(loaded, plan_scenario(loaded, effort=SHORT), effort=SHORT)
    assert plan.status == "infeasible"
    assert plan.infeasibility[0].limit == case.cause
    found: dict[str, Relaxation] = {one.lever: one for one in plan.relaxations}
    assert set(case.levers) <= set(found)
    for lever in case.levers:
        one = found[lever]
        assert mended(loaded, one.settings), one
        for position, (setting, short) in enumerate(
            zip(one.settings, one.not_enough, strict=False)
        ):
            assert not mended(loaded, short), short
            less = list(one.settings)
            less[position] = one_per_cent_less(setting, short[0])
            assert not mended(loaded, less), less


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), LimitReachedError("over")])
def test_what_was_cut_short_is_no_fleet_that_mends(stop, monkeypatch):
    """An interrupt ends the whole search for changes, not the one that is being tried."""

    def stopped(*_args, **_words):
        raise stop

    monkeypatch.setattr("planner.planning.answer.refine_priced", stopped)
    loaded = load_scenario(shipped("scenarios") / "quickstart.yaml")
    clock = Clock(loaded.scenario.solver.time_limit)
    with pytest.raises(type(stop)):
        first_fleet(loaded, Catalogue(), SHORT, clock)
