"""Rows about the terms on which accelerators are held, and how their number changes.

A step (a, b) is a change of period: b begins where a ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pulp import LpAffineExpression as Sum

from planner.milp.terms import NONE

if TYPE_CHECKING:
    from planner.milp.constraints.serving import Rows, Terms
    from planner.milp.instance import Instance
    from planner.milp.variables import Variables

SOON: Final = 1e-9
"""Hours, shorter than any span: what has just been started."""


def terms_stay_within_their_stock(data: Instance, v: Variables) -> Rows:
    r"""(C14) No more accelerators are held on a term than can be had on it.

    .. math:: \sum_d R_{gcd} \le Q_{gc}, \quad \sum_d O_{gcdt} \le Q_{gc}
              \qquad \forall g, c, t : Q_{gc} \text{ given}

    Of owned accelerators there are as many as there are: =.
    """
    terms = data.terms or NONE
    for (g, c), term in terms.of.items():
        if term.stock is None:
            continue
        if term.steady:
            held: Terms = {v.R[g, c, d]: 1.0 for d in data.homes_of(g)}
            owned = term.kind == "owned"
            yield (g, c), Sum(held) == term.stock if owned else Sum(held) <= term.stock
            continue
        for t in data.T:
            yield (g, c, t), Sum({v.O[g, c, d, t]: 1.0 for d in data.homes_of(g)}) <= term.stock


def what_is_used_is_held(data: Instance, v: Variables) -> Rows:
    r"""(C21) Units stand on accelerators that are held on some term.

    .. math:: \sum_j k_{jg} n_{jdt} - \sum_c R_{gcd} - \sum_c O_{gcdt} \le 0
              \qquad \forall g, d, t : g \text{ has terms}
    """
    terms = data.terms or NONE
    for g in (g for g in data.G if terms.priced(g)):
        mine = data.users_of(g)
        for d in data.homes_of(g):
            held: Terms = {v.R[g, c, d]: -1.0 for of, c in terms.steady() if of == g}
            for t in data.T:
                row = held | {v.n[j, d, t]: k for j, k in mine.items() if (j, d, t) in v.n}
                row |= {v.O[g, c, d, t]: -1.0 for of, c in terms.hired() if of == g}
                yield (g, d, t), Sum(row) <= 0


def spot_is_bounded(data: Instance, v: Variables) -> Rows:
    r"""(C15) No more than a share of the accelerators that are held in a period is spot.

    .. math:: \sum_{c \text{ spot},d} O_{gcdt}
              \le \varphi_g \Bigl( \sum_{c,d} R_{gcd} + \sum_{c,d} O_{gcdt} \Bigr)
              \qquad \forall g, t : \varphi_g \text{ given}
    """
    terms = data.terms or NONE
    for g, share in terms.spot_share.items():
        for t in data.T:
            row: Terms = {}
            for of, c in terms.of:
                for d in data.homes_of(g) if of == g else ():
                    term = terms.of[g, c]
                    column = v.R[g, c, d] if term.steady else v.O[g, c, d, t]
                    row[column] = (1.0 if term.kind == "spot" else 0.0) - share
            yield (g, t), Sum(row) <= 0


def starts_are_counted(data: Instance, v: Variables) -> Rows:
    r"""(C16) Accelerators that are hired in a period and were not in the one before are started.

    .. math:: O_{gcdb} - O_{gcda} - Y_{gcdab} \le 0 \qquad \forall g, c, d, (a,b)
    """
    for (g, c, d, a, b), started in v.Y.items():
        yield (
            (g, c, d, a, b),
            Sum({v.O[g, c, d, b]: 1.0, v.O[g, c, d, a]: -1.0, started: -1.0}) <= 0,
        )


def unit_starts_are_counted(data: Instance, v: Variables) -> Rows:
    r"""(C17) Units that run in a period and did not in the one before are started.

    .. math:: n_{jdb} - n_{jda} - y_{jdab} \le 0
              \qquad \forall j, d, (a,b) : \exists g : k_{jg} s_g > 0
    """
    for (j, d, a, b), started in v.s.items():
        yield (j, d, a, b), Sum({v.n[j, d, b]: 1.0, v.n[j, d, a]: -1.0, started: -1.0}) <= 0


def units_start_before_they_serve(data: Instance, v: Variables) -> Rows:
    r"""(C18) While a period ends, the next one's new units start beside those that still serve.

    .. math:: \sum_j k_{jg} (n_{jda} + y_{jdab})
              \le \sum_c R_{gcd} + \sum_c (O_{gcda} + Y_{gcdab})
              \qquad \forall g, d, (a,b) : s_g > 0

    What is started needs accelerators for the s_g hours before its period begins: free ones
    that are held, or hired ones that are paid for that long (O9).
    """
    terms = data.terms or NONE
    for g in terms.start_hours:
        if terms.start_hours[g] <= 0:
            continue
        mine = data.users_of(g)
        for a, b in data.order().steps():
            for d in data.homes_of(g):
                row: Terms = {v.n[j, d, a]: k for j, k in mine.items() if (j, d, a) in v.n}
                row |= {v.s[j, d, a, b]: k for j, k in mine.items() if (j, d, a) in v.n}
                row |= {v.R[g, c, d]: -1.0 for of, c in terms.steady() if of == g}
                for of, c in terms.hired():
                    if of == g:
                        row |= {v.O[g, c, d, a]: -1.0, v.Y[g, c, d, a, b]: -1.0}
                yield (g, d, a, b), Sum(row) <= 0


def what_is_hired_stays_its_time(data: Instance, v: Variables) -> Rows:
    r"""(C19) What was started less than its least time ago is still held.

    .. math:: \sum_{(a,b) \in L_{gck}} Y_{gcdab} \le O_{gcdt_k} \qquad \forall g, c, d, k

    L_gck are the steps after which less than the least hours have passed when span k begins, the
    one into span k among them: what is started for a period is held in it.
    Accelerators of a kind are alike, so that the oldest can be given back first: then the row
    is all that the rule asks.
    """
    terms, order = data.terms or NONE, data.order()
    for g, c in terms.startable():
        least = max(terms.of[g, c].least_hours, SOON)
        seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
        for k, t in enumerate(order.spans):
            steps = order.within(k, least)
            if not steps or (t, tuple(steps)) in seen:
                continue
            seen.add((t, tuple(steps)))
            for d in data.homes_of(g):
                row: Terms = {v.O[g, c, d, t]: -1.0}
                for a, b in steps:
                    row[v.Y[g, c, d, a, b]] = row.get(v.Y[g, c, d, a, b], 0.0) + 1.0
                yield (g, c, d, str(k)), Sum(row) <= 0


def fleets_change_within_their_ramp(data: Instance, v: Variables) -> Rows:
    r"""(C20) From one period to the next the accelerators in use change by no more than a limit.

    .. math:: \Bigl| \sum_j k_{jg} (N_{jb} - N_{ja}) \Bigr| \le r_g
              \qquad \forall g, (a,b) : r_g \text{ given}
    """
    terms = data.terms or NONE
    for g, most in terms.ramp.items():
        mine = data.users_of(g)
        for a, b in data.order().steps():
            for way, sign in (("up", 1.0), ("down", -1.0)):
                row: Terms = {v.N[j, b]: sign * k for j, k in mine.items()}
                row |= {v.N[j, a]: -sign * k for j, k in mine.items()}
                yield (g, way, a, b), Sum(row) <= most
