"""``planner explain``: why this plan, and why not another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.options import Json
from planner.cli.output import emit_json, emit_tables, write_whole
from planner.errors import InputError


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
    draw: Annotated[
        Path | None,
        typer.Option("--draw", metavar="FILE", help="Also draw the placement as a page (.html)."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Say why a plan is as it is, and why not another."""
    if draw is not None and draw.suffix != ".html":
        raise InputError(f"--draw {draw}: a page ends in .html")
    from planner.explanation.why import explain_plan
    from planner.fleet import read_plan
    from planner.reporting.why import why_tables

    plan = read_plan(file)
    if draw is not None:
        from planner.reporting.placement_html import placement_page

        write_whole(draw, placement_page(plan))
    why = explain_plan(plan, why_not)
    if as_json:
        emit_json(why.model_dump(mode="json"))
    else:
        emit_tables(*why_tables(why))
    return 0
