"""Rows about nodes: how they are filled, bought whole, and powered.

Nodes are held in every period; what stands in them may change from period to period.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulp import LpAffineExpression as Sum

from planner.milp.nodes import NO_NODES, fits, sizes_at, units_at
from planner.milp.packing import is_chain, room

if TYPE_CHECKING:
    from planner.milp.constraints.serving import Rows, Terms
    from planner.milp.instance import Instance
    from planner.milp.variables import Variables


def groups_fit_in_nodes(data: Instance, v: Variables) -> Rows:
    r"""(C30) The units of every size and above fit into the nodes of a domain, new and partly used.

    .. math:: \sum_{j : k_j \ge \kappa} k_j n_{jdt} - \kappa \lfloor s_d / \kappa \rfloor m_d
              \le \sum_v \kappa \lfloor f_{dv} / \kappa \rfloor
              \qquad \forall d, t, \kappa \in \{k_j\} \text{, a chain of divisors}
    """
    where = data.nodes or NO_NODES
    templates, sizes = units_at(data), sizes_at(data)
    for d in where.domains:
        for size in sizes[d] if is_chain(sizes[d]) else ():
            partly = sum(room(free, size) for free in where.free.get(d, ()))
            new = -float(room(where.node_devices[d], size))
            large = [j for j in templates[d] if data.devices[j] >= size]
            for t in data.T:
                used: Terms = {v.n[j, d, t]: float(data.devices[j]) for j in large}
                yield (d, str(size), t), Sum(used | {v.nodes.m[d]: new}) <= partly


def nodes_are_filled_in_known_ways(data: Instance, v: Variables) -> Rows:
    r"""(C31) Where sizes are no chain, nodes are filled in one of the ways in which they can be.

    .. math:: \sum_{j : k_j = \kappa} n_{jdt} - \sum_{i,k} \mathrm{way}_{ik\kappa} \pi_{dikt} \le 0
              \qquad \forall d, \kappa, t

    .. math:: \sum_k \pi_{dikt} \le \text{nodes of kind } i \qquad \forall d, i, t

    Kinds are the new nodes, of which there are :math:`m_d`, and partly used ones by what is free.
    """
    where = data.nodes or NO_NODES
    templates, sizes = units_at(data), sizes_at(data)
    for d, t in [(d, t) for d in where.domains if not is_chain(sizes[d]) for t in data.T]:
        ways = [
            (kind, way, column)
            for (of, kind, way, at), column in v.nodes.k.items()
            if (of, at) == (d, t)
        ]
        for i, size in enumerate(sizes[d]):
            filled: Terms = {v.n[j, d, t]: 1.0 for j in templates[d] if data.devices[j] == size}
            filled |= {column: -float(way[i]) for _, way, column in ways if way[i]}
            yield (d, str(size), t), Sum(filled) <= 0
        for kind in dict.fromkeys(kind for kind, _, _ in ways):
            nodes: Terms = {column: 1.0 for of, _, column in ways if of == kind}
            if kind == "new":
                yield (d, kind, t), Sum(nodes | {v.nodes.m[d]: -1.0}) <= 0
            else:
                there = sum(1 for free in where.free[d] if kind == f"free{free}")
                yield (d, kind, t), Sum(nodes) <= there


def nodes_are_held(data: Instance, v: Variables) -> Rows:
    r"""(C32) No more nodes of a domain are taken than can be had.

    .. math:: m_d \le M_d \qquad \forall d : M_d \text{ given}
    """
    where = data.nodes or NO_NODES
    for d in where.domains:
        if d in where.stock:
            yield (d,), Sum({v.nodes.m[d]: 1.0}) <= where.stock[d]


def regions_are_respected(data: Instance, v: Variables) -> Rows:
    r"""(C33) No unit stands where its workloads or its model may not be, or where it is too large.

    .. math:: \sum_{d : (j, d) \text{ barred or } k_j > s_d} n_{jdt} = 0 \qquad \forall j, t
    """
    where = data.nodes or NO_NODES
    for j in data.J:
        barred = [d for d in data.domains_of(j) if (j, d) in where.barred or not fits(data, j, d)]
        for t in data.T if barred else ():
            yield (j, t), Sum({v.n[j, d, t]: 1.0 for d in barred}) == 0


def power_is_kept(data: Instance, v: Variables) -> Rows:
    r"""(C34) The nodes of a power domain draw no more than it supplies; divided by that.

    .. math:: \frac{1}{P_A} \sum_{d \in A} P_d m_d \le 1 \qquad \forall A : P_A \text{ given}
    """
    where = data.nodes or NO_NODES
    for name, (members, watts) in where.power.items():
        drawn: Terms = {v.nodes.m[d]: where.node_watts.get(d, 0.0) / watts for d in members}
        yield (name,), Sum(drawn) <= 1
