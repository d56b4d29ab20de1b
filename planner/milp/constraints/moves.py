"""Rows about moves: what is started and stopped against the units of today."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulp import LpAffineExpression as Sum

from planner.milp.moves import NO_MOVES

if TYPE_CHECKING:
    from planner.milp.constraints.serving import Rows, Terms
    from planner.milp.instance import Instance
    from planner.milp.variables import Variables


def moves_are_counted(data: Instance, v: Variables) -> Rows:
    r"""(C35) What is started beyond today's units, and what is stopped of them.

    .. math:: n_{jdt} - \mathrm{up}_{jdt} + \mathrm{down}_{jdt} = c_{jd} \qquad \forall j, d, t

    Of what is no template, or has no place left, only :math:`\mathrm{down}_{jdt}` is there.
    """
    moves = data.moves or NO_MOVES
    for (j, d, t), down in v.moves.down.items():
        change: Terms = {down: 1.0}
        if (j, d, t) in v.moves.up:
            change = {v.n[j, d, t]: 1.0, v.moves.up[j, d, t]: -1.0, down: 1.0}
        yield (j, d, t), Sum(change) == moves.current.get((j, d), 0)


def moves_are_limited(data: Instance, v: Variables) -> Rows:
    r"""(C36) No more units are started and stopped than the scenario allows.

    .. math:: \sum_{j,d} (\mathrm{up}_{jdt} + \mathrm{down}_{jdt}) \le \mathrm{moves}
              \qquad \forall t
    """
    moves = data.moves or NO_MOVES
    if moves.most is None:
        return
    for t in data.T:
        moved: Terms = {
            column: 1.0
            for columns in (v.moves.up, v.moves.down)
            for (_, _, at), column in columns.items()
            if at == t
        }
        yield (t,), Sum(moved) <= moves.most
