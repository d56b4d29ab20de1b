"""The plan that runs now."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from planner.errors import InputError
from planner.fleet import read_plan

if TYPE_CHECKING:
    from planner.errors import Where
    from planner.fleet import FleetPlan
    from planner.scenario.load import LoadedScenario


def current_plan(
    loaded: LoadedScenario, mistakes: list[tuple[Where | str, str]]
) -> FleetPlan | None:
    """Read the current plan, None without one; a file that is no plan is a mistake."""
    named = loaded.scenario.current_plan
    if named is None:
        return None
    try:
        return read_plan(loaded.folder / named)
    except InputError as error:
        mistakes.append((loaded.at("current_plan"), f"current_plan: {error}"))
        return None


def units_of(plan: FleetPlan | None) -> tuple[tuple[str, int], ...]:
    """Return the units by template, in the order of its pools; a plan without a fleet has none.

    A pool that is listed twice, as only a hand writes it, has the units of both.
    """
    if plan is None:
        return ()
    found: Counter[str] = Counter()
    for pool in plan.pools:
        if pool.role != "decode":
            found[pool.group or pool.id] += pool.groups or pool.replicas
    return tuple(found.items())
