"""How sure a plan's promises are where curves and demand are not exact."""

from __future__ import annotations

from planner.fleet.figures import ShareOfAll
from planner.spec import Spec


class BearsPoint(Spec):
    """The demand that the fixed fleet bears with steps longer or shorter than its curves say."""

    deviations: float
    """Standard deviations by which the log of every step time is above the curve's."""
    multiples: dict[str, float]
    """By workload: multiple of the demand up to which its promise is kept; 0 where none is."""


class KeptChance(Spec):
    """P(promise kept) at one spread of the demand."""

    demand_cv: float
    """Coefficient of variation of the demand, lognormal about what is stated; 0: as stated."""
    kept: dict[str, ShareOfAll]
    """By workload."""
    all: ShareOfAll
    """That all promises are kept at once."""


class PromiseKept(Spec):
    """P(promise kept) given the stated errors of the curves and several spreads of the demand."""

    step_time_sigma: dict[str, float]
    """By curve: standard deviation of the log of step times, from the curve's stated error."""
    bears: tuple[BearsPoint, ...]
    """Between these the demand that is borne is interpolated."""
    chances: tuple[KeptChance, ...]
