"""``planner whatif own``: owning against renting."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.options import Json, Settings
from planner.cli.output import emit_json, emit_tables, require_writable, write_whole
from planner.errors import InputError


def own(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What owning and renting cost.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Also write a row per year (.csv)."),
    ] = None,
    draw: Annotated[
        Path | None,
        typer.Option("--draw", metavar="FILE", help="Also draw what owning saves (.svg)."),
    ] = None,
    settings: Settings = None,
    as_json: Json = False,
) -> int:
    """Weigh owning accelerators against renting them: cash, present value, and the flips.

    Also the utilisation above which owning pays, plain and discounted, and every assumption moved
    by a fifth.
    """
    for name, path, suffix in (("--output", output, ".csv"), ("--draw", draw, ".svg")):
        if path is not None and path.suffix != suffix:
            raise InputError(f"{name} {path}: must end in {suffix}")
    from planner.reporting.owning import owning_csv, owning_svg, owning_tables
    from planner.studies.owning import owning
    from planner.studies.owning_question import read_owning

    found = owning(read_owning(file, settings or []))
    for target, text in ((output, owning_csv), (draw, owning_svg)):
        if target is not None:
            require_writable(target, file)
            write_whole(target, text(found))
    if as_json:
        emit_json({"format_version": "1.0", **found.model_dump(mode="json")})
    else:
        emit_tables(*owning_tables(found))
    return 0
