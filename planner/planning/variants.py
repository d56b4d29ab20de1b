"""Templates that differ in number formats, and what a fleet of one kind alone would cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.errors import InfeasibleError, LimitReachedError
from planner.fleet import Decision
from planner.milp import choose
from planner.planning.program import instance_of

if TYPE_CHECKING:
    from planner.candidates.frontier import Frontier
    from planner.candidates.template import Build
    from planner.planning.refine import Refined, Verified
    from planner.problem.resolve import Problem


def cost_of_only(problem: Problem, frontiers: dict[str, Frontier]) -> float | None:
    """Return the least cost, USD/h, of a fleet of some templates only; None if there is none."""
    if not frontiers:
        return None
    try:
        found = choose(instance_of(problem, frontiers), "min_cost", time_limit_s=5.0, gap=1e-3)
    except (InfeasibleError, LimitReachedError):
        return None
    return found.cost_usd_per_hour


def which_variant(problem: Problem, refined: Refined, shown: Verified) -> tuple[Decision, ...]:
    """Say what each choice of number formats would cost alone, where several were measured."""
    frontiers = refined.frontiers
    kinds = dict.fromkeys(_formats(f.template.build) for f in frontiers.values())
    if len(kinds) < 2 or len({f.template.build.model for f in frontiers.values()}) > 1:
        return ()
    cost = shown.fleet.usd_per_hour
    used = list(dict.fromkeys(_formats(p.template.build) for p in shown.fleet.pools))
    numbers, words = {"usd_per_hour": cost}, []
    for kind in sorted(kinds):
        if used == [kind]:
            continue
        only = {j: f for j, f in frontiers.items() if _formats(f.template.build) == kind}
        alone = cost_of_only(problem, only)
        if alone is None:
            words.append(f"{kind} alone serves not everything within the limits")
        else:
            numbers[f"usd_per_hour_in_{kind.replace(' ', '_')}"] = alone
            words.append(f"{kind} alone costs {alone:.2f} USD/h ({alone / cost - 1:+.0%})")
    return (
        Decision(
            question="which number formats of weights and KV cache",
            answer="; ".join(used),
            because="; ".join(words) + "; by measured operating points",
            numbers=numbers,
        ),
    )


def _formats(build: Build) -> str:
    return f"{build.precision} weights and {build.curve.kv_dtype} KV cache"
