"""Rows of work that may wait for a period that leaves units free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulp import LpAffineExpression as Sum

if TYPE_CHECKING:
    from planner.milp.constraints.serving import Rows, Terms
    from planner.milp.instance import Instance
    from planner.milp.variables import Variables


def units_are_lent_when_free(data: Instance, v: Variables) -> Rows:
    r"""(C10) A period lends only units that its own load leaves free.

    .. math:: \sum_b u_{jbt} - n_j \le -e_{jt} \qquad \forall j, t : j \text{ lends}
    """
    work = data.deferral
    if work is None:
        return
    for j in data.J:
        mine = [b for b in work.B if j in work.lenders(b)]
        for t in work.T if mine else ():
            lent: Terms = {v.u[j, b, t]: 1.0 for b in mine}
            units = v.N[j, t if t in data.T else data.T[0]]
            yield (j, t), Sum(lent | {units: -1.0}) <= -work.kept.get((j, t), 0)


def work_is_done_by_lent_units(data: Instance, v: Variables) -> Rows:
    r"""(C11) What is done of a workload in a slot is at most what the units lent to it can do.

    .. math:: \frac{1}{A_b} y_{bk} - \frac{h}{A_b} \sum_j \kappa_{jb} u_{jb t_k} \le 0
              \qquad \forall b, k
    """
    work = data.deferral
    if work is None:
        return
    for b in work.B:
        scale = 1 / work.total(b)
        for k in work.S:
            t = work.period_of[k]
            lent: Terms = {
                v.u[j, b, t]: -work.slot_s * work.lent_rps[j, b] * scale for j in work.lenders(b)
            }
            yield (b, k), Sum(lent | {v.y[b, k]: scale}) <= 0


def deferred_work_is_done_in_its_window(data: Instance, v: Variables) -> Rows:
    r"""(C12) What waits grows by what comes and shrinks by what is done, slot after slot.

    .. math:: \frac{1}{A_b} \left( q_{bk} - q_{b,k-1} + y_{bk} \right) = \frac{a_{bk}}{A_b}
              \qquad \forall b, k

    The first slot follows the last. First come, first done: nothing has waited longer than its
    window as long as no more waits than came within it, which is the upper bound of q.
    """
    work = data.deferral
    if work is None:
        return
    for b in work.B:
        scale = 1 / work.total(b)
        for i, k in enumerate(work.S):
            change: Terms = {v.y[b, k]: scale}
            if len(work.S) > 1:
                change |= {v.q[b, k]: scale, v.q[b, work.S[i - 1]]: -scale}
            yield (b, k), Sum(change) == work.arriving.get((b, k), 0.0) * scale
