"""The plan that runs now: its units by template."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.errors import InputError
from planner.fleet import read_plan

if TYPE_CHECKING:
    from planner.errors import Where
    from planner.scenario.load import LoadedScenario


def current_units(
    loaded: LoadedScenario, mistakes: list[tuple[Where | str, str]]
) -> tuple[tuple[str, int], ...]:
    """Read the units of the current plan, in the order of its pools; none without one.

    A plan without a fleet has none; a file that is no plan is a mistake.
    """
    named = loaded.scenario.current_plan
    if named is None:
        return ()
    try:
        plan = read_plan(loaded.folder / named)
    except InputError as error:
        mistakes.append((loaded.at("current_plan"), f"current_plan: {error}"))
        return ()
    return tuple((pool.id, pool.replicas) for pool in plan.pools)
