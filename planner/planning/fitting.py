"""Fleets that have a place: what a placement showed returns to the program as rows.

The program counts accelerators and knows no nodes. A fleet that it chooses is tried on the nodes;
where it is proven to have no place there, a row that it breaks, and that every fleet keeps which
has one, joins the question, and the program is solved again. Every row takes a fleet away and
stock bounds how many there are, so that ends: with a fleet that has a place, or with none, and the
rows then say why.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from planner.candidates.regions import regions_of
from planner.errors import InfeasibleError, LimitReachedError
from planner.fleet import Decision, Infeasibility
from planner.milp import choose
from planner.milp.fit import Fit, FitRow
from planner.planning.group_pools import wanted_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planner.candidates.frontier import Frontier
    from planner.candidates.template import Build
    from planner.milp import Shortfall
    from planner.planning.fleet import Fleet
    from planner.planning.refine import Refined
    from planner.problem.resolve import Problem
    from planner.topology import Part

ASKING_S = 5.0
"""Time of the solve that says what the cheapest fleet without nodes would have cost."""


def fits_of(problem: Problem, frontiers: Mapping[str, Frontier]) -> tuple[Fit, ...]:
    """Return the rows of the question's cuts over templates."""
    units = {
        j: (
            tuple(_parts(f.template.build)),
            _group(j, f),
            regions_of(problem, f.template.serves),
        )
        for j, f in frontiers.items()
    }
    return tuple(
        Fit(
            f"cut{c}",
            tuple(
                FitRow(
                    {j: a for j, unit in units.items() if (a := bound.weight_of(*unit))},
                    bound.most,
                    bound.reach,
                )
                for bound in cut.any_of
            ),
        )
        for c, cut in enumerate(problem.cuts, start=1)
    )


def _parts(build: Build) -> Iterator[Part]:
    if build.group is None:
        yield build.accelerator, build.devices_per_replica, 1
        return
    for side, n in build.group.sides:
        yield side.accelerator, side.devices_per_replica, n


def _group(j: str, frontier: Frontier) -> str | None:
    return j if frontier.template.build.group is not None else None


def with_cuts(problem: Problem, fleet: Fleet) -> Problem | None:
    """Return the question with the rows that a fleet without a place breaks.

    Returns:
        None where the fleet has a place, or where nothing is proven of it.
    """
    if problem.topology is None:
        return None
    from planner.placement import refusal  # the solver takes a second to load

    refused = refusal(problem.topology, wanted_of(fleet, problem), seed=problem.seed)
    fresh = tuple(c for c in refused.cuts if c not in problem.cuts) if refused is not None else ()
    return replace(problem, cuts=(*problem.cuts, *fresh)) if fresh else None


def what_places_cost(problem: Problem, refined: Refined, fleet: Fleet) -> tuple[Decision, ...]:
    """Say which fleet the program would have chosen if replicas could stand anywhere."""
    if not problem.cuts:
        return ()
    from planner.planning.program import fleet_of_choice, instance_of

    anywhere = replace(problem, cuts=())
    try:
        choice = choose(
            instance_of(anywhere, refined.frontiers),
            problem.objective,
            time_limit_s=ASKING_S,
            gap=problem.gap,
            seed=problem.seed,
            solver=problem.solver,
        )
    except (InfeasibleError, LimitReachedError):
        return ()
    first = fleet_of_choice(anywhere, refined.frontiers, choice)
    told = " + ".join(f"{p.units} x {p.template.id}" for p in first.pools)
    return (
        Decision(
            question="what if replicas could stand anywhere?",
            answer=f"{told} for {first.usd_per_hour:,.2f} USD/h has no place on these nodes",
            because="; ".join(dict.fromkeys(cut.reason for cut in problem.cuts)),
            numbers={
                "usd_per_hour_without_nodes": first.usd_per_hour,
                "usd_per_hour": fleet.usd_per_hour,
                "difference_usd_per_hour": fleet.usd_per_hour - first.usd_per_hour,
                "rows_from_placement": float(len(problem.cuts)),
            },
        ),
    )


def why_no_room(problem: Problem, accelerator: str) -> str:
    """Return what the nodes of an accelerator had no room for, in brackets; empty if nothing."""
    reasons = (c.reason for c in problem.cuts if c.any_of[0].accelerator == accelerator)
    return next((f" ({reason})" for reason in reasons), "")


def no_room(problem: Problem, short: Shortfall, how: str) -> Infeasibility:
    """Say what the nodes have no room for, and for how much they would need it.

    Args:
        problem: Has the cuts.
        short: A row of :func:`fits_of` that must give way.
        how: Whether that is enough.
    """
    name, i = short.index[:2]
    cut = problem.cuts[int(name.removeprefix("cut")) - 1]
    bound = cut.any_of[int(i) - 1]
    needs = math.ceil(short.needs - 1e-6)
    where = f" in {' or '.join(sorted(bound.regions))}" if bound.regions else ""
    each = all(size == weight for size, weight in bound.weights)
    plain = len({weight for _, weight in bound.weights}) == 1
    if bound.group is not None:
        what, name = f"groups {bound.group}", f"room for groups {bound.group}"
    elif each:
        what, name = (
            f"devices of {bound.accelerator}{where}",
            f"devices of {bound.accelerator}{where}",
        )
    elif plain:
        size = min(size for size, weight in bound.weights if weight)
        what = f"replicas of {size} devices of {bound.accelerator} or more{where}"
        name = f"room for {size} devices of {bound.accelerator} in one scale-up domain"
    else:
        weights = ", ".join(f"{weight} from {size} devices" for size, weight in bound.weights)
        what = f"replicas of {bound.accelerator} by weight ({weights})"
        name = f"room for replicas of {bound.accelerator} beside each other"
    return Infeasibility(
        limit=name,
        has=f"at most {bound.most} {what}",
        needs=f"{needs} of them",
        fastest_reachable=cut.reason,
        remedy=f"nodes with room for {needs} of them, or smaller degrees, {how}",
    )
