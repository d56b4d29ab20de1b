"""``planner diff``: two plans, cost first, then what moves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.options import Json
from planner.cli.output import emit_json, emit_tables


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A plan.json.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Another.")],
    as_json: Json = False,
) -> int:
    """Say what a new plan does differently: cost, fleet, promises and question."""
    from planner.explanation.difference import difference
    from planner.fleet import read_plan
    from planner.reporting.difference import difference_tables

    found = difference(read_plan(old), read_plan(new))
    if as_json:
        emit_json({"format_version": "1.0", **found.model_dump(mode="json")})
    else:
        first, second = old.name, new.name
        if first == second:
            first, second = str(old), str(new)
        emit_tables(*difference_tables(found, first, second))
    return 0
