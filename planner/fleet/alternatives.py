"""What else could have been, by the points that were measured."""

from __future__ import annotations

from planner.fleet.figures import Count
from planner.spec import Spec


class RunnerUp(Spec):
    """The best fleet without something that the plan has."""

    without: str
    """An accelerator or a pool of the plan."""
    pools: tuple[str, ...]
    """Such as ``12 x TEMPLATE``; empty where there is no such fleet within the limits."""
    usd_per_hour: float | None
    objective: float | None
    loses: float | None
    """By which share its objective is worse than the plan's at the same points."""


class PriceRange(Spec):
    """Prices of one accelerator between which the plan stays the best fleet.

    Covers the templates and operating points that were measured, at the prices of all other
    accelerators as they are.
    """

    accelerator: str
    usd_per_hour: float
    """As it is now."""
    low: float | None
    """Below it the fleet of ``below`` is better; None: no price brings another fleet."""
    high: float | None
    """Above it the fleet of ``above`` is better; None: no price does."""
    below: tuple[str, ...]
    above: tuple[str, ...]


class Alternatives(Spec):
    """Roads not taken, each solved again over the measured operating points; not simulated."""

    runners_up: tuple[RunnerUp, ...] = ()
    price_ranges: tuple[PriceRange, ...] = ()
    covers: str = ""


class Change(Spec):
    """Units of a pool before and after, where a current plan was given."""

    pool: str
    before: Count
    after: Count
    moves: Count = 0
    """Units started and stopped; in whole nodes, one that changes its place is both."""
