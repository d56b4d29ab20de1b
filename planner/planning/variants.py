"""Templates that differ in number formats, and what a fleet of one kind alone would cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.errors import InfeasibleError, LimitReachedError
from planner.fleet import Decision
from planner.milp import choose
from planner.planning.curve_notes import speculation_note
from planner.planning.program import instance_of

if TYPE_CHECKING:
    from collections.abc import Callable

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
    """Say what each choice of number formats, and of drafting, would cost alone."""
    return (
        *_alone(problem, refined, shown, "which number formats of weights and KV cache", _formats),
        *_does_drafting_pay(problem, refined, shown),
    )


def _alone(
    problem: Problem,
    refined: Refined,
    shown: Verified,
    question: str,
    kind_of: Callable[[Build], str],
    more: str = "",
) -> tuple[Decision, ...]:
    """Say what fleets of one kind of template alone would cost, where several were measured."""
    frontiers = refined.frontiers
    kinds = dict.fromkeys(kind_of(f.template.build) for f in frontiers.values())
    if len(kinds) < 2 or len({f.template.build.model for f in frontiers.values()}) > 1:
        return ()
    cost = shown.fleet.usd_per_hour
    used = list(dict.fromkeys(kind_of(p.template.build) for p in shown.fleet.pools))
    numbers, words = {"usd_per_hour": cost}, []
    for kind in sorted(kinds):
        if used == [kind]:
            continue
        only = {j: f for j, f in frontiers.items() if kind_of(f.template.build) == kind}
        alone = cost_of_only(problem, only)
        if alone is None:
            words.append(f"{kind} alone serves not everything within the limits")
        else:
            numbers[f"usd_per_hour_with_{kind.replace(' ', '_')}"] = alone
            words.append(f"{kind} alone costs {alone:.2f} USD/h ({alone / cost - 1:+.0%})")
    return (
        Decision(
            question=question,
            answer="; ".join(used),
            because="; ".join(words) + "; by measured operating points" + more,
            numbers=numbers,
        ),
    )


def _does_drafting_pay(problem: Problem, refined: Refined, shown: Verified) -> tuple[Decision, ...]:
    """Say what drafting costs and brings, and from how many sequences a step it does not pay."""
    builds = [f.template.build for f in refined.frontiers.values()]
    words = []
    for name in dict.fromkeys(b.curve.speculation.name for b in builds if b.curve.speculation):
        one = next(b for b in builds if b.curve.speculation and b.curve.speculation.name == name)
        note = speculation_note(one)
        assert note is not None
        said = ", ".join(f"{r:.2f} at {n}" for n, r in note.token_time_ratio.items())
        words.append(f"; {name} on {one.hardware}: a token takes, of its time without, {said}")
    more = "".join(words) + (" sequences (without context)" if words else "")
    return _alone(problem, refined, shown, "does speculative decoding pay", _drafting, more)


def _drafting(build: Build) -> str:
    spec = build.curve.speculation
    return "no speculative decoding" if spec is None else spec.name


def _formats(build: Build) -> str:
    return f"{build.precision} weights and {build.curve.kv_dtype} KV cache"
