"""``planner plan``: the fleet that keeps the promises, as a table and as ``plan.json``."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from planner.cli.cache import CacheDir, NoCache, remembered_simulations
from planner.cli.options import Json, Output, Seed, Settings, seconds, share
from planner.cli.output import emit, emit_tables, note, progress, require_writable, write_whole
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.fleet import FleetPlan
    from planner.scenario.load import LoadedScenario, LoadedTables

EXIT_CODES: Final = {"optimal": 0, "infeasible": 3, "feasible": 4, "unknown": 4}
"""By status: ``feasible`` and ``unknown`` mean that the work ended before the proof."""


def plan(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="The scenario.")] = None,
    output: Output = None,
    as_json: Json = False,
    settings: Settings = None,
    seed: Seed = None,
    gap: Annotated[
        str | None,
        typer.Option("--gap", metavar="SHARE", help="Proven distance to the best, such as 0.1%."),
    ] = None,
    time_limit: Annotated[
        str | None,
        typer.Option("--time-limit", metavar="TIME", help="When to stop, such as 60s."),
    ] = None,
    solver: Annotated[
        str | None,
        typer.Option("--solver", metavar="NAME", help="highs, or another that PuLP finds here."),
    ] = None,
    created: Annotated[
        str | None,
        typer.Option("--created", metavar="TEXT", help="Date to write into the plan."),
    ] = None,
    no_extrapolation: Annotated[
        bool,
        typer.Option("--no-extrapolation", help="Refuse curves outside their measured range."),
    ] = False,
    from_plan: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="PLAN",
            help="The plan.json that runs now: begin with it, move little, say what changes.",
        ),
    ] = None,
    capacity_table: Annotated[
        Path | None,
        typer.Option(
            "--capacity-table",
            metavar="FILE",
            help="Plan the cheapest fleet by a JSON table of measured capacities instead.",
        ),
    ] = None,
    cache_dir: CacheDir = None,
    no_cache: NoCache = False,
) -> int:
    """Find the best fleet that keeps every promise, and prove it.

    The table goes to standard output, or the plan document with --json; -o writes the document
    to a file as well.
    """
    from planner.scenario.load import LoadedScenario, solver_settings
    from planner.spec import dump_json

    changes = [
        *(settings or []),
        *solver_settings(seconds("--time-limit", time_limit), share("--gap", gap), seed, solver),
        *(["policies.extrapolation=false"] if no_extrapolation else []),
        *_begin_with(file, from_plan),
    ]
    loaded = _load(file, capacity_table, changes)
    if output is not None:
        require_writable(output, file, from_plan, capacity_table)
    from planner.planning import plan_question  # heavy: after all that can be refused at once

    simulated = isinstance(loaded, LoadedScenario)  # measured capacities need no simulation
    runs = remembered_simulations(cache_dir, no_cache) if simulated else contextlib.nullcontext()
    with runs, progress() as report:
        answer = plan_question(loaded, created=created, progress=report)
    try:
        if output is not None:
            write_whole(output, dump_json(answer))
    finally:
        _show(answer, as_json=as_json)  # what was found is shown even if the disk is full
    return EXIT_CODES[answer.status]


def _begin_with(file: Path | None, plan: Path | None) -> list[str]:
    """Name a plan as seen from the folder of the scenario."""
    if plan is None:
        return []
    if file is None:
        raise InputError("--from: only a scenario can begin with a plan; give FILE")
    seen = os.path.relpath(plan, file.parent)
    return [f"current_plan={json.dumps(seen, ensure_ascii=False)}"]


def _load(
    file: Path | None, capacity_table: Path | None, changes: list[str]
) -> LoadedScenario | LoadedTables:
    from planner.scenario.load import load_question, question_of_table

    if file is not None and capacity_table is None:
        return load_question(file, changes)
    if capacity_table is not None and file is None:
        return question_of_table(capacity_table, changes)
    what = "both are given" if file is not None else "neither is given"
    raise InputError(f"give either FILE or --capacity-table FILE; {what}")


def _show(answer: FleetPlan, *, as_json: bool) -> None:
    if as_json:
        from planner.spec import dump_json

        emit(dump_json(answer))
    else:
        from planner.reporting.tables import plan_table

        emit_tables(*plan_table(answer))
    if answer.status == "feasible":
        note(f"this is the best plan so far, not proven best: {answer.evidence.unproven}")
