"""``planner explain``: why this plan, and why not another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.options import Json
from planner.cli.output import emit_json, emit_tables


def explain(
    file: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan.json.")],
    why_not: Annotated[
        str | None,
        typer.Option(
            "--why-not",
            metavar="TEXT",
            help="Only what TEXT names: part of a template, or h200.tp8.fp8.",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Say why a plan is as it is, and why not another."""
    from planner.explanation.why import explain_plan
    from planner.fleet import read_plan
    from planner.reporting.why import why_tables

    why = explain_plan(read_plan(file), why_not)
    if as_json:
        emit_json(why.model_dump(mode="json"))
    else:
        emit_tables(*why_tables(why))
    return 0
