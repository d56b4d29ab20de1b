"""What accelerators cost on each term: each function is one line of the bill.

All are means over the hours of all periods, in USD/h: what is steady is paid in every period,
what is hired in the periods in which it is held, and while it starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulp import LpAffineExpression as Sum

from planner.milp.terms import NONE

if TYPE_CHECKING:
    from planner.milp.instance import Instance
    from planner.milp.terms import Kind
    from planner.milp.variables import Variables


def owned_accelerators_are_kept(data: Instance, v: Variables) -> Sum:
    r"""(O5) What owned accelerators cost to keep, used or not.

    .. math:: \sum_{g,c,d : c \text{ owned}} c_{gc} R_{gcd}
    """
    return _steady(data, v, "owned")


def reservations_are_paid(data: Instance, v: Variables) -> Sum:
    r"""(O6) What reserved accelerators cost, used or not.

    .. math:: \sum_{g,c,d : c \text{ reserved}} c_{gc} R_{gcd}
    """
    return _steady(data, v, "reserved")


def hours_on_demand_are_paid(data: Instance, v: Variables) -> Sum:
    r"""(O7) What accelerators on demand cost in the periods in which they are held.

    .. math:: \frac{1}{H} \sum_{g,c,d,t : c \text{ on demand}} h_t c_{gc} O_{gcdt}
    """
    return _hired(data, v, "on-demand")


def spot_hours_are_paid(data: Instance, v: Variables) -> Sum:
    r"""(O8) What spot accelerators cost in the periods in which they are held.

    .. math:: \frac{1}{H} \sum_{g,c,d,t : c \text{ spot}} h_t c_{gc} O_{gcdt}
    """
    return _hired(data, v, "spot")


def starting_is_paid(data: Instance, v: Variables) -> Sum:
    r"""(O9) What hired accelerators cost while they start, before they serve.

    .. math:: \frac{1}{H} \sum_{g,c,d,(a,b)} m_{ab} s_g c_{gc} Y_{gcdab}

    m_ab is how often period b begins after period a.
    """
    terms = data.terms or NONE
    often, total = data.order().steps(), sum(data.hours.get(t, 1.0) for t in data.T)
    return Sum(
        {
            column: often[a, b]
            * terms.start_hours.get(g, 0.0)
            * terms.of[g, c].usd_per_hour
            / total
            for (g, c, _, a, b), column in v.Y.items()
            if terms.start_hours.get(g, 0.0) > 0
        }
    )


def _steady(data: Instance, v: Variables, kind: Kind) -> Sum:
    terms = data.terms or NONE
    return Sum(
        {
            column: float(terms.of[g, c].usd_per_hour)
            for (g, c, _), column in v.R.items()
            if terms.of[g, c].kind == kind
        }
    )


def _hired(data: Instance, v: Variables, kind: Kind) -> Sum:
    terms, shares = data.terms or NONE, data.shares()
    return Sum(
        {
            column: shares[t] * terms.of[g, c].usd_per_hour
            for (g, c, _, t), column in v.O.items()
            if terms.of[g, c].kind == kind
        }
    )
