"""Rows about what the nodes have room for, as a placement showed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulp import LpAffineExpression as Sum

if TYPE_CHECKING:
    from planner.milp.constraints.serving import Rows, Terms
    from planner.milp.instance import Instance
    from planner.milp.variables import Variables


def fleets_have_room(data: Instance, v: Variables) -> Rows:
    r"""(C28) Units keep what the nodes have room for; of several such rows those that are chosen.

    .. math:: \sum_j a_{fij} N_{jt} + (M_{fi} - b_{fi}) r_{fit} \le M_{fi} \qquad \forall f, i, t

    Where f has one row only, r is 1 and no column.
    """
    for t in data.T:
        for fit in data.fits:
            for i, row in fit.rows():
                held: Terms = {v.N[j, t]: float(a) for j in data.J if (a := row.weights.get(j, 0))}
                chosen = v.r.get((fit.id, i, t))
                if chosen is None:
                    yield (fit.id, i, t), Sum(held) <= row.most
                else:
                    held[chosen] = float(row.reach - row.most)
                    yield (fit.id, i, t), Sum(held) <= row.reach


def one_way_to_have_room_is_chosen(data: Instance, v: Variables) -> Rows:
    r"""(C29) Of several rows of which every fleet with a place keeps one, one at least is chosen.

    .. math:: \sum_i r_{fit} \ge 1 \qquad \forall f, t \text{ with several rows}
    """
    for t in data.T:
        for fit in data.fits:
            if len(fit.any_of) > 1:
                yield (fit.id, t), Sum({v.r[fit.id, i, t]: 1.0 for i, _ in fit.rows()}) >= 1
