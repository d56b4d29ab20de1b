"""Names of places, and what names them: they must meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.errors import nearest
from planner.spec import mistake

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.scenario.nodes import NodeOffer
    from planner.scenario.scenario import Scenario
    from planner.scenario.workload import Workload


def places_of(nodes: Sequence[NodeOffer]) -> dict[str, tuple[str, ...]]:
    """Return the ids of nodes by the place that holds them: themselves, rack, zone, region."""
    found: dict[str, dict[str, None]] = {}
    for offer in nodes:
        for name in (offer.id, offer.rack, offer.zone, offer.region):
            if name is not None:
                found.setdefault(name, {})[offer.id] = None
    return {name: tuple(ids) for name, ids in found.items()}


def check_supply(scenario: Scenario) -> None:
    """Refuse a scenario whose places do not fit together.

    Raises:
        PydanticCustomError: Says what is wrong, where, and how to mend it.
    """
    nodes = scenario.nodes
    if scenario.accelerators and nodes:
        raise mistake("accelerators are given too; give one of the two", "nodes")
    if not scenario.accelerators and not nodes:
        raise mistake("missing: give accelerators, or whole nodes", "accelerators")
    if not nodes:
        _no_places_are_named(scenario)
        _groups_have_a_link(scenario)
        return
    _nothing_else_is_about_places(scenario)
    _names_are_one_place_each(nodes)
    _failures_have_places(scenario)
    _limits_name_places(scenario)
    for i, workload in enumerate(scenario.workloads):
        if workload.completion_window is not None:
            what = "work that may wait is planned with accelerators only; leave it out"
            raise mistake(what, "workloads", i, "completion_window")


def _nothing_else_is_about_places(scenario: Scenario) -> None:
    if scenario.topology is not None:
        what = "is planned with accelerators only: nodes say where they stand; leave it out"
        raise mistake(what, "topology")
    if scenario.policies.disaggregation is not None:
        what = "groups over a link are planned with accelerators only; leave it out"
        raise mistake(what, "policies", "disaggregation")
    if scenario.traffic is not None and scenario.traffic.adapt != "never":
        what = "a fleet of whole nodes stays as it is; leave it out, or give accelerators"
        raise mistake(what, "traffic", "adapt")


def _groups_have_a_link(scenario: Scenario) -> None:
    policy = scenario.policies.disaggregation
    if policy is None or policy.link is not None:
        return
    if scenario.topology is None:
        what = "missing: say what carries KV, or add a topology whose links do"
        raise mistake(what, "policies", "disaggregation", "link")
    for i, level in enumerate(policy.meet or ()):
        if level in ("region", "world") and getattr(scenario.topology.links, level) is None:
            what = f"topology.links.{level} is not given, so that nothing is moved; add it"
            raise mistake(what, "policies", "disaggregation", "meet", i)


def _no_places_are_named(scenario: Scenario) -> None:
    what = "needs nodes in place of accelerators"
    for key in ("spare", "power"):
        if getattr(scenario.limits, key):
            raise mistake(what, "limits", key)
    for i, workload in enumerate(scenario.workloads):
        if workload.regions is None:
            continue
        if scenario.topology is None:
            what = "needs a topology, or nodes in place of accelerators"
            raise mistake(what, "workloads", i, "regions")
        if scenario.policies.disaggregation is not None:
            what = "groups of prefill and decode replicas stand in any region; leave it out"
            raise mistake(what, "workloads", i, "regions")
        if workload.completion_window is not None:
            what = "work that may wait is done wherever units are free; leave it out"
            raise mistake(what, "workloads", i, "regions")
        _are_known(i, workload, sorted({n.region for n in scenario.topology.nodes}))


def _limits_name_places(scenario: Scenario) -> None:
    nodes, limits = scenario.nodes, scenario.limits
    known = places_of(nodes)
    for i, power in enumerate(limits.power):
        if power.id is not None and power.id not in known:
            what = f"no place {power.id!r}; {nearest(power.id, list(known))}"
            raise mistake(what, "limits", "power", i, "id")
        if power.id in [other.id for other in limits.power[:i]]:
            raise mistake("this place has a limit already; keep one", "limits", "power", i)
    regions = sorted({offer.region for offer in nodes if offer.region is not None})
    for i, workload in enumerate(scenario.workloads):
        _are_known(i, workload, regions)


def _are_known(i: int, workload: Workload, regions: Sequence[str]) -> None:
    for k, name in enumerate(workload.regions or ()):
        if name not in regions:
            what = f"no nodes in region {name!r}; {nearest(name, regions)}"
            raise mistake(what, "workloads", i, "regions", k)


def _names_are_one_place_each(nodes: Sequence[NodeOffer]) -> None:
    level_of: dict[str, str] = {}
    for i, offer in enumerate(nodes):
        for level in ("id", "rack", "zone", "region"):
            name = getattr(offer, level)
            if name is not None and level_of.setdefault(name, level) != level:
                other = "nodes" if level_of[name] == "id" else f"a {level_of[name]}"
                what = f"{name!r} is the name of {other} too; rename one"
                raise mistake(what, "nodes", i, level)


def _failures_have_places(scenario: Scenario) -> None:
    spare = scenario.limits.spare
    if spare is None or spare.lose == "nodes":
        return
    for i, offer in enumerate(scenario.nodes):
        if getattr(offer, spare.lose) is None:
            what = f"a {spare.lose} may be lost (limits.spare), and these nodes name none; add it"
            raise mistake(what, "nodes", i)
