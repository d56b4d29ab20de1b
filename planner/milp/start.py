"""A fleet to begin with: the units of a plan as columns of a program."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from planner.milp import highs
from planner.milp.goals import units_by_template
from planner.milp.highs import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.milp.formulation import Model
    from planner.milp.program import Floats

TIME_S = 10.0
"""For the linear program that says how the units run."""


def incumbent(model: Model, units: Mapping[str, int]) -> Floats | None:
    """Return columns at which a fleet keeps every row, shape ``(c,)``; None if it keeps not all.

    Args:
        model: The written program.
        units: By template; templates that the program does not know are left out.
    """
    program = model.goodput_program()
    columns = units_by_template(model)
    if any(len(own) > 1 for own in columns.values()):
        return None  # units have a time as well, which a plan's totals do not tell
    lower, upper = program.lower.copy(), program.upper.copy()
    for j, own in columns.items():
        lower[own] = upper[own] = float(units.get(j, 0))
    fixed = dataclasses.replace(program, lower=lower, upper=upper)
    answer = highs.run(fixed, Settings(time_limit_s=TIME_S))
    return None if answer.x is None else np.asarray(answer.x, dtype=float)
