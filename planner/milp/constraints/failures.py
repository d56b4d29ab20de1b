"""Rows about the fleet that is left after a failure; its traffic is routed anew.

Rows about a workload are divided by its demand, as those of the whole fleet are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulp import LpAffineExpression as Sum

from planner.milp.nodes import NO_NODES, most_devices, most_units, units_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.milp.constraints.serving import Rows, Terms
    from planner.milp.instance import Instance
    from planner.milp.nodes import Loss
    from planner.milp.variables import Variables


def survivors_run_at_operating_points(data: Instance, v: Variables) -> Rows:
    r"""(C37) After a failure only the units that are left run.

    .. math:: \sum_o x_{fjot} - N_{jt} + \sum_{d \in f} n_{jdt} + \sum_d q_{jdt}^{l_{fjd}} \le 0
              \qquad \forall f, j, t
    """
    for f, t in _failing(data):
        for j in data.J:
            left: Terms = {v.nodes.x[f.id, j, o, t]: 1.0 for o in data.O[j]}
            left[v.N[j, t]] = -1.0
            for d in data.domains_of(j):
                if d in f.domains:
                    left[v.n[j, d, t]] = 1.0
                elif (j, d) in f.units:
                    left[v.nodes.lost[j, d, f.units[j, d], t]] = 1.0
                elif (f.id, j, d, t) in v.nodes.filled:
                    left[v.nodes.filled[f.id, j, d, t]] = 1.0
            yield (f.id, j, t), Sum(left) <= 0


def a_node_takes_what_stands_in_it(data: Instance, v: Variables) -> Rows:
    r"""(C38) A failure of nodes takes the units that it says, or all of them if there are fewer.

    .. math:: q_{jdt}^l + l\, y_{jdt}^l \ge l, \qquad
              q_{jdt}^l - n_{jdt} - U_{jd} y_{jdt}^l \ge -U_{jd}, \qquad
              y_{jdt}^l \le y_{jdt}^{l'}
              \qquad \forall j, d, t, l < l' \in \{l_{fjd} > 0\}

    With the binary :math:`y` at 0 at least ``l`` are lost, at 1 at least all; no fleet that is
    worth its price has more than :math:`U_{jd}` units there. Where a smaller number is more than
    there are, a larger one is too.
    """
    numbers: dict[tuple[str, str, str], list[int]] = {}
    for j, d, units, t in v.nodes.lost:
        numbers.setdefault((j, d, t), []).append(units)
    for (j, d, t), of in numbers.items():
        most = float(most_units(data, j, d, max(of)))
        for fewer, units in zip((0, *sorted(of)), sorted(of), strict=False):
            lost, all_lost = v.nodes.lost[j, d, units, t], v.nodes.all_lost[j, d, units, t]
            index = (j, d, str(units), t)
            yield (*index, "some"), Sum({lost: 1.0, all_lost: float(units)}) >= units
            row: Terms = {lost: 1.0, v.n[j, d, t]: -1.0, all_lost: -most}
            yield (*index, "all"), Sum(row) >= -most
            if fewer:
                before: Terms = {v.nodes.all_lost[j, d, fewer, t]: 1.0, all_lost: -1.0}
                yield (*index, "order"), Sum(before) <= 0


def a_full_node_takes_its_devices(data: Instance, v: Variables) -> Rows:
    r"""(C41) A node that is full takes so many devices of whatever stands there, or all of it.

    .. math:: q_{fjdt} \le n_{jdt}, \qquad
              \sum_j k_j q_{fjdt} + e_{fd} y_{fdt} \ge e_{fd}, \qquad
              \sum_j k_j q_{fjdt} - \sum_j k_j n_{jdt} - U_d y_{fdt} \ge -U_d
              \qquad \forall f, j, d, t : e_{fd} > 0

    Which units these are is the fleet's choice here, and the failure's in truth: so the rows ask
    for less than all failures of nodes do, but for more than any few of them.
    """
    templates = units_at(data)
    for (f, d, t), emptied in v.nodes.emptied.items():
        mine = templates[d]
        devices = next(one.devices[d] for one in _losses(data) if one.id == f)
        for j in mine:
            some: Terms = {v.nodes.filled[f, j, d, t]: 1.0, v.n[j, d, t]: -1.0}
            yield (f, j, d, t), Sum(some) <= 0
        size = {j: float(data.devices[j]) for j in mine}
        taken: Terms = {v.nodes.filled[f, j, d, t]: size[j] for j in mine}
        yield (f, d, t, "some"), Sum(taken | {emptied: float(devices)}) >= devices
        most = float(most_devices(data, d, devices))
        there: Terms = {v.n[j, d, t]: -size[j] for j in mine}
        yield (f, d, t, "all"), Sum(taken | there | {emptied: -most}) >= -most


def survivors_are_offered_the_rest(data: Instance, v: Variables) -> Rows:
    r"""(C39) After a failure all demand reaches a unit that is left, or is turned away.

    .. math:: \sum_{j,o} \frac{\lambda_{jow}}{D_{wt}} x_{fjot} + \frac{z_{fwt}}{D_{wt}} = 1
              \qquad \forall f, w, t
    """
    for f, t in _failing(data):
        shares: dict[str, Terms] = {w: {} for w in data.W}
        for (j, o, w), load in data.load_rps.items():
            if load > 0:
                shares[w][v.nodes.x[f.id, j, o, t]] = float(load) / data.scale(w, t)
        for w in data.W:
            scale = data.scale(w, t)
            turned = {v.nodes.z[f.id, w, t]: 1 / scale}
            yield (f.id, w, t), Sum(shares[w] | turned) == data.demand(w, t) / scale


def losing_f_keeps_the_floor(data: Instance, v: Variables) -> Rows:
    r"""(C40) After a failure at least the floor of a workload's demand is still compliant.

    .. math:: \sum_{j,o} \frac{g_{jow}}{D_{wt}} x_{fjot} \ge \alpha^f_w \qquad \forall f, w, t
    """
    where = data.nodes or NO_NODES
    for f, t in _failing(data):
        shares: dict[str, Terms] = {w: {} for w in data.W}
        for (j, o, w), goodput in data.goodput_rps.items():
            if goodput > 0:
                shares[w][v.nodes.x[f.id, j, o, t]] = float(goodput) / data.scale(w, t)
        for w in data.W:
            floor = where.spare.floor.get(w, 0.0) if where.spare else 0.0
            asked = floor * data.demand(w, t) / data.scale(w, t)
            yield (f.id, w, t), Sum(shares[w]) >= asked


def _losses(data: Instance) -> tuple[Loss, ...]:
    return (data.nodes or NO_NODES).losses


def _failing(data: Instance) -> Iterator[tuple[Loss, str]]:
    """Yield every failure that has rows, in every period."""
    for f in (data.nodes or NO_NODES).losses:
        for t in data.T:
            yield f, t
