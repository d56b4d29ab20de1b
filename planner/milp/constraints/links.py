"""Rows about links that units share: where sides stand, and what their KV takes of each link."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulp import LpAffineExpression as Sum

from planner.milp.links import NO_LINKS

if TYPE_CHECKING:
    from planner.milp.constraints.serving import Rows, Terms
    from planner.milp.instance import Instance
    from planner.milp.variables import Variables


def units_stand_on_ways(data: Instance, v: Variables) -> Rows:
    r"""(C50) A unit whose sides lie apart stands on one of its ways.

    .. math:: \sum_{p \in P_j} \mathrm{on}_{jpt} - N_{jt} = 0
              \qquad \forall j, t : P_j \text{ given}
    """
    where = data.links or NO_LINKS
    for t in data.T:
        for j in data.J:
            if j in where.ways:
                row: Terms = {v.links.on[j, p, t]: 1.0 for p in where.ways[j]}
                yield (j, t), Sum(row | {v.N[j, t]: -1.0}) == 0


def sides_stand_where_there_is_room(data: Instance, v: Variables) -> Rows:
    r"""(C51) The sides of units on ways find their accelerators in the places of the ways.

    .. math:: \sum_{j,p} k_{jpgd}\, \mathrm{on}_{jpt} \le R_{gd} \qquad \forall g, d, t

    Other units stand anywhere: C6 counts them with all.
    """
    where = data.links or NO_LINKS
    for t in data.T:
        rows: dict[tuple[str, str], Terms] = {}
        for j in data.J:
            for p in where.ways.get(j, ()):
                for place, count in where.held.get((j, p), {}).items():
                    row = rows.setdefault(place, {})
                    row[v.links.on[j, p, t]] = float(count)
        for (g, d), row in rows.items():
            yield (g, d, t), Sum(row) <= where.room[g, d]


def what_is_sent_is_carried(data: Instance, v: Variables) -> Rows:
    r"""(C52) The ways of a template carry what its units send at their points.

    .. math:: \sum_{p \in P_j} \mathrm{flow}_{jpt}
              - \sum_o \frac{\beta_{jo}}{b_j} x_{jot} = 0 \qquad \forall j, t : P_j \text{ given}

    Flows are counted in units that send their most, b_j.
    """
    where = data.links or NO_LINKS
    for t in data.T:
        for j in data.J:
            if j in where.ways:
                most = where.most(data, j)
                row: Terms = {v.links.flow[j, p, t]: 1.0 for p in where.ways[j]}
                row |= {v.x[j, o, t]: -where.sent.get((j, o), 0.0) / most for o in data.O[j]}
                yield (j, t), Sum(row) == 0


def a_flow_needs_units(data: Instance, v: Variables) -> Rows:
    r"""(C53) A way carries no more than the units on it send at their most.

    .. math:: \mathrm{flow}_{jpt} - \mathrm{on}_{jpt} \le 0 \qquad \forall j, p, t
    """
    for index, flow in v.links.flow.items():
        yield index, Sum({flow: 1.0, v.links.on[index]: -1.0}) <= 0


def links_carry_their_kv(data: Instance, v: Variables) -> Rows:
    r"""(C54) The KV that goes over a link is no more than it carries; divided by it.

    .. math:: \sum_{j, p \ni l} \frac{b_j}{B_l} \mathrm{flow}_{jpt} \le 1 \qquad \forall l, t
    """
    where = data.links or NO_LINKS
    for t in data.T:
        rows: dict[str, Terms] = {}
        for j in data.J:
            most = where.most(data, j) if j in where.ways else 0.0
            for p in where.ways.get(j, ()):
                for name in where.over.get((j, p), ()):
                    row = rows.setdefault(name, {})
                    row[v.links.flow[j, p, t]] = most / where.carries[name]
        for name, row in rows.items():
            yield (name, t), Sum(row) <= 1
