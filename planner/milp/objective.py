"""What is wanted: each cost term is one function, and one line of the bill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from pulp import LpAffineExpression as Sum

from planner.milp.domains import NOWHERE

if TYPE_CHECKING:
    from planner.milp.instance import Instance
    from planner.milp.variables import Variables

Objective = Literal["min_cost", "max_goodput", "max_goodput_per_usd"]
"""The names of a scenario's ``objective``."""


def units_are_paid(data: Instance, v: Variables) -> Sum:
    r"""(O1) What the units cost, busy or idle, in USD/h.

    .. math:: \sum_{j} c_j n_j
    """
    return Sum({v.n[j]: float(data.usd_per_hour[j]) for j in data.J})


def nodes_are_paid(data: Instance, v: Variables) -> Sum:
    r"""(O5) What whole nodes cost, filled or not, in USD/h.

    .. math:: \sum_d p_d m_d
    """
    where = data.domains or NOWHERE
    return Sum({v.domains.m[d]: float(where.usd_per_hour[d]) for d in where.D})


def moves_are_paid(data: Instance, v: Variables) -> Sum:
    r"""(O6) What starting and stopping units costs, in USD/h.

    .. math:: \sum_{j,d} \mathrm{move} (\mathrm{up}_{jd} + \mathrm{down}_{jd})
    """
    usd_per_hour = data.domains.usd_per_move if data.domains else 0.0
    moved = [*v.domains.up.values(), *v.domains.down.values()] if usd_per_hour else []
    return Sum(dict.fromkeys(moved, usd_per_hour))


COSTS: Final = {"units": units_are_paid, "nodes": nodes_are_paid, "moves": moves_are_paid}
"""Cost terms by the name of their line in the bill."""


def hourly_cost(data: Instance, v: Variables) -> Sum:
    r"""(O2) The whole bill, in USD/h: the sum of the cost terms. Minimised by ``min_cost``.

    .. math:: C = \sum_c \mathrm{cost}_c
    """
    bill = Sum()
    for term in COSTS.values():
        bill += term(data, v)
    return bill


def compliant_goodput(data: Instance, v: Variables) -> Sum:
    r"""(O3) Compliant requests per second, weighted by their worth. Maximised by ``max_goodput``.

    .. math:: G = \sum_{j,o} \Bigl( \sum_w v_w g_{jow} \Bigr) x_{jo}
    """
    worth = {(j, o): 0.0 for j in data.J for o in data.O[j]}
    for (j, o, w), rate in data.goodput_rps.items():
        worth[j, o] += data.worth(w) * float(rate)
    return Sum({v.x[point]: rate for point, rate in worth.items()})


def goodput_less_cost(data: Instance, v: Variables, theta: float) -> Sum:
    r"""(O4) Goodput beyond what ``theta`` asks of every dollar. Maximised for the best ratio.

    .. math:: G - \theta C

    ``theta`` is in compliant requests per second per USD/h. At the best ratio the maximum
    is zero (Dinkelbach 1967).
    """
    return compliant_goodput(data, v) - theta * hourly_cost(data, v)
