"""The decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulp

from planner.milp.deferral import NOTHING
from planner.milp.domains import DomainVariables, declare_domains

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from planner.milp.instance import Instance


@dataclass(frozen=True, slots=True)
class Variables:
    """One mapping per symbol; keys are the symbol's indices."""

    n: Mapping[str, pulp.LpVariable]
    """n_j: units of template j (integer)."""
    x: Mapping[tuple[str, str], pulp.LpVariable]
    """x_jo: units of template j that run at point o (a weight, not integer)."""
    z: Mapping[str, pulp.LpVariable]
    """z_w: load of workload w that is turned away, req/s; fixed at 0 without a shed limit."""
    u: Mapping[tuple[str, str, str], pulp.LpVariable]
    """u_jbt: units of template j lent to deferrable workload b in period t (integer)."""
    y: Mapping[tuple[str, str], pulp.LpVariable]
    """y_bk: what is done of deferrable workload b in slot k, requests."""
    q: Mapping[tuple[str, str], pulp.LpVariable]
    """q_bk: what of b waits at the end of slot k, requests; at most what came in its window."""
    domains: DomainVariables
    """Where units stand, and what is left of them after a failure."""


def name_of(family: str, index: Iterable[str]) -> str:
    """Name a row or column ``family(i,j)``, the spelling that PuLP leaves nearly alone.

    PuLP writes ``-`` as ``_``; ids hold no underscore, so names stay apart.
    """
    return f"{family}({','.join(index)})"


def declare(problem: pulp.LpProblem, data: Instance) -> Variables:
    """Add every decision variable to the problem."""
    work = data.deferral or NOTHING
    lent = [(j, b, t) for b in work.B for j in work.lenders(b) for t in work.T]
    slots = [(b, k) for b in work.B for k in work.S]
    fewest = data.min_units
    return Variables(
        n={
            j: problem.add_variable(name_of("n", (j,)), fewest.get(j, 0), None, pulp.LpInteger)
            for j in data.J
        },
        x={
            (j, o): problem.add_variable(name_of("x", (j, o)), 0)
            for j in data.J
            for o in data.points_of(j)
        },
        z={
            w: problem.add_variable(name_of("z", (w,)), 0, None if w in data.shed_limit else 0)
            for w in data.W
        },
        u={i: problem.add_variable(name_of("u", i), 0, None, pulp.LpInteger) for i in lent},
        y={i: problem.add_variable(name_of("y", i), 0) for i in slots},
        q={i: problem.add_variable(name_of("q", i), 0, work.latest(*i)) for i in slots},
        domains=declare_domains(problem, data),
    )
