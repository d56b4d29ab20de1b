"""``planner confirm``: did the running fleet keep what its plan promised, and what differed?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.options import Json
from planner.cli.output import emit_json, emit_tables

BROKEN = 5


def confirm(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan.json.")],
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULTS...", help="Spans, or single requests of a benchmark, of its fleet."
        ),
    ],
    workload: Annotated[
        str | None,
        typer.Option("--workload", metavar="ID", help="Whose requests they are."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Hold measured requests against a plan; exit code 5 if a promise is broken.

    Each run is kept, broken or undecided, with the largest difference from the plan first.
    """
    from planner.explanation.confirm import confirm as confirmed
    from planner.fleet import read_plan
    from planner.measurements.staged import read_staged
    from planner.reporting.confirm import confirmation_tables

    promised = read_plan(plan)
    found = [
        (file.name, one)
        for file in results
        for one in confirmed(promised, read_staged(file), workload, Path())
    ]
    if as_json:
        runs = [{"file": name, **one.model_dump(mode="json")} for name, one in found]
        emit_json({"format_version": "1.0", "plan": plan.name, "runs": runs})
    else:
        emit_tables(*confirmation_tables(found))
    return BROKEN if any(one.verdict == "broken" for _, one in found) else 0
