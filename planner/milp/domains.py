"""Where units stand: domains of interchangeable nodes, and what each of them can lose."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pulp

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
class Domains:
    """Domains of equal nodes, in which units of the accelerators that they hold must stand.

    A template whose accelerator is in none of the domains stands nowhere in particular.
    """

    D: tuple[str, ...]
    """Domains d."""
    accelerator_of: Mapping[str, str]
    """g_d: the accelerator of its nodes."""
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
    current: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """c_jd: units that run today; absent means none."""
    moves: int | None = None
    """Most units started and stopped, together; None means no limit."""
    usd_per_move: float = 0.0
    """Cost of starting or stopping a unit, spread over the time that it is charged to, USD/h."""
    spare: Spare | None = None
    """What the fleet must survive; None means nothing."""
    losses: tuple[Loss, ...] = ()
    """The failures f that have rows; those that are missing are added when they matter."""


NOWHERE: Final = Domains((), {}, {}, {})
"""No unit stands anywhere in particular."""


def domains_of(data: Instance, j: str) -> tuple[str, ...]:
    """List the domains in which units of template ``j`` fit, allowed there or not."""
    where = data.domains or NOWHERE
    return tuple(
        d
        for d in where.D
        if where.accelerator_of[d] == data.accelerator_of[j]
        and data.devices[j] <= where.node_devices[d]
    )


def is_housed(data: Instance, j: str) -> bool:
    """Tell whether units of ``j`` must stand in domains."""
    where = data.domains or NOWHERE
    return data.accelerator_of[j] in where.accelerator_of.values()


def sizes_in(data: Instance, d: str) -> tuple[int, ...]:
    """List the sizes of units that fit into domain ``d``, ascending."""
    return tuple(sorted({data.devices[j] for j in data.J if d in domains_of(data, j)}))


@dataclass(frozen=True, slots=True)
class DomainVariables:
    """Decisions about places; keys are the symbol's indices."""

    a: Mapping[tuple[str, str], pulp.LpVariable]
    """a_jd: units of template j in domain d (integer)."""
    m: Mapping[str, pulp.LpVariable]
    """m_d: nodes taken of domain d (integer)."""
    k: Mapping[tuple[str, str, tuple[int, ...]], pulp.LpVariable]
    """pi_dik: nodes of kind i ("new" or free devices) of domain d that are filled in way k
    (integer); only where sizes are no chain."""
    up: Mapping[tuple[str, str], pulp.LpVariable]
    """Units of j started in d."""
    down: Mapping[tuple[str, str], pulp.LpVariable]
    """Units of j stopped in d."""
    x: Mapping[tuple[str, str, str], pulp.LpVariable]
    """x_fjo: units of j that run at point o after failure f."""
    z: Mapping[tuple[str, str], pulp.LpVariable]
    """z_fw: load of w that is turned away after failure f, req/s."""
    lost: Mapping[tuple[str, str, str], pulp.LpVariable]
    """q_fjd: units of j in d that failure f takes, where it takes a number."""
    all_lost: Mapping[tuple[str, str, str], pulp.LpVariable]
    """y_fjd: 1 if failure f takes every unit of j in d, where it takes a number (binary)."""


def declare_domains(problem: pulp.LpProblem, data: Instance) -> DomainVariables:
    """Add the variables about places to a problem."""
    where = data.domains or NOWHERE
    add = problem.add_variable
    a = {
        (j, d): add(f"a({j},{d})", 0, None, pulp.LpInteger)
        for j in data.J
        for d in domains_of(data, j)
    }
    k = {
        (d, kind, way): add(f"k({d},{kind},{':'.join(map(str, way))})", 0, None, pulp.LpInteger)
        for d in where.D
        if not is_chain(sizes_in(data, d))
        for kind, devices in (("new", where.node_devices[d]), *_partly(where, d))
        for way in fillings(devices, sizes_in(data, d))
    }
    moving = a if where.moves is not None or where.usd_per_move > 0 else {}
    return DomainVariables(
        a=a,
        m={d: add(f"m({d})", 0, None, pulp.LpInteger) for d in where.D},
        k=k,
        up={i: add(f"up({','.join(i)})", 0) for i in moving},
        down={i: add(f"down({','.join(i)})", 0) for i in moving},
        x={
            (f.id, j, o): add(f"xf({f.id},{j},{o})", 0)
            for f in where.losses
            for j in data.J
            for o in data.O[j]
        },
        z={
            (f.id, w): add(f"zf({f.id},{w})", 0, _most_shed(data, w))
            for f in where.losses
            for w in data.W
        },
        lost={
            (f.id, j, d): add(f"lost({f.id},{j},{d})", 0) for f in where.losses for j, d in f.units
        },
        all_lost={
            (f.id, j, d): add(f"y({f.id},{j},{d})", 0, 1, pulp.LpInteger)
            for f in where.losses
            for j, d in f.units
        },
    )


def most_units(data: Instance, j: str, d: str, lost: int) -> int:
    """Return U_jd: the most units of ``j`` in ``d`` that can be had, or that can be of use.

    More are of no use than carry all demand at the lightest points, beside those that are lost.
    """
    where = data.domains or NOWHERE
    least: dict[str, float] = {}
    for o in data.O[j]:
        for w in data.W:
            load = data.load_rps.get((j, o, w), 0.0)
            if load > 0:
                least[w] = min(load, least.get(w, math.inf))
    useful = sum(math.ceil(data.demand_rps[w] / load) for w, load in least.items())
    most = max(useful + lost, data.min_units.get(j, 0))
    if d in where.stock:
        devices = where.stock[d] * where.node_devices[d] + sum(where.free.get(d, ()))
        most = min(most, devices // data.devices[j])
    return most


def _partly(where: Domains, d: str) -> list[tuple[str, int]]:
    return [(f"free{free}", free) for free in sorted(set(where.free.get(d, ())))]


def _most_shed(data: Instance, w: str) -> float:
    where = data.domains or NOWHERE
    share = where.spare.shed.get(w, 0.0) if where.spare else 0.0
    return share * data.demand_rps[w]


def mistakes_of(data: Instance) -> Iterator[str]:
    """Yield what cannot be used of the domains, a line each."""
    where = data.domains or NOWHERE
    yield from _numbers(data)
    known = set(where.D)
    spare = where.spare
    named = {
        "stock": where.stock,
        "free": where.free,
        "node_watts": where.node_watts,
        "power": [d for members, _ in where.power.values() for d in members],
        "current": [d for _, d in where.current],
        "barred": [d for _, d in where.barred],
        "spare": [d for members in ((spare and spare.groups) or {}).values() for d in members],
    }
    for name, used in named.items():
        for d in sorted(set(used) - known):
            yield f"domains.{name}[{d}]: no such id"
    if spare is not None:
        if spare.count < 1:
            yield "domains.spare.count: must be at least 1"
        for w in data.W:
            if not 0 <= spare.floor.get(w, 0.0) <= 1 or not 0 <= spare.shed.get(w, 0.0) <= 1:
                yield f"domains.spare[{w}]: shares lie between 0 and 1"


def _numbers(data: Instance) -> Iterator[str]:
    where = data.domains or NOWHERE
    for d in where.D:
        if where.accelerator_of.get(d) not in data.G:
            yield f"domains.accelerator_of[{d}]: {where.accelerator_of.get(d)!r} is not in G"
        if where.node_devices.get(d, 0) < 1:
            yield f"domains.node_devices[{d}]: must be at least 1"
        price = where.usd_per_hour.get(d, -1.0)
        if not (math.isfinite(price) and price >= 0):
            yield f"domains.usd_per_hour[{d}]: must be finite and at least 0; got {price}"
        if where.stock.get(d, 0) < 0:
            yield f"domains.stock[{d}]: must be at least 0; got {where.stock[d]}"
        if any(not 0 <= free <= where.node_devices.get(d, 0) for free in where.free.get(d, ())):
            yield f"domains.free[{d}]: no node has so many devices"
    for name, (_, watts) in where.power.items():
        if not watts > 0:
            yield f"domains.power[{name}]: must be above 0"
