"""Which failures matter, asked of the linear relaxation first: it answers in milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from planner.milp import highs
from planner.milp.formulation import model_of
from planner.milp.highs import Settings
from planner.milp.nodes import NO_NODES
from planner.milp.surviving import (
    AT_ONCE,
    named_apart,
    not_survived,
    with_full_nodes,
    with_losses,
)

if TYPE_CHECKING:
    from planner.milp.instance import Instance

ROUNDS: Final = 25
"""Most solves of the relaxation."""


def with_relaxed_losses(data: Instance, time_limit_s: float) -> Instance:
    """Return the instance with rows for the failures that not even fractions of units survive.

    The cheapest fractional fleet is tried against the failures of whole domains; those that it
    does not survive get rows, worst first, until it survives all, or the time is over. Failures
    of single nodes take whole units: of these, the fullest nodes get rows at once.

    Args:
        data: The instance.
        time_limit_s: For all solves.
    """
    spare = (data.nodes or NO_NODES).spare
    if spare is None:
        return data
    if spare.groups is None:
        return with_full_nodes(data)
    for _ in range(ROUNDS):
        model = model_of(data)
        answer = highs.run(model.cost_program().relaxed(), Settings(time_limit_s=time_limit_s))
        if answer.x is None:
            break
        value = dict(zip(model.program.columns, answer.x.tolist(), strict=True))
        units = {i: x for i, n in model.v.n.items() if (x := value[n.name]) > 0}
        worst = not_survived(data, units)[:AT_ONCE]
        if not worst:
            break
        known = (data.nodes or NO_NODES).losses
        data = with_losses(data, (*known, *named_apart(worst, known)))
    return data
