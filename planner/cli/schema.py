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
    plan = "plan"


def schema(
    kind: Annotated[Kind, typer.Argument(help="Which document.")] = Kind.scenario,
    as_json: Json = False,
) -> int:
    """Print the JSON Schema of a document, with or without --json."""
    del as_json  # the schema has no other form
    from planner.fleet import FleetPlan
    from planner.scenario.scenario import Scenario

    document = Scenario if kind is Kind.scenario else FleetPlan
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    emit_json(head | document.model_json_schema())
    return 0
