"""What is wanted: each cost term is one function, and one line of the bill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from pulp import LpAffineExpression as Sum

from planner.milp import payments
from planner.milp.moves import NO_MOVES
from planner.milp.nodes import NO_NODES
from planner.milp.terms import NONE

if TYPE_CHECKING:
    from planner.milp.instance import Instance
    from planner.milp.variables import Variables

Objective = Literal["min_cost", "max_goodput", "max_goodput_per_usd"]
"""The names of a scenario's ``objective``."""


def units_are_paid(data: Instance, v: Variables) -> Sum:
    r"""(O1) What the units cost, busy or idle, in USD/h: a mean over the hours of all periods.

    .. math:: \frac{1}{H} \sum_{j,t} h_t c_j N_{jt}, \qquad H = \sum_t h_t

    Units whose accelerators are held on terms are paid by these (O5 to O9).
    """
    terms = data.terms or NONE
    return Sum(
        {
            v.N[j, t]: share * float(data.usd_per_hour[j])
            for t, share in data.shares().items()
            for j in data.J
            if not terms.priced(data.accelerator_of[j])
        }
    )


def nodes_are_paid(data: Instance, v: Variables) -> Sum:
    r"""(O20) What whole nodes cost, filled or not, in USD/h.

    .. math:: \sum_d p_d m_d
    """
    where = data.nodes or NO_NODES
    return Sum({v.nodes.m[d]: float(where.usd_per_hour[d]) for d in where.domains})


def moves_are_paid(data: Instance, v: Variables) -> Sum:
    r"""(O21) What starting and stopping units costs, in USD/h.

    .. math:: \sum_t h_t \sum_{j,d} \mathrm{move} (\mathrm{up}_{jdt} + \mathrm{down}_{jdt})

    The hours are shares of all hours.
    """
    usd_per_hour, shares = (data.moves or NO_MOVES).usd_per_hour, data.shares()
    return Sum(
        {
            column: usd_per_hour * shares[t]
            for columns in (v.moves.up, v.moves.down)
            for (_, _, t), column in columns.items()
            if usd_per_hour
        }
    )


COSTS: Final = {
    "units": units_are_paid,
    "owned": payments.owned_accelerators_are_kept,
    "reserved": payments.reservations_are_paid,
    "on-demand": payments.hours_on_demand_are_paid,
    "spot": payments.spot_hours_are_paid,
    "starting": payments.starting_is_paid,
    "nodes": nodes_are_paid,
    "moves": moves_are_paid,
}
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

    .. math:: G = \frac{1}{H} \sum_{j,o,t} h_t \Bigl( \sum_w v_w g_{jow} \Bigr) x_{jot}
    """
    worth = {(j, o): 0.0 for j in data.J for o in data.O[j]}
    for (j, o, w), rate in data.goodput_rps.items():
        worth[j, o] += data.worth(w) * float(rate)
    return Sum(
        {
            v.x[j, o, t]: share * rate
            for t, share in data.shares().items()
            for (j, o), rate in worth.items()
        }
    )


def goodput_less_cost(data: Instance, v: Variables, theta: float) -> Sum:
    r"""(O4) Goodput beyond what ``theta`` asks of every dollar. Maximised for the best ratio.

    .. math:: G - \theta C

    ``theta`` is in compliant requests per second per USD/h. At the best ratio the maximum
    is zero (Dinkelbach 1967).
    """
    return compliant_goodput(data, v) - theta * hourly_cost(data, v)
