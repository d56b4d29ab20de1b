"""``planner simulate``: a plan, or an engine case, request by request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from planner.cli.options import Json, Seed
from planner.cli.output import emit_json, emit_tables, note, progress
from planner.errors import InputError

BROKEN: Final = 5


def simulate(
    file: Annotated[Path | None, typer.Argument(metavar="[PLAN]", help="A plan.json.")] = None,
    seed: Seed = None,
    as_json: Json = False,
    engine_case: Annotated[
        Path | None,
        typer.Option("--engine-case", metavar="FILE", help="Simulate one engine case instead."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare with what the engine case expects.")
    ] = False,
) -> int:
    """Simulate a plan; exit code 5 if a promise is broken."""
    if (file is None) == (engine_case is None):
        what = "both are given" if file is not None else "neither is given"
        raise InputError(f"give either a PLAN or --engine-case FILE; {what}")
    if engine_case is not None:
        from planner.cli.simulate_case import run_engine_case

        return run_engine_case(engine_case, as_json, check)
    if check:
        raise InputError("--check belongs to --engine-case; remove it or name a case")
    return _simulate_plan(file, seed, as_json=as_json) if file is not None else 0


def _simulate_plan(file: Path, seed: int | None, *, as_json: bool) -> int:
    from planner.fleet import read_plan
    from planner.planning import simulate_plan
    from planner.reporting.tables import workload_table

    fleet = read_plan(file)
    with progress() as report:
        results = simulate_plan(fleet, seed=seed, progress=report)
    if as_json:
        emit_json({"workloads": [result.model_dump(mode="json") for result in results]})
    else:
        emit_tables(workload_table(results))
    verdicts = {result.verdict for result in results}
    if "undecided" in verdicts:
        note("undecided: the interval holds the promise; more requests would tell")
    return BROKEN if "broken" in verdicts else 0
