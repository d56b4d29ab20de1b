"""Which of the two ways leads to the answer: simulated curves, or measured capacities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.errors import InputError
from planner.scenario.load import LoadedScenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.fleet import FleetPlan
    from planner.scenario.load import LoadedTables


def plan_question(
    loaded: LoadedScenario | LoadedTables,
    *,
    created: str | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> FleetPlan:
    """Plan a scenario of either form.

    Args:
        loaded: The scenario.
        created: Date or other text to write into the plan.
        progress: Told what is being done and about which share of the whole is done.

    Raises:
        InputError: The scenario names what does not exist or cannot be read.
    """
    _check_solver(loaded)
    if isinstance(loaded, LoadedScenario):
        from planner.planning.answer import plan_scenario  # heavy: simulation, candidates
        from planner.planning.clock import Clock
        from planner.planning.relaxing import with_relaxations

        clock = Clock(loaded.scenario.solver.time_limit)
        answer = plan_scenario(loaded, created=created, progress=progress, clock=clock)
        return with_relaxations(loaded, answer, clock=clock, progress=progress)
    from planner.planning.tables import plan_tables

    return plan_tables(loaded, created=created, progress=progress)


def _check_solver(loaded: LoadedScenario | LoadedTables) -> None:
    """Refuse a solver that is not there before anything is measured."""
    from planner.milp import check_solver

    try:
        check_solver(loaded.scenario.solver.name)
    except InputError as error:
        raise InputError(f"{loaded.at('solver', 'name')}: solver.name: {error}") from error
