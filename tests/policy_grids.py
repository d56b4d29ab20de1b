"""Every setting of one kind of replica measured, beside a climb over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from planner.candidates.enumerate import enumerate_builds
from planner.candidates.frontier import setup_of
from planner.candidates.policy_search import Setting, search
from planner.candidates.serve import templates_of
from planner.catalogue import Catalogue
from planner.planning.policy_search import UnitGround
from planner.planning.study import study_of
from planner.problem.resolve import resolve
from planner.scenario.load import load_scenario
from planner.simulation.capacity import pool_capacity

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from planner.simulation.effort import Effort

START = Setting(2048, 256)
POOL = 4
"""Replicas of the pool in which all are measured."""


class Compared(NamedTuple):
    """A climb against a grid; requests that each simulated."""

    settings: int
    looked_at: int
    best: Setting
    chosen: Setting
    lost: float
    """By which share the chosen setting carries less than the best of the grid."""
    grid_requests: int
    climb_requests: int


def scenario(
    slo: str,
    lengths: str,
    *,
    model: str = "llama-3.1-8b",
    accelerator: str = "h100-sxm",
    tp: int = 1,
    arrivals: str = "poisson: 40 req/s",
    more: str = "",
) -> str:
    """Return a scenario of one workload and one kind of replica."""
    precision = "fp8" if "70b" in model else "bf16"
    return (
        'format_version: "1.0"\nname: Grid\nworkloads:\n'
        f"  - id: chat\n    model: {model}\n    precisions: [{precision}]\n"
        f"    arrivals: {{{arrivals}}}\n    lengths: {{{lengths}}}\n    slo: {{{slo}}}\n{more}"
        f"accelerators: [{{id: {accelerator}, price: 3 USD/h}}]\n"
        f"policies: {{tp_degrees: [{tp}], max_num_batched_tokens: [{START[0]}],"
        f" max_num_seqs: [{START[1]}], scheduling_policy: [fcfs]}}\n"
    )


def compare(
    text: str, folder: Path, effort: Effort, budgets: Sequence[int], seats: Sequence[int]
) -> Compared:
    """Climb, then measure every setting of a grid on other draws."""
    path = folder / "grid.yaml"
    path.write_text(text)
    catalogue = Catalogue()
    problem = resolve(load_scenario(path), catalogue)
    study = study_of(problem)
    builds, _ = enumerate_builds(problem, catalogue)
    groups, _ = templates_of(problem, study, builds)
    (template,) = groups[max(groups, key=len)]
    ground = UnitGround(problem, study, effort, template, lambda: None)
    ground.size = POOL
    found = search(ground, [START])
    assert found is not None
    climb_requests = study.meter.requests
    chosen = found.best
    grid = [Setting(b, s) for b in budgets for s in seats if s <= b]
    rates = {}
    for setting in dict.fromkeys([*grid, chosen]):
        guess = ground.bound(setting)
        if guess <= 0:
            continue
        setup = setup_of(ground.at(setting).build, POOL, problem.policies.router)
        before = study.meter.requests
        near = min(guess, found.load_rps)
        rates[setting] = pool_capacity(study, setup, template.mix_rps, near * POOL, effort).value
        if setting not in grid:  # the climb may leave the grid; that costs the grid nothing
            study.meter.requests = before
    grid_requests = study.meter.requests - climb_requests
    best = max((s for s in rates if s in grid), key=lambda s: rates[s])
    lost = 1 - rates[chosen] / rates[best]
    return Compared(len(grid), len(found.looks), best, chosen, lost, grid_requests, climb_requests)
