"""The way between users and the fleet, taken off the deadlines that the fleet has to meet."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Set

    from planner.errors import Where
    from planner.problem.resolve import Demand
    from planner.scenario.load import LoadedScenario
    from planner.scenario.slo import Slo
    from planner.topology import Topology


def network_s(
    topology: Topology | None, origin: str | None, regions: Set[str] | None = None
) -> float:
    """Return the round trip of a workload's users to the farthest region that may serve them.

    Any of its replicas may get any of its requests, so it is promised what holds in the farthest.
    """
    if topology is None or origin is None:
        return 0.0
    may = [r for r in topology.regions if regions is None or r in regions]
    return max(topology.round_trip_s(origin, region) for region in may)


def at_the_door(
    loaded: LoadedScenario,
    topology: Topology | None,
    demands: Iterable[Demand],
    mistakes: list[tuple[Where | str, str]],
) -> Iterator[Demand]:
    """Yield demands with the deadlines that the fleet has to meet: less the way to the users."""
    places = {w.id: (i, w.origin) for i, w in enumerate(loaded.scenario.workloads)}
    for demand in demands:
        i, origin = places[demand.id]
        known = topology is None or any(users.origin == origin for users in topology.users)
        way = network_s(topology, origin, demand.regions) if known else 0.0
        over = _over(demand.slo, way)
        if over is None:
            yield replace(demand, slo=_less(demand.slo, way), network_s=way) if way else demand
            continue
        what = (
            f"{'.'.join(map(str, over))}: is over on the way: the round trip between {origin} and"
            f" the farthest region that may serve it takes {way:g} s; give a longer deadline, or"
            " name nearer regions"
        )
        mistakes.append((loaded.at("workloads", i, "slo", *over), f"workloads.{i}.slo.{what}"))


def _over(slo: Slo, way_s: float) -> tuple[str | int, ...] | None:
    """Return the place of a deadline that is not longer than the way."""
    deadlines: list[tuple[tuple[str | int, ...], float | None]] = [
        (("ttft",), slo.ttft),
        (("e2e",), slo.e2e),
        *((("ttft_by_prompt", i, "ttft"), b.ttft) for i, b in enumerate(slo.ttft_by_prompt)),
    ]
    return next((at for at, s in deadlines if s is not None and 0 < s <= way_s), None)


def _less(slo: Slo, way_s: float) -> Slo:
    return slo.model_copy(
        update={
            "ttft": slo.ttft - way_s,
            "e2e": None if slo.e2e is None else slo.e2e - way_s,
            "ttft_by_prompt": tuple(
                bucket.model_copy(update={"ttft": bucket.ttft - way_s})
                for bucket in slo.ttft_by_prompt
            ),
        }
    )
