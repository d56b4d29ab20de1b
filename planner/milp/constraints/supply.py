"""Rows that keep the fleet within what can be had and paid, and worth its while."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulp import LpAffineExpression as Sum

from planner.milp.objective import COSTS, compliant_goodput

if TYPE_CHECKING:
    from planner.milp.constraints.serving import Rows, Terms
    from planner.milp.instance import Instance
    from planner.milp.variables import Variables


def accelerators_are_held(data: Instance, v: Variables) -> Rows:
    r"""(C6) No more accelerators of a kind are used than can be had, in all and in a domain.

    .. math:: \sum_j k_{jg} N_{jt} \le R_g \qquad \forall g, t : R_g \text{ given}

    .. math:: \sum_j k_{jg} n_{jdt} \le R_{gd}
              \qquad \forall g, d, t : R_{gd} \text{ given}
    """
    of = {g: data.users_of(g) for g in data.G}
    for t in data.T:
        for g in data.G:
            if g in data.stock:
                used: Terms = {v.N[j, t]: k for j, k in of[g].items()}
                yield (g, t), Sum(used) <= data.stock[g]
        for (g, d), most in data.stock_in.items():
            here: Terms = {v.n[j, d, t]: k for j, k in of[g].items() if d in data.domains_of(j)}
            yield (g, d, t), Sum(here) <= most


def units_stay_within_their_limit(data: Instance, v: Variables) -> Rows:
    r"""(C7) No more units of a template than its limit.

    .. math:: N_{jt} \le m_j \qquad \forall j, t : m_j \text{ given}
    """
    for t in data.T:
        for j in data.J:
            if j in data.max_units:
                yield (j, t), Sum({v.N[j, t]: 1.0}) <= data.max_units[j]


def budget_is_kept(data: Instance, v: Variables) -> Rows:
    r"""(C8) The bill stays within the budget; divided by it, unless it is zero.

    .. math:: \frac{1}{B} \sum_c \mathrm{cost}_c \le 1 \qquad \text{if } B \text{ is given}
    """
    if data.budget_usd_per_hour is not None:
        budget = data.budget_usd_per_hour
        scale = budget or 1.0
        bill: Terms = {}
        for term in COSTS.values():
            for column, usd_per_hour in term(data, v).items():
                bill[column] = bill.get(column, 0.0) + usd_per_hour / scale
        yield (), Sum(bill) <= budget / scale


def goodput_reaches_its_floor(data: Instance, v: Variables) -> Rows:
    r"""(C9) All workloads together reach a goodput; divided by it, unless it is zero.

    .. math:: \frac{1}{F} \frac{1}{H} \sum_{j,o,t} h_t \Bigl( \sum_w v_w g_{jow} \Bigr) x_{jot}
              \ge 1 \qquad \text{if } F \text{ is given}

    The other half of the frontier of cost and goodput: the least cost of a goodput.
    """
    if data.goodput_floor_rps is not None:
        floor = data.goodput_floor_rps
        yield (), compliant_goodput(data, v) * (1 / (floor or 1.0)) >= floor / (floor or 1.0)
