"""How far off a curve's step times may be, as one factor on all of them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from planner.curves.curve import Curve


def step_sigma(curve: Curve, stated: float | None = None) -> float:
    """Return the standard deviation of the log of a curve's step times against the truth.

    A normal variable whose mean absolute value is the curve's stated mean error.

    Args:
        curve: The curve.
        stated: Mean absolute relative error, in place of the curve's own.
    """
    mean = curve.relative_error.mean if stated is None else stated
    return mean * math.sqrt(math.pi / 2)


def slower(curve: Curve, deviations: float, stated: float | None = None) -> Curve:
    """Return a curve whose steps are so many standard deviations longer; no other fact changes."""
    if deviations == 0:
        return curve
    factor = math.exp(step_sigma(curve, stated) * deviations)
    plain = curve.token_by_token
    return replace(
        curve,
        step_law=curve.step_law.slowed(factor),
        token_by_token=None if plain is None else plain.slowed(factor),
    )
