"""The decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulp

from planner.milp.deferral import NOTHING
from planner.milp.indices import ALONE, named
from planner.milp.links import LinkVariables, declare_links
from planner.milp.moves import MoveVariables, declare_moves
from planner.milp.nodes import NodeVariables, declare_nodes
from planner.milp.terms import NONE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from planner.milp.instance import Instance


@dataclass(frozen=True, slots=True)
class Variables:
    """One mapping per symbol; keys are the symbol's indices, names leave out what stands alone."""

    n: Mapping[tuple[str, str, str], pulp.LpVariable]
    """n_jdt: units of template j in domain d in period t (integer)."""
    N: Mapping[tuple[str, str], pulp.LpVariable]
    """N_jt: units of template j in period t; with one domain the column n itself."""
    x: Mapping[tuple[str, str, str], pulp.LpVariable]
    """x_jot: units of template j that run at point o in period t (a weight, not integer)."""
    z: Mapping[tuple[str, str], pulp.LpVariable]
    """z_wt: load of workload w turned away in period t, req/s; 0 without a shed limit."""
    u: Mapping[tuple[str, str, str], pulp.LpVariable]
    """u_jbt: units of template j lent to deferrable workload b in period t (integer)."""
    y: Mapping[tuple[str, str], pulp.LpVariable]
    """y_bk: what is done of deferrable workload b in slot k, requests."""
    q: Mapping[tuple[str, str], pulp.LpVariable]
    """q_bk: what of b waits at the end of slot k, requests; at most what came in its window."""
    nodes: NodeVariables
    """Nodes that are taken, and what is left after a failure."""
    moves: MoveVariables
    """What is started and stopped against today."""
    R: Mapping[tuple[str, str, str], pulp.LpVariable]
    """R_gcd: accelerators g held on the steady term c in domain d in all periods (integer)."""
    O: Mapping[tuple[str, str, str, str], pulp.LpVariable]  # noqa: E741 - as on the page
    """O_gcdt: accelerators g hired on term c in domain d in period t (integer)."""
    Y: Mapping[tuple[str, str, str, str, str], pulp.LpVariable]
    """Y_gcdab: of these, those that are started for period b after period a (integer)."""
    s: Mapping[tuple[str, str, str, str], pulp.LpVariable]
    """y_jdab: units of j in d that are started for period b after period a."""
    r: Mapping[tuple[str, str, str], pulp.LpVariable]
    """r_fit: 1 if row i of fit f is kept in period t, where f has several (binary)."""
    links: LinkVariables
    """Ways that units take, where they share links."""


def name_of(family: str, index: Iterable[str]) -> str:
    """Name a row or column ``family(i,j)``, the spelling that PuLP leaves nearly alone.

    PuLP writes ``-`` as ``_``; ids hold no underscore, so names stay apart.
    """
    return f"{family}({','.join(named(index))})"


def declare(problem: pulp.LpProblem, data: Instance) -> Variables:
    """Add every decision variable to the problem."""
    work = data.deferral or NOTHING
    terms, steps = data.terms or NONE, data.order().steps()
    slow = {g for g, hours in terms.start_hours.items() if hours > 0}
    lent = [(j, b, t) for b in work.B for j in work.lenders(b) for t in work.T]
    slots = [(b, k) for b in work.B for k in work.S]
    apart = data.D != (ALONE,)
    n = {
        (j, d, t): problem.add_variable(
            name_of("n", (j, d, t)), 0 if apart else _fewest(data, j), None, pulp.LpInteger
        )
        for t in data.T
        for j in data.J
        for d in data.domains_of(j)
    }
    return Variables(
        n=n,
        N={
            (j, t): problem.add_variable(name_of("N", (j, t)), _fewest(data, j))
            if apart
            else n[j, ALONE, t]
            for t in data.T
            for j in data.J
        },
        x={
            (j, o, t): problem.add_variable(name_of("x", (j, o, t)), 0)
            for t in data.T
            for j in data.J
            for o in data.points_of(j)
        },
        z={
            (w, t): problem.add_variable(
                name_of("z", (w, t)), 0, None if w in data.shed_limit else 0
            )
            for t in data.T
            for w in data.W
        },
        u={i: problem.add_variable(name_of("u", i), 0, None, pulp.LpInteger) for i in lent},
        y={i: problem.add_variable(name_of("y", i), 0) for i in slots},
        q={i: problem.add_variable(name_of("q", i), 0, work.latest(*i)) for i in slots},
        nodes=declare_nodes(problem, data),
        moves=declare_moves(problem, data),
        R={
            (g, c, d): problem.add_variable(name_of("R", (g, c, d)), 0, None, pulp.LpInteger)
            for g, c in terms.steady()
            for d in data.homes_of(g)
        },
        O={
            (g, c, d, t): problem.add_variable(name_of("O", (g, c, d, t)), 0, None, pulp.LpInteger)
            for g, c in terms.hired()
            for d in data.homes_of(g)
            for t in data.T
        },
        Y={
            (g, c, d, *step): problem.add_variable(
                name_of("Y", (g, c, d, *step)), 0, None, pulp.LpInteger
            )
            for g, c in terms.startable()
            for d in data.homes_of(g)
            for step in steps
        },
        s={
            (j, d, *step): problem.add_variable(name_of("y", (j, d, *step)), 0)
            for j in data.J
            for d in data.domains_of(j)
            for step in (steps if slow.intersection(data.kinds_of(j)) else ())
        },
        r={
            (fit.id, i, t): problem.add_variable(name_of("r", (fit.id, i, t)), 0, 1, pulp.LpInteger)
            for fit in data.fits
            for i, _ in fit.rows()
            for t in (data.T if len(fit.any_of) > 1 else ())
        },
        links=declare_links(problem, data),
    )


def _fewest(data: Instance, j: str) -> int:
    return data.min_units.get(j, 0)
