"""A scenario's topology joined to the catalogue: rates filled in, domains named."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from planner.errors import nearest
from planner.topology import Domain, Link, Network, NodeGroup, NodeShape, Topology, UsersAt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planner.catalogue import Accelerator, Catalogue, NodeKind
    from planner.errors import Where
    from planner.problem.resolve import Supply
    from planner.scenario.load import LoadedScenario
    from planner.scenario.topology import DomainLink, Nodes
    from planner.topology import Level

LATENCY_S: Final = 10e-6
"""Between two devices where nobody says another: what aiconfigurator's systems files have."""

Mistakes = list[tuple["Where | str", str]]


def within_topology(supplies: tuple[Supply, ...], topology: Topology | None) -> tuple[Supply, ...]:
    """Return supplies with no more stock than their nodes have devices free."""
    if topology is None:
        return supplies
    free = [topology.free_devices(supply.accelerator.id) for supply in supplies]
    return tuple(
        replace(s, stock=n if s.stock is None else min(n, s.stock))
        for s, n in zip(supplies, free, strict=True)
    )


def make_topology(
    loaded: LoadedScenario, catalogue: Catalogue, mistakes: Mistakes
) -> Topology | None:
    """Return the topology of a scenario; None where it has none, or where mistakes were added."""
    given = loaded.scenario.topology
    if given is None:
        mistakes += _origins(loaded, ())
        return None
    before = len(mistakes)
    mistakes += _origins(loaded, tuple(u.origin for u in given.users))
    rows = [_row(loaded, catalogue, i, mistakes) for i in range(len(given.nodes))]
    _offers(loaded, catalogue, mistakes)
    if len(mistakes) > before:
        return None
    shapes = tuple(row for row in rows if row is not None)
    domains = _all_domains(loaded, given.nodes, shapes, mistakes)
    if len(mistakes) > before:
        return None
    networks = {level: _network(getattr(given.links, level)) for level in _NETWORKS}
    return Topology(
        domains=domains,
        networks=networks,
        users=tuple(UsersAt(origin=u.origin, round_trip_s=dict(u.round_trip)) for u in given.users),
        tp_may_cross=given.tp_may_cross,
        notes=(*_assumed(shapes), *_not_linked(domains, networks)),
    )


def _all_domains(
    loaded: LoadedScenario,
    nodes: tuple[Nodes, ...],
    shapes: tuple[_Row, ...],
    mistakes: Mistakes,
) -> tuple[Domain, ...]:
    """Give every node a domain; entries of the same place and shape make one."""
    domains: dict[str, Domain] = {}
    joins: dict[str, tuple[int, NodeShape]] = {}
    for i, row in enumerate(shapes):
        first, shape = joins.setdefault(row.shape.accelerator, (i, row.shape))
        if (shape.scaleup, shape.scaleup_devices) != (row.shape.scaleup, row.shape.scaleup_devices):
            what = (
                f"topology.nodes.{i}: devices of {row.shape.accelerator} are joined otherwise in"
                f" topology.nodes.{first}, and step times depend on it; plan them apart"
            )
            mistakes.append((loaded.at("topology", "nodes", i), what))
        for domain in _domains(nodes[i], row):
            known = domains.get(domain.id)
            if known is None:
                domains[domain.id] = domain
            elif _same(known, domain):
                domains[domain.id] = _joined(known, domain)
            else:
                what = f"topology.nodes.{i}: {domain.id!r} is the name of other nodes; give an id"
                mistakes.append((loaded.at("topology", "nodes", i), what))
    return tuple(domains.values())


def _assumed(shapes: tuple[_Row, ...]) -> tuple[str, ...]:
    return tuple(
        f"topology.nodes.{i}: nothing says what joins the {row.shape.devices} devices of a"
        f" {row.shape.accelerator} node: PCIe is assumed"
        for i, row in enumerate(shapes)
        if row.shape.assumed_pcie
    )


def _not_linked(
    domains: tuple[Domain, ...], networks: Mapping[Level, Network | None]
) -> Iterator[str]:
    """Say between which parts nothing is moved, where there are such parts."""
    zones = {(d.region, d.zone) for d in domains}
    regions = {d.region for d in domains}
    if networks["region"] is None and len(zones) > len(regions):
        yield "topology.links.region is not given: nothing is moved between zones"
    if networks["world"] is None and len(regions) > 1:
        yield "topology.links.world is not given: nothing is moved between regions"


_NETWORKS: Final[tuple[Level, ...]] = ("rack", "zone", "region", "world")


def _network(link: DomainLink | None) -> Network | None:
    if link is None:
        return None
    return Network(
        transport=link.transport,
        bytes_per_s=link.bandwidth,
        latency_s=LATENCY_S if link.latency is None else link.latency,
        oversubscription=link.oversubscription,
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """An entry of ``topology.nodes`` with its shape."""

    shape: NodeShape
    free: int


def _row(loaded: LoadedScenario, catalogue: Catalogue, i: int, mistakes: Mistakes) -> _Row | None:
    nodes = loaded.scenario.topology.nodes[i]  # type: ignore[union-attr]
    at = ("topology", "nodes", i)

    def wrong(key: str, what: str) -> None:
        mistakes.append((loaded.at(*at, key), f"topology.nodes.{i}.{key}: {what}"))

    accelerator = catalogue.find_accelerator(nodes.accelerator)
    if accelerator is None:
        wrong("accelerator", str(catalogue.why_not("accelerator", nodes.accelerator)))
        return None
    kind = None
    if nodes.preset is not None:
        kinds = {kind.id: kind for kind in catalogue.node_kinds()}
        kind = kinds.get(nodes.preset)
        if kind is None:
            wrong("preset", f"no node is called {nodes.preset!r}; {nearest(nodes.preset, kinds)}")
            return None
    wish = _wish(nodes, kind)
    rate, key = _rate(nodes, accelerator, wish), "preset" if kind else "link"
    if isinstance(rate, str):
        wrong(key if nodes.link or kind else "accelerator", rate)
        return None
    free = wish.devices if nodes.free is None else nodes.free
    misfit = _misfit(nodes, wish, free, key)
    if misfit is not None:
        wrong(*misfit)
        return None
    network = nodes.network
    if network is None and accelerator.scaleout_bandwidth is not None:
        network = accelerator.scaleout_bandwidth * wish.devices
    if network is None and loaded.scenario.topology.tp_may_cross:  # type: ignore[union-attr]
        wrong("accelerator", "tp_may_cross needs what a node can send to others; give its network")
        return None
    shape = NodeShape(
        accelerator=accelerator.id,
        devices=wish.devices,
        scaleup_devices=wish.joined,
        scaleup=Link(transport=wish.transport, bytes_per_s=rate, latency_s=wish.latency_s),
        network_bytes_per_s=network,
        assumed_pcie=wish.assumed,
    )
    return _Row(shape, free)


def _misfit(nodes: Nodes, wish: _Wish, free: int, key: str) -> tuple[str, str] | None:
    """Say which number of an entry does not go with the others, and why."""
    inner, outer = sorted((wish.devices, wish.joined))
    if outer % inner:
        both = f"{wish.joined} joined devices and nodes of {wish.devices}"
        return key, f"{both}: one must divide the other"
    if free > wish.devices:
        return "free", f"a node has {wish.devices} devices; got {free}"
    per = max(1, wish.joined // wish.devices)
    if nodes.count % per:
        return "count", f"the link joins {per} nodes at a time; give a multiple of {per}"
    return None


@dataclass(frozen=True, slots=True)
class _Wish:
    """What preset and entry say of a node."""

    devices: int
    joined: int
    transport: str
    latency_s: float
    assumed: bool = False


def _wish(nodes: Nodes, kind: NodeKind | None) -> _Wish:
    if kind is not None:
        return _Wish(kind.devices, kind.scaleup_devices, kind.link, kind.latency)
    devices = nodes.devices or 1
    if nodes.link is None:
        return _Wish(devices, devices, "pcie", LATENCY_S, assumed=devices > 1)
    link = nodes.link
    latency = LATENCY_S if link.latency is None else link.latency
    return _Wish(devices, link.devices or devices, link.technology, latency)


def _rate(nodes: Nodes, accelerator: Accelerator, wish: _Wish) -> float | str:
    """Return what a device sends within its node, or why it is not known."""
    if nodes.link is not None and nodes.link.bandwidth:
        return nodes.link.bandwidth
    if wish.transport == "scaleup":
        if not accelerator.scaleup_bandwidth:
            return (
                f"{accelerator.id} has no scale-up link that the catalogue knows; use a pcie"
                " preset, or give link.bandwidth"
            )
        most = accelerator.scaleup_domain
        if most is not None and wish.joined > most:
            return f"the scale-up link of {accelerator.id} joins {most} devices, not {wish.joined}"
        return accelerator.scaleup_bandwidth
    if accelerator.pcie_bandwidth is not None:
        return accelerator.pcie_bandwidth
    if wish.devices == 1:
        return 1.0  # of one device: nothing is sent
    return (
        f"the catalogue does not know the PCIe rate of {accelerator.id}; give it as link:"
        " {technology: pcie, bandwidth: ...}"
    )


def _domains(nodes: Nodes, row: _Row) -> Iterator[Domain]:
    racks = [nodes.rack]
    if nodes.racks is not None:
        racks = [f"{nodes.rack or 'rack'}{r + 1}" for r in range(nodes.racks)]
    for rack in racks:
        parts = [nodes.id] if nodes.id else [nodes.zone]
        if rack is not None and not (nodes.id and nodes.racks is None):
            parts.append(rack)
        if not nodes.id:
            parts.append(row.shape.accelerator)
        yield Domain(
            id=".".join(p for p in parts if p),
            region=nodes.region,
            zone=nodes.zone,
            rack=rack,
            shape=row.shape,
            groups=(NodeGroup(first=0, nodes=nodes.count, free=row.free),),
        )


def _same(one: Domain, other: Domain) -> bool:
    return (one.region, one.zone, one.rack, one.shape) == (
        other.region,
        other.zone,
        other.rack,
        other.shape,
    )


def _joined(one: Domain, other: Domain) -> Domain:
    """Put the nodes of two entries into one domain."""
    (more,) = other.groups
    shifted = NodeGroup(first=one.nodes, nodes=more.nodes, free=more.free)
    return one.model_copy(update={"groups": (*one.groups, shifted)})


def _origins(loaded: LoadedScenario, known: tuple[str, ...]) -> Iterator[tuple[Where | str, str]]:
    for i, workload in enumerate(loaded.scenario.workloads):
        if workload.origin is not None and workload.origin not in known:
            what = (
                f"workloads.{i}.origin: topology.users has no {workload.origin!r};"
                f" {nearest(workload.origin, known)}"
            )
            yield loaded.at("workloads", i, "origin"), what


def _offers(loaded: LoadedScenario, catalogue: Catalogue, mistakes: Mistakes) -> None:
    """Nodes hold what is offered, and what is offered has nodes; one kind, one link."""
    scenario = loaded.scenario
    assert scenario.topology is not None

    def found(name: str) -> str | None:
        one = catalogue.find_accelerator(name)
        return None if one is None else one.id

    offered = [found(offer.id) for offer in scenario.accelerators]
    held = [found(nodes.accelerator) for nodes in scenario.topology.nodes]
    for i, name in enumerate(held):
        if name is not None and name not in offered:
            what = f"topology.nodes.{i}.accelerator: {name} has no price; add it to accelerators"
            mistakes.append((loaded.at("topology", "nodes", i, "accelerator"), what))
    for i, name in enumerate(offered):
        if name is not None and name not in held:
            what = f"accelerators.{i}.id: no node of the topology holds {name}; add it there"
            mistakes.append((loaded.at("accelerators", i, "id"), what))
