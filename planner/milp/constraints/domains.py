"""Rows about places: nodes that are filled, bought whole, powered, and moved between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulp import LpAffineExpression as Sum

from planner.milp.domains import NOWHERE, domains_of, is_housed, sizes_in
from planner.milp.packing import is_chain, room

if TYPE_CHECKING:
    from planner.milp.constraints.serving import Rows, Terms
    from planner.milp.instance import Instance
    from planner.milp.variables import Variables


def units_stand_in_domains(data: Instance, v: Variables) -> Rows:
    r"""(C20) Every unit stands in a domain of nodes with its accelerator.

    .. math:: \sum_{d : g_d = g_j, s_d \ge k_j} a_{jd} - n_j = 0
              \qquad \forall j : g_j \text{ is in a domain}
    """
    for j in data.J:
        if is_housed(data, j):
            standing: Terms = {v.domains.a[j, d]: 1.0 for d in domains_of(data, j)}
            yield (j,), Sum(standing | {v.n[j]: -1.0}) == 0


def groups_fit_in_nodes(data: Instance, v: Variables) -> Rows:
    r"""(C21) The units of every size and above fit into the nodes of a domain, new and partly used.

    .. math:: \sum_{j : k_j \ge \kappa} k_j a_{jd} - \kappa \lfloor s_d / \kappa \rfloor m_d
              \le \sum_v \kappa \lfloor f_{dv} / \kappa \rfloor
              \qquad \forall d, \kappa \in \{k_j\} \text{, a chain of divisors}
    """
    where = data.domains or NOWHERE
    for d in where.D:
        sizes = sizes_in(data, d)
        for size in sizes if is_chain(sizes) else ():
            used: Terms = {
                v.domains.a[j, d]: float(data.devices[j])
                for j in data.J
                if data.devices[j] >= size and (j, d) in v.domains.a
            }
            used[v.domains.m[d]] = -float(room(where.node_devices[d], size))
            partly = sum(room(free, size) for free in where.free.get(d, ()))
            yield (d, str(size)), Sum(used) <= partly


def nodes_are_filled_in_known_ways(data: Instance, v: Variables) -> Rows:
    r"""(C22) Where sizes are no chain, nodes are filled in one of the ways in which they can be.

    .. math:: \sum_{j : k_j = \kappa} a_{jd} - \sum_{i,k} \mathrm{way}_{ik\kappa} \pi_{dik} \le 0
              \qquad \forall d, \kappa

    .. math:: \sum_k \pi_{dik} \le \text{nodes of kind } i \qquad \forall d, i

    Kinds are the new nodes, of which there are :math:`m_d`, and partly used ones by what is free.
    """
    where = data.domains or NOWHERE
    for d in where.D:
        sizes = sizes_in(data, d)
        if is_chain(sizes):
            continue
        ways = [(kind, way, column) for (of, kind, way), column in v.domains.k.items() if of == d]
        for i, size in enumerate(sizes):
            filled: Terms = {
                v.domains.a[j, d]: 1.0
                for j in data.J
                if data.devices[j] == size and (j, d) in v.domains.a
            }
            filled |= {column: -float(way[i]) for _, way, column in ways if way[i]}
            yield (d, str(size)), Sum(filled) <= 0
        for kind in dict.fromkeys(kind for kind, _, _ in ways):
            nodes: Terms = {column: 1.0 for of, _, column in ways if of == kind}
            if kind == "new":
                yield (d, kind), Sum(nodes | {v.domains.m[d]: -1.0}) <= 0
            else:
                there = sum(1 for free in where.free[d] if kind == f"free{free}")
                yield (d, kind), Sum(nodes) <= there


def nodes_are_held(data: Instance, v: Variables) -> Rows:
    r"""(C23) No more nodes of a domain are taken than can be had.

    .. math:: m_d \le M_d \qquad \forall d : M_d \text{ given}
    """
    where = data.domains or NOWHERE
    for d in where.D:
        if d in where.stock:
            yield (d,), Sum({v.domains.m[d]: 1.0}) <= where.stock[d]


def regions_are_respected(data: Instance, v: Variables) -> Rows:
    r"""(C24) No unit stands where its workloads or its model may not be.

    .. math:: \sum_{d : (j, d) \text{ barred}} a_{jd} = 0 \qquad \forall j
    """
    where = data.domains or NOWHERE
    for j in data.J:
        barred: Terms = {
            v.domains.a[j, d]: 1.0 for d in domains_of(data, j) if (j, d) in where.barred
        }
        if barred:
            yield (j,), Sum(barred) == 0


def power_is_kept(data: Instance, v: Variables) -> Rows:
    r"""(C25) The nodes of a power domain draw no more than it supplies; divided by that.

    .. math:: \frac{1}{P_A} \sum_{d \in A} P_d m_d \le 1 \qquad \forall A : P_A \text{ given}
    """
    where = data.domains or NOWHERE
    for name, (members, watts) in where.power.items():
        drawn: Terms = {v.domains.m[d]: where.node_watts.get(d, 0.0) / watts for d in members}
        yield (name,), Sum(drawn) <= 1


def moves_are_counted(data: Instance, v: Variables) -> Rows:
    r"""(C26) What is started beyond today's units, and what is stopped of them.

    .. math:: a_{jd} - \mathrm{up}_{jd} + \mathrm{down}_{jd} = c_{jd} \qquad \forall j, d
    """
    where = data.domains or NOWHERE
    for (j, d), up in v.domains.up.items():
        change: Terms = {v.domains.a[j, d]: 1.0, up: -1.0, v.domains.down[j, d]: 1.0}
        yield (j, d), Sum(change) == where.current.get((j, d), 0)


def moves_are_limited(data: Instance, v: Variables) -> Rows:
    r"""(C27) No more units are started and stopped than the scenario allows.

    .. math:: \sum_{j,d} (\mathrm{up}_{jd} + \mathrm{down}_{jd}) \le \mathrm{moves}
    """
    where = data.domains or NOWHERE
    if where.moves is not None:
        moved: Terms = dict.fromkeys([*v.domains.up.values(), *v.domains.down.values()], 1.0)
        gone = sum(n for i, n in where.current.items() if i not in v.domains.a)
        yield (), Sum(moved) <= where.moves - gone
