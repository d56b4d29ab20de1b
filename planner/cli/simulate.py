"""``planner simulate``: a plan, or an engine case, request by request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from planner.cli.cache import CacheDir, NoCache, remembered_simulations
from planner.cli.options import Json, Seed
from planner.cli.output import emit_json, emit_tables, note, progress
from planner.cli.simulate_trace import TraceWish
from planner.errors import InputError

BROKEN: Final = 5
MOST_TRACED: Final = 20_000
SIMULATED: Final = 4_000
"""Requests of a pool among which those that are traced are looked for, at least."""


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
    trace_out: Annotated[
        Path | None,
        typer.Option(
            "--trace-out", metavar="FILE", help="Write requests as trace events, for Perfetto."
        ),
    ] = None,
    otlp_out: Annotated[
        Path | None,
        typer.Option(
            "--otlp-out", metavar="FILE", help="Write requests as OpenTelemetry spans in JSON."
        ),
    ] = None,
    only_missed: Annotated[
        bool, typer.Option("--only-missed", help="Write only requests that missed a deadline.")
    ] = False,
    max_requests: Annotated[
        int,
        typer.Option(
            "--max-requests", min=1, max=MOST_TRACED, help="Write so many of each pool at most."
        ),
    ] = 200,
    cache_dir: CacheDir = None,
    no_cache: NoCache = False,
) -> int:
    """Simulate a plan; exit code 5 if a promise is broken."""
    wish = TraceWish(trace_out, otlp_out, only_missed, max_requests)
    wish.check(file, engine_case)
    if (file is None) == (engine_case is None):
        what = "both are given" if file is not None else "neither is given"
        raise InputError(f"give either a PLAN or --engine-case FILE; {what}")
    if engine_case is not None:
        from planner.cli.simulate_case import run_engine_case

        code = run_engine_case(engine_case, as_json, check)
        if wish.wanted:
            from planner.attribution.traced_case import trace_case
            from planner.simulation.engine_case import read_case

            wish.write([trace_case(read_case(engine_case), str(engine_case))])
        return code
    if check:
        raise InputError("--check belongs to --engine-case; remove it or name a case")
    if file is None:
        return 0
    with remembered_simulations(cache_dir, no_cache):
        code = _simulate_plan(file, seed, as_json=as_json)
    if wish.wanted:
        _trace_plan(file, seed, wish)
    return code


def _trace_plan(file: Path, seed: int | None, wish: TraceWish) -> None:
    from planner.fleet import read_plan
    from planner.planning.tracing import trace_plan

    asked = max(SIMULATED, 4 * wish.most)
    wish.write(trace_plan(read_plan(file), seed=seed, requests=asked, folder=Path()))


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
