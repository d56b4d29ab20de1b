"""What the plan document is written from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.catalogue import Catalogue
    from planner.fleet import (
        Decision,
        DeferredResult,
        PeriodResult,
        PromiseKept,
        RobustResult,
        ScenarioResult,
        Settings,
        StressResult,
    )
    from planner.planning.breaking import Break
    from planner.planning.hourly import Adapted
    from planner.planning.lengths_sweep import Moved
    from planner.planning.prefixes import Cold
    from planner.planning.refine import Verified
    from planner.planning.sweep import Arrived
    from planner.problem.resolve import Problem
    from planner.scenario.load import LoadedScenario
    from planner.simulation.effort import Effort
    from planner.simulation.fleet import FleetSample, Study


@dataclass(frozen=True, slots=True)
class Answer:
    """What every document of one answer needs."""

    loaded: LoadedScenario
    problem: Problem
    study: Study
    catalogue: Catalogue
    created: str | None
    effort: Effort


@dataclass(frozen=True, slots=True)
class Tried:
    """The chosen fleet under other loads than it was planned for."""

    demand: Sequence[tuple[float, FleetSample]]
    arrivals: Sequence[Arrived]
    periods: tuple[PeriodResult, ...]
    decisions: tuple[Decision, ...] = ()
    """Made before this fleet was chosen."""
    deferred: tuple[DeferredResult, ...] = ()
    breaks: Sequence[Break] = ()
    """Where growing demand breaks each promise."""
    kept: PromiseKept | None = None
    """How sure the promises are if curves and demand are not exact."""
    lengths: Sequence[Moved] = ()
    """Under longer and shorter prompts and outputs, where a pool has groups."""
    scenarios: tuple[ScenarioResult, ...] = ()
    cold: Cold | None = None
    """The plan at a hit rate of 0, where prefixes are kept."""
    adapted: Adapted | None = None
    """The fleets by period, where the fleet adapts."""
    alone: Verified | None = None
    """The fleet before units were added for work that waits, where there is such work. What was
    decided between is compared with it."""
    robust: RobustResult | None = None
    """What it is worth to keep promises in most cases, where that is asked for."""
    stress: tuple[StressResult, ...] = ()
    """Under the presets that the scenario names."""
    settings: Settings | None = None
    """What its scheduler settings are worth."""
