"""From measured templates to the program's data, and from its solution to a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.milp import Instance
from planner.milp.indices import ALONE
from planner.planning.fitting import fits_of
from planner.planning.fleet import Fleet, fleet_of
from planner.planning.housing import homes_for, housed, nodes_for
from planner.planning.moves import moves_for, with_moves
from planner.planning.ways import links_for, ways_taken

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.candidates.frontier import Frontier
    from planner.milp import Choice
    from planner.problem.resolve import Problem


def instance_of(problem: Problem, frontiers: Mapping[str, Frontier]) -> Instance:
    """Write down the data of one solve: the templates measured so far and their points."""
    names = [demand.id for demand in problem.demands]
    load, goodput = {}, {}
    for j, frontier in frontiers.items():
        for o, point in enumerate(frontier.points):
            for w in frontier.template.serves:
                load[j, str(o), names[w]] = point.load_rps[w]
                goodput[j, str(o), names[w]] = min(point.goodput_rps[w], point.load_rps[w])
    builds = {j: frontier.template.build for j, frontier in frontiers.items()}
    return Instance(
        W=tuple(names),
        J=tuple(frontiers),
        G=tuple(supply.accelerator.id for supply in problem.supplies),
        O={j: tuple(str(o) for o in range(len(f.points))) for j, f in frontiers.items()},
        demand_rps={d.id: d.rate_rps for d in problem.demands},
        promise={d.id: d.slo.attainment for d in problem.demands},
        load_rps=load,
        goodput_rps=goodput,
        devices={j: build.devices[build.accelerator] for j, build in builds.items()},
        accelerator_of={j: build.accelerator for j, build in builds.items()},
        beside={
            (j, g): k
            for j, build in builds.items()
            for g, k in build.devices.items()
            if g != build.accelerator
        },
        usd_per_hour={
            j: 0.0 if problem.sites.all else build.usd_per_hour for j, build in builds.items()
        },
        stock={
            s.accelerator.id: s.stock
            for s in problem.supplies
            if s.stock is not None and not problem.sites.all
        },
        value={d.id: d.value for d in problem.demands},
        budget_usd_per_hour=problem.budget_usd_per_hour,
        D=tuple(site.id for site in problem.sites.all) or (ALONE,),
        homes=homes_for(problem),
        nodes=nodes_for(problem, {j: f.template for j, f in frontiers.items()}),
        fits=fits_of(problem, frontiers),
        moves=moves_for(problem),
        links=links_for(problem, frontiers),
    )


def fleet_of_choice(problem: Problem, frontiers: Mapping[str, Frontier], choice: Choice) -> Fleet:
    """Return the fleet that a solution describes."""
    loads = {
        j: tuple(
            sum(
                choice.weights.get((j, str(o)), 0.0) * point.load_rps[w]
                for o, point in enumerate(frontier.points)
            )
            for w in range(len(problem.demands))
        )
        for j, frontier in frontiers.items()
    }
    templates = {j: frontier.template for j, frontier in frontiers.items()}
    units = {j: choice.units.get(j, 0) for j in frontiers}
    stays = problem.sites.spare is not None or problem.moving is not None
    if stays and any(n and not sum(loads[j]) for j, n in units.items()):
        loads = shared_out(problem, frontiers, units)
    ways = ways_taken(problem, choice, frontiers)
    fleet = fleet_of(units, loads, templates, problem.rates_rps, ways)
    placed = {(j, d): n for (j, d, _), n in choice.units_in.items()}
    return with_moves(problem, housed(problem, fleet, placed))


def shared_out(
    problem: Problem, frontiers: Mapping[str, Frontier], units: Mapping[str, int]
) -> dict[str, tuple[float, ...]]:
    """Share all load out over all units, by what they can carry: spare units serve too."""
    room = {
        j: [n * frontiers[j].points[-1].load_rps[w] for w in range(len(problem.demands))]
        for j, n in units.items()
    }
    total = [sum(each[w] for each in room.values()) for w in range(len(problem.demands))]
    return {
        j: tuple(
            rate * x / t if t > 0 else 0.0
            for rate, x, t in zip(problem.rates_rps, each, total, strict=True)
        )
        for j, each in room.items()
    }
