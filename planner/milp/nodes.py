"""Domains of interchangeable nodes, bought whole, and what failures take of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pulp

from planner.milp.indices import named
from planner.milp.packing import fillings, is_chain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planner.milp.instance import Instance


@dataclass(frozen=True, slots=True)
class Loss:
    """One failure: what is gone of the fleet."""

    id: str
    domains: tuple[str, ...] = ()
    """Of which every unit is lost."""
    units: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Units of template j lost in domain d, by (j, d), or all of them if there are fewer."""
    devices: Mapping[str, int] = field(default_factory=dict)
    """Devices of units lost in domain d, of whichever the fleet can best miss there, or all of
    them if there are fewer: less than what nodes that are full would take."""


@dataclass(frozen=True, slots=True)
class Spare:
    """What the fleet must survive: the loss of any ``count`` of these at once."""

    count: int
    floor: Mapping[str, float]
    """alpha^f_w: share of w's demand that must still be compliant."""
    shed: Mapping[str, float]
    """Share of w's demand that may be turned away meanwhile; absent means none."""
    groups: Mapping[str, tuple[str, ...]] | None = None
    """Domains that fail together, by name; None: single nodes fail, whatever stands in them."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """Domains that consist of equal nodes, with one kind of accelerator each."""

    accelerator_of: Mapping[str, str]
    """g_d: the accelerator of the nodes of domain d; a domain that is absent has no nodes."""
    node_devices: Mapping[str, int]
    """s_d: devices in one of its nodes."""
    usd_per_hour: Mapping[str, float]
    """p_d: price of one of its nodes, whole, USD/h."""
    stock: Mapping[str, int] = field(default_factory=dict)
    """M_d: nodes that can be had; absent means no limit."""
    free: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """f_dv: devices that are free in each node that is partly used and paid for anyway."""
    node_watts: Mapping[str, float] = field(default_factory=dict)
    """Power of one of its nodes, W; absent means 0."""
    power: Mapping[str, tuple[tuple[str, ...], float]] = field(default_factory=dict)
    """Domains that share a limit of power, and the limit, W, by name."""
    barred: frozenset[tuple[str, str]] = frozenset()
    """(j, d): template j may not stand in domain d."""
    spare: Spare | None = None
    """What the fleet must survive; None means nothing."""
    losses: tuple[Loss, ...] = ()
    """The failures f that have rows; those that are missing are added when they matter."""

    @property
    def domains(self) -> tuple[str, ...]:
        """Domains of nodes, in their order."""
        return tuple(self.accelerator_of)


NO_NODES: Final = Nodes({}, {}, {})
"""No domain consists of nodes."""


def fits(data: Instance, j: str, d: str) -> bool:
    """Tell whether a unit of ``j`` is no larger than a node of ``d``."""
    where = data.nodes or NO_NODES
    return data.devices[j] <= where.node_devices.get(d, data.devices[j])


def units_at(data: Instance) -> dict[str, tuple[str, ...]]:
    """List, for each domain of nodes, the templates whose units fit there, allowed or not."""
    where = data.nodes or NO_NODES
    found: dict[str, list[str]] = {d: [] for d in where.domains}
    for j in data.J:
        for d in data.domains_of(j):
            if d in found and fits(data, j, d):
                found[d].append(j)
    return {d: tuple(templates) for d, templates in found.items()}


def sizes_at(data: Instance) -> dict[str, tuple[int, ...]]:
    """List the sizes of units that fit into each domain of nodes, ascending."""
    return {d: tuple(sorted({data.devices[j] for j in js})) for d, js in units_at(data).items()}


@dataclass(frozen=True, slots=True)
class NodeVariables:
    """Decisions about nodes and failures; keys are the symbol's indices."""

    m: Mapping[str, pulp.LpVariable]
    """m_d: nodes taken of domain d, in all periods (integer)."""
    k: Mapping[tuple[str, str, tuple[int, ...], str], pulp.LpVariable]
    """pi_dikt: nodes of kind i ("new" or free devices) of domain d that are filled in way k in
    period t (integer); only where sizes are no chain."""
    x: Mapping[tuple[str, str, str, str], pulp.LpVariable]
    """x_fjot: units of j that run at point o after failure f in period t."""
    z: Mapping[tuple[str, str, str], pulp.LpVariable]
    """z_fwt: load of w that is turned away after failure f in period t, req/s."""
    lost: Mapping[tuple[str, str, int, str], pulp.LpVariable]
    """q_jdlt: what failures that take l units of j in d take of them in period t, if there are
    fewer; one column for all failures that take as many."""
    filled: Mapping[tuple[str, str, str, str], pulp.LpVariable]
    """q_fjdt: units of j in d that failure f takes in period t, where it takes so many devices."""
    emptied: Mapping[tuple[str, str, str], pulp.LpVariable]
    """y_fdt: 1 if failure f, which takes so many devices, takes every unit in d (binary)."""
    all_lost: Mapping[tuple[str, str, int, str], pulp.LpVariable]
    """y_jdlt: 1 if that is every unit of j in d (binary)."""


def declare_nodes(problem: pulp.LpProblem, data: Instance) -> NodeVariables:
    """Add the variables about nodes and failures to a problem."""
    where = data.nodes or NO_NODES

    def add(
        family: str, index: tuple[str, ...], most: float | None = None, *, whole: bool = False
    ) -> pulp.LpVariable:
        name = f"{family}({','.join(named(index))})"
        return problem.add_variable(name, 0, most, pulp.LpInteger if whole else pulp.LpContinuous)

    sizes = sizes_at(data)
    ways = {
        (d, kind): fillings(devices, sizes[d])
        for d in where.domains
        if not is_chain(sizes[d])
        for kind, devices in (("new", where.node_devices[d]), *_partly(where, d))
    }
    failing = [(f, t) for f in where.losses for t in data.T]
    taken = dict.fromkeys((j, d, n, t) for f, t in failing for (j, d), n in f.units.items())
    return NodeVariables(
        m={d: add("m", (d,), whole=True) for d in where.domains},
        k={
            (d, kind, way, t): add("k", (d, kind, ":".join(map(str, way)), t), whole=True)
            for (d, kind), listed in ways.items()
            for way in listed
            for t in data.T
        },
        x={
            (f.id, j, o, t): add("xf", (f.id, j, o, t))
            for f, t in failing
            for j in data.J
            for o in data.O[j]
        },
        z={
            (f.id, w, t): add("zf", (f.id, w, t), _most_shed(data, w, t))
            for f, t in failing
            for w in data.W
        },
        lost={(j, d, n, t): add("lost", (j, d, str(n), t)) for j, d, n, t in taken},
        filled={
            (f.id, j, d, t): add("lost", (f.id, j, d, t))
            for f, t in failing
            for d in f.devices
            for j in units_at(data)[d]
        },
        emptied={
            (f.id, d, t): add("all", (f.id, d, t), 1, whole=True)
            for f, t in failing
            for d in f.devices
        },
        all_lost={
            (j, d, n, t): add("all", (j, d, str(n), t), 1, whole=True) for j, d, n, t in taken
        },
    )


def most_units(data: Instance, j: str, d: str, lost: int) -> int:
    """Return U_jd: the most units of ``j`` in ``d`` that can be had, or that can be of use.

    More are of no use than carry all demand at the lightest points, beside those that are lost.
    """
    where = data.nodes or NO_NODES
    least: dict[str, float] = {}
    for o in data.O[j]:
        for w in data.W:
            load = data.load_rps.get((j, o, w), 0.0)
            if load > 0:
                least[w] = min(load, least.get(w, math.inf))
    peak = {w: max(data.demand(w, t) for t in data.T) for w in least}
    useful = sum(math.ceil(peak[w] / load) for w, load in least.items())
    most = max(useful + lost, data.min_units.get(j, 0))
    if d in where.stock:
        devices = where.stock[d] * where.node_devices[d] + sum(where.free.get(d, ()))
        most = min(most, devices // data.devices[j])
    return most


def most_devices(data: Instance, d: str, lost: int) -> int:
    """Return U_d: the most devices of units in ``d`` that can be had, or that can be of use."""
    where = data.nodes or NO_NODES
    most = sum(data.devices[j] * most_units(data, j, d, lost) for j in units_at(data)[d])
    if d in where.stock:
        there = where.stock[d] * where.node_devices[d] + sum(where.free.get(d, ()))
        most = min(most, there)
    return most


def most_units_for(data: Instance, j: str, most_usd: float, most: float) -> int:
    """Return how many units of ``j`` the nodes can hold that a sum of money, USD/h, buys.

    Args:
        data: The instance.
        j: The template.
        most_usd: What all nodes may cost together.
        most: Returned where nothing else limits them.
    """
    where, size = data.nodes or NO_NODES, data.devices[j]
    total = 0.0
    for d in data.domains_of(j):
        per_node = where.node_devices.get(d, size) // size
        usd = where.usd_per_hour.get(d, 0.0)
        nodes = min(most_usd / usd if usd > 0 else most, where.stock.get(d, most))
        total += math.floor(nodes + 1e-6) * per_node
        total += sum(free // size for free in where.free.get(d, ()))
    return int(min(total, data.max_units.get(j, most), most))


def _partly(where: Nodes, d: str) -> list[tuple[str, int]]:
    return [(f"free{free}", free) for free in sorted(set(where.free.get(d, ())))]


def _most_shed(data: Instance, w: str, t: str) -> float:
    where = data.nodes or NO_NODES
    share = where.spare.shed.get(w, 0.0) if where.spare else 0.0
    return share * data.demand(w, t)


def mistakes_of(data: Instance) -> Iterator[str]:
    """Yield what cannot be used of the nodes, a line each."""
    where = data.nodes or NO_NODES
    yield from _numbers(data)
    for j, g in data.beside:
        yield f"beside[{j},{g}]: a unit in whole nodes is of one kind of accelerator"
    known = set(where.domains)
    spare = where.spare
    named = {
        "stock": where.stock,
        "free": where.free,
        "node_watts": where.node_watts,
        "power": [d for members, _ in where.power.values() for d in members],
        "barred": [d for _, d in where.barred],
        "spare": [d for members in ((spare and spare.groups) or {}).values() for d in members],
    }
    for name, used in named.items():
        for d in sorted(set(used) - known):
            yield f"nodes.{name}[{d}]: no such id"
    if spare is not None:
        if spare.count < 1:
            yield "nodes.spare.count: must be at least 1"
        for w in data.W:
            if not 0 <= spare.floor.get(w, 0.0) <= 1 or not 0 <= spare.shed.get(w, 0.0) <= 1:
                yield f"nodes.spare[{w}]: shares lie between 0 and 1"


def _numbers(data: Instance) -> Iterator[str]:
    where = data.nodes or NO_NODES
    for d in where.domains:
        g = where.accelerator_of[d]
        if g not in data.G or d not in data.D:
            yield f"nodes.accelerator_of[{d}]: {g!r} is not in G, or {d!r} not in D"
        yield from _other_homes(data, d, g)
        if where.node_devices.get(d, 0) < 1:
            yield f"nodes.node_devices[{d}]: must be at least 1"
        price = where.usd_per_hour.get(d, -1.0)
        if not (math.isfinite(price) and price >= 0):
            yield f"nodes.usd_per_hour[{d}]: must be finite and at least 0; got {price}"
        if where.stock.get(d, 0) < 0:
            yield f"nodes.stock[{d}]: must be at least 0; got {where.stock[d]}"
        if any(not 0 <= free <= where.node_devices.get(d, 0) for free in where.free.get(d, ())):
            yield f"nodes.free[{d}]: no node has so many devices"
    for name, (_, watts) in where.power.items():
        if not watts > 0:
            yield f"nodes.power[{name}]: must be above 0"


def _other_homes(data: Instance, d: str, g: str) -> Iterator[str]:
    for other in data.G:
        if (d in data.homes.get(other, data.D)) != (other == g):
            yield f"homes[{other}]: nodes of {d} hold {g} and nothing else"
