"""``planner schema``: the JSON Schema of the documents, for editors and other programs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from planner.cli.options import Json
from planner.cli.output import emit_json


class Kind(StrEnum):
    """A kind of document."""

    scenario = "scenario"
    table_scenario = "table-scenario"
    plan = "plan"


def schema(
    kind: Annotated[Kind, typer.Argument(help="Which document.")] = Kind.scenario,
    as_json: Json = False,
) -> int:
    """Print the JSON Schema of a document, with or without --json.

    A scenario with measured capacities (capacity_tables) is a table-scenario.
    """
    del as_json  # the schema has no other form
    from planner.fleet import FleetPlan
    from planner.scenario.scenario import Scenario
    from planner.scenario.table_scenario import TableScenario
    from planner.spec import Spec

    documents: dict[Kind, type[Spec]] = {
        Kind.scenario: Scenario,
        Kind.table_scenario: TableScenario,
        Kind.plan: FleetPlan,
    }
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    emit_json(head | documents[kind].model_json_schema())
    return 0
