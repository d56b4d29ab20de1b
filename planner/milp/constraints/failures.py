"""Rows about the fleet that is left after a failure; its traffic is routed anew.

Rows about a workload are divided by its demand, as those of the whole fleet are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulp import LpAffineExpression as Sum

from planner.milp.domains import NOWHERE, most_units

if TYPE_CHECKING:
    from planner.milp.constraints.serving import Rows, Terms
    from planner.milp.instance import Instance
    from planner.milp.variables import Variables


def survivors_run_at_operating_points(data: Instance, v: Variables) -> Rows:
    r"""(C28) After a failure only the units that are left run.

    .. math:: \sum_o x_{fjo} - n_j + \sum_{d \in f} a_{jd} + \sum_d q_{fjd} \le 0
              \qquad \forall f, j
    """
    where = data.domains or NOWHERE
    for f in where.losses:
        for j in data.J:
            left: Terms = {v.domains.x[f.id, j, o]: 1.0 for o in data.O[j]}
            left[v.n[j]] = -1.0
            for d in f.domains:
                if (j, d) in v.domains.a:
                    left[v.domains.a[j, d]] = 1.0
            for of, d in f.units:
                if of == j:
                    left[v.domains.lost[f.id, j, d]] = 1.0
            yield (f.id, j), Sum(left) <= 0


def a_node_takes_what_stands_in_it(data: Instance, v: Variables) -> Rows:
    r"""(C29) A failure of nodes takes the units that it says, or all of them if there are fewer.

    .. math:: q_{fjd} + l_{fjd} y_{fjd} \ge l_{fjd}, \qquad
              q_{fjd} - a_{jd} - U_{jd} y_{fjd} \ge -U_{jd}
              \qquad \forall f, j, d : l_{fjd} > 0

    With the binary :math:`y` at 0 at least ``l`` are lost, at 1 at least all; no fleet that is
    worth its price has more than :math:`U_{jd}` units there.
    """
    where = data.domains or NOWHERE
    for f in where.losses:
        for (j, d), units in f.units.items():
            lost, all_lost = v.domains.lost[f.id, j, d], v.domains.all_lost[f.id, j, d]
            yield (f.id, j, d, "some"), Sum({lost: 1.0, all_lost: float(units)}) >= units
            most = float(most_units(data, j, d, units))
            row: Terms = {lost: 1.0, v.domains.a[j, d]: -1.0, all_lost: -most}
            yield (f.id, j, d, "all"), Sum(row) >= -most


def survivors_are_offered_the_rest(data: Instance, v: Variables) -> Rows:
    r"""(C30) After a failure all demand reaches a unit that is left, or is turned away.

    .. math:: \sum_{j,o} \frac{\lambda_{jow}}{D_w} x_{fjo} + \frac{z_{fw}}{D_w} = 1
              \qquad \forall f, w
    """
    where = data.domains or NOWHERE
    for f in where.losses:
        shares: dict[str, Terms] = {w: {} for w in data.W}
        for (j, o, w), load in data.load_rps.items():
            if load > 0:
                shares[w][v.domains.x[f.id, j, o]] = float(load) / data.demand_rps[w]
        for w in data.W:
            turned = {v.domains.z[f.id, w]: 1 / data.demand_rps[w]}
            yield (f.id, w), Sum(shares[w] | turned) == 1


def losing_f_keeps_the_floor(data: Instance, v: Variables) -> Rows:
    r"""(C31) After a failure at least the floor of a workload's demand is still compliant.

    .. math:: \sum_{j,o} \frac{g_{jow}}{D_w} x_{fjo} \ge \alpha^f_w \qquad \forall f, w
    """
    where = data.domains or NOWHERE
    for f in where.losses:
        shares: dict[str, Terms] = {w: {} for w in data.W}
        for (j, o, w), goodput in data.goodput_rps.items():
            if goodput > 0:
                shares[w][v.domains.x[f.id, j, o]] = float(goodput) / data.demand_rps[w]
        for w in data.W:
            floor = where.spare.floor.get(w, 0.0) if where.spare else 0.0
            yield (f.id, w), Sum(shares[w]) >= floor
