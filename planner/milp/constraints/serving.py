"""Rows that tie traffic to units.

Rows about a workload are divided by its demand: they speak of shares, so a tolerance of the
solver means the same share of a workload of 1e-5 req/s as of one of 1e7 req/s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulp import LpAffineExpression as Sum

from planner.milp.indices import ALONE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pulp import LpConstraint, LpVariable

    from planner.milp.instance import Instance
    from planner.milp.variables import Variables

    Rows = Iterator[tuple[tuple[str, ...], LpConstraint]]
    Terms = dict[LpVariable, float]


def units_run_at_operating_points(data: Instance, v: Variables) -> Rows:
    r"""(C1) Every unit runs at an operating point, or at a mix of them; idle is a point.

    .. math:: \sum_{o \in O_j} x_{jot} - N_{jt} = 0 \qquad \forall j, t
    """
    for t in data.T:
        for j in data.J:
            weights: Terms = {v.x[j, o, t]: 1.0 for o in data.points_of(j)}
            yield (j, t), Sum(weights | {v.N[j, t]: -1.0}) == 0


def every_request_is_offered(data: Instance, v: Variables) -> Rows:
    r"""(C2) All demand reaches a unit, unless the scenario lets some of it be turned away.

    .. math:: \sum_{j,o} \frac{\lambda_{jow}}{D_{wt}} x_{jot} + \frac{z_{wt}}{D_{wt}} = 1
              \qquad \forall w, t

    Where nothing comes in a period, nothing is offered in it.
    """
    for t in data.T:
        shares = _shares(data, v, data.load_rps, t)
        for w in data.W:
            offered = 1 if data.demand(w, t) > 0 else 0
            yield (w, t), Sum(shares[w] | {v.z[w, t]: 1 / data.scale(w, t)}) == offered


def the_promise_is_kept(data: Instance, v: Variables) -> Rows:
    r"""(C3) The promised share of all demand meets every deadline (joint attainment).

    .. math:: \sum_{j,o} \frac{g_{jow}}{D_{wt}} x_{jot} \ge \alpha_w
              \qquad \forall w, t : D_{wt} > 0
    """
    for t in data.T:
        shares = _shares(data, v, data.goodput_rps, t)
        for w in data.W:
            if data.demand(w, t) > 0:
                yield (w, t), Sum(shares[w]) >= data.promise[w]


def a_share_needs_a_unit(data: Instance, v: Variables) -> Rows:
    r"""(C4) No unit, no share: where one unit could carry more than a workload's demand.

    .. math:: \sum_{o \in O_j} \frac{\lambda_{jow}}{D_{wt}} x_{jot} - N_{jt} \le 0
              \qquad \forall j, w, t : \max_o \lambda_{jow} > D_{wt} > 0

    C1 and C2 imply it for whole units: the left sum is at most 1 by C2, and 0 with no unit.
    It is written because C1 alone would let a unit of 1e3 req/s carry a demand of 1e-5 req/s
    within the solver's tolerance of no unit at all, and because it tightens the relaxation.
    Elsewhere C1 implies it, whole units or not.
    """
    by_template = _loads_by_template(data)
    for t in data.T:
        for (j, w), loads in by_template.items():
            demand_rps = data.demand(w, t)
            if max(loads.values()) > demand_rps > 0:
                shares: Terms = {v.x[j, o, t]: load / demand_rps for o, load in loads.items()}
                yield (j, w, t), Sum(shares | {v.N[j, t]: -1.0}) <= 0


def shedding_stays_within_its_limit(data: Instance, v: Variables) -> Rows:
    r"""(C5) No more of a workload is turned away than the scenario allows.

    .. math:: \frac{z_{wt}}{D_{wt}} \le s_w \qquad \forall w, t : s_w \text{ given}
    """
    for t in data.T:
        for w in data.W:
            if w in data.shed_limit:
                share = {v.z[w, t]: 1 / data.scale(w, t)}
                yield (w, t), Sum(share) <= data.shed_limit[w]


def units_are_counted_over_domains(data: Instance, v: Variables) -> Rows:
    r"""(C13) The units of a template are those in all domains; only where there are several.

    .. math:: N_{jt} - \sum_d n_{jdt} = 0 \qquad \forall j, t
    """
    if data.D == (ALONE,):
        return
    for t in data.T:
        for j in data.J:
            here: Terms = {v.n[j, d, t]: -1.0 for d in data.domains_of(j)}
            yield (j, t), Sum(here | {v.N[j, t]: 1.0}) == 0


def _shares(
    data: Instance, v: Variables, rates: Mapping[tuple[str, str, str], float], t: str
) -> dict[str, Terms]:
    """Return, per workload, the share of its demand in ``t`` that a unit at each point carries."""
    shares: dict[str, Terms] = {w: {} for w in data.W}
    scale = {w: data.scale(w, t) for w in data.W}
    for (j, o, w), rate in rates.items():
        if rate > 0:
            shares[w][v.x[j, o, t]] = float(rate) / scale[w]
    return shares


def _loads_by_template(data: Instance) -> dict[tuple[str, str], dict[str, float]]:
    """Return the loads above zero as ``loads[j, w][o]``, req/s."""
    loads: dict[tuple[str, str], dict[str, float]] = {}
    for (j, o, w), load in data.load_rps.items():
        if load > 0:
            loads.setdefault((j, w), {})[o] = float(load)
    return loads
