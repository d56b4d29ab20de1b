"""The question that a plan answered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from planner.scenario.load import LoadedScenario
from planner.scenario.scenario import Scenario
from planner.source import parse_yaml, write_yaml
from planner.spec import validate

if TYPE_CHECKING:
    from planner.fleet import FleetPlan

NAME: Final = "the plan's scenario"
"""What errors call it."""


def answered_scenario(plan: FleetPlan, folder: Path = Path()) -> LoadedScenario:
    """Read the scenario that stands in a plan, as one from a file.

    Args:
        plan: The plan.
        folder: Where files that the scenario names by a relative path lie.

    Raises:
        InputError: It is no scenario, as only a hand leaves it.
    """
    written = parse_yaml(write_yaml(plan.scenario.document), NAME)
    source = replace(written, places={(): NAME})  # it has no lines of its own that anybody sees
    return LoadedScenario(validate(source, Scenario), source, folder)
