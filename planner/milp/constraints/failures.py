"""Rows about the fleet that is left after a failure; its traffic is routed anew.

Rows about a workload are divided by its demand, as those of the whole fleet are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulp import LpAffineExpression as Sum

from planner.milp.nodes import NO_NODES, most_units

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.milp.constraints.serving import Rows, Terms
    from planner.milp.instance import Instance
    from planner.milp.nodes import Loss
    from planner.milp.variables import Variables


def survivors_run_at_operating_points(data: Instance, v: Variables) -> Rows:
    r"""(C37) After a failure only the units that are left run.

    .. math:: \sum_o x_{fjot} - N_{jt} + \sum_{d \in f} n_{jdt} + \sum_d q_{fjdt} \le 0
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
                    left[v.nodes.lost[f.id, j, d, t]] = 1.0
            yield (f.id, j, t), Sum(left) <= 0


def a_node_takes_what_stands_in_it(data: Instance, v: Variables) -> Rows:
    r"""(C38) A failure of nodes takes the units that it says, or all of them if there are fewer.

    .. math:: q_{fjdt} + l_{fjd} y_{fjdt} \ge l_{fjd}, \qquad
              q_{fjdt} - n_{jdt} - U_{jd} y_{fjdt} \ge -U_{jd}
              \qquad \forall f, j, d, t : l_{fjd} > 0

    With the binary :math:`y` at 0 at least ``l`` are lost, at 1 at least all; no fleet that is
    worth its price has more than :math:`U_{jd}` units there.
    """
    for f, t in _failing(data):
        for (j, d), units in f.units.items():
            index = (f.id, j, d, t)
            lost, all_lost = v.nodes.lost[index], v.nodes.all_lost[index]
            yield (*index, "some"), Sum({lost: 1.0, all_lost: float(units)}) >= units
            most = float(most_units(data, j, d, units))
            row: Terms = {lost: 1.0, v.n[j, d, t]: -1.0, all_lost: -most}
            yield (*index, "all"), Sum(row) >= -most


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


def _failing(data: Instance) -> Iterator[tuple[Loss, str]]:
    """Yield every failure that has rows, in every period."""
    for f in (data.nodes or NO_NODES).losses:
        for t in data.T:
            yield f, t
