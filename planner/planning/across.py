"""What replicas over several scale-up domains would cost, where the scenario allows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.candidates.across import lies_across
from planner.fleet import Decision
from planner.planning.variants import cost_of_only

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.candidates.template import Build, Removed
    from planner.planning.fleet import Fleet
    from planner.planning.refine import Refined
    from planner.problem.resolve import Problem


def crosses(problem: Problem, build: Build) -> bool:
    """Tell whether the tensor-parallel groups of a build lie over several scale-up domains."""
    if problem.topology is None or build.group is not None:
        return False
    layout = build.curve.layout
    group = layout.devices // layout.pp_degree
    return lies_across(problem.topology, build.accelerator, group)


def one_domain_or_several(
    problem: Problem, refined: Refined, fleet: Fleet, left_out: Sequence[Removed]
) -> tuple[Decision, ...]:
    """Say what fleets of either kind would cost; nothing where replicas may not cross.

    Args:
        problem: The question.
        refined: Has the templates that were measured.
        fleet: Of the plan.
        left_out: Templates that were not, with their reasons.
    """
    topology = problem.topology
    if topology is None or not topology.tp_may_cross:
        return ()
    over = {j: f for j, f in refined.frontiers.items() if crosses(problem, f.template.build)}
    within = {j: f for j, f in refined.frontiers.items() if j not in over}
    used = [p.template.id for p in fleet.pools if crosses(problem, p.template.build)]
    numbers = {"usd_per_hour": fleet.usd_per_hour}
    words = []
    for kind, name, those in (
        ("over several", "over_several_domains", over),
        ("within one", "within_one_domain", within),
    ):
        cost = cost_of_only(problem, those)
        if cost is not None:
            numbers[f"usd_per_hour_{name}"] = cost
            words.append(f"replicas {kind} cost {cost:,.2f} USD/h")
        elif those:
            words.append(f"replicas {kind} serve it in no number that these nodes hold")
        elif kind == "over several":
            why = next((r for r in left_out if _is_over(problem, r.name)), None)
            if why is None:
                return ()
            words.append(f"{why.name}: {why.reason}")
    slower = next((f.template.build.curve.source for f in over.values()), "")
    because = "; ".join([*words, *([f"steps by {slower}"] if slower else [])])
    return (
        Decision(
            question="a replica within one scale-up domain or over several",
            answer=" and ".join(used) if used else "within one",
            because=because,
            numbers=numbers,
        ),
    )


def _is_over(problem: Problem, name: str) -> bool:
    """Tell from its name whether a template that was left out would lie over several."""
    accelerator, _, rest = name.partition(".tp")
    degree = rest.partition(".")[0]
    known = any(s.accelerator.id == accelerator for s in problem.supplies)
    return known and degree.isdigit() and lies_across(problem.topology, accelerator, int(degree))
