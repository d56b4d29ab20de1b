"""How sure a plan's promises are where curves and demand are not exact."""

from __future__ import annotations

from planner.fleet.figures import Count, Interval, ShareOfAll, Verdict
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


class OtherFleet(Spec):
    """A fleet beside that of the plan, and in how many cases it keeps its promises."""

    usd_per_hour: float
    pools: tuple[str, ...]
    """Such as ``12 x TEMPLATE``."""
    kept_in: ShareOfAll
    """Share of the cases in which every promise is kept, on the draws that the choice saw."""
    kept_in_fresh: ShareOfAll
    """The same on fresh draws."""


class RobustResult(Spec):
    """A plan that keeps its promises in most cases, beside one for what is stated."""

    keep_in: ShareOfAll
    """Share of the cases in which every promise shall be kept."""
    demand_cv: float
    curve_error: float | None
    """Mean absolute error of step times; null where that of each curve is taken."""
    planned_multiple: float
    """Of the stated demand, for which the fleet was planned."""
    planned_deviations: float
    """Standard deviations of step times, for which the fleet was planned."""
    kept_in: ShareOfAll
    """As for other fleets."""
    kept_in_fresh: ShareOfAll
    plain: OtherFleet
    """The fleet that would be planned for demand and step times as stated."""
    too_few: OtherFleet | None = None
    """The dearest that was found below the plan: whole replicas lie between the two."""
    price_usd_per_hour: float
    """By how much the fleet is dearer than the plain one."""
    searches: Count
    """Fleets that were planned, the plain one among them."""


class StressResult(Spec):
    """The fixed fleet if the demand is other than planned for in a way that has a name."""

    preset: str
    what: str
    attainment: dict[str, Interval]
    """By workload; those that have no requests are left out."""
    verdicts: dict[str, Verdict]
    unstable: bool
    """A backlog grows without end; attainment is what the simulated span gave."""
