"""``planner whatif STUDY.yaml``: one scenario, planned for every combination of values."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from planner.cli.cache import CacheDir, NoCache
from planner.cli.options import Json, Settings
from planner.cli.output import emit_json, emit_tables, note, progress, write_whole
from planner.errors import InputError, LimitReachedError

if TYPE_CHECKING:
    from planner.studies.grid import Study
    from planner.studies.runner import StudyRow
    from planner.studies.store import RunStore

INFEASIBLE: Final = 3


def study(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A study, or a scenario with --over.")
    ],
    over: Annotated[
        list[str] | None,
        typer.Option(
            "--over",
            metavar="PATH=VALUES",
            help="Values of a path of the scenario: PATH=A,B,C or PATH=LOW..HIGH/STEPS. Repeats;"
            " all combinations are planned, the first changes slowest.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Write rows.csv and rows.json here, and keep every plan: asked again, only what"
            " is missing is planned.",
        ),
    ] = None,
    plans: Annotated[
        bool, typer.Option("--plans", help="Also write every plan.json into DIR/plans.")
    ] = False,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", min=1, max=1000, help="Plan each on so many draws of its own."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, max=256, help="Processes; as many as processors."),
    ] = None,
    most: Annotated[
        int, typer.Option("--most", min=1, max=1_000_000, help="Refuse more runs than this.")
    ] = 1000,
    settings: Settings = None,
    as_json: Json = False,
    cache_dir: CacheDir = None,
    no_cache: NoCache = False,
) -> int:
    """Plan a scenario for every combination of values, named alternatives and seeds.

    One row a run. An interrupt, or a kill, keeps what is done; the same command goes on.
    """
    if plans and output is None:
        raise InputError("--plans: there is no folder for them; add -o DIR")
    if cache_dir is not None and no_cache:
        raise InputError("--no-cache: contradicts --cache-dir; give one of them")
    from planner.reporting.study import study_csv, study_tables
    from planner.scenario.load import load_question
    from planner.simulation.point_folder import cache_folder
    from planner.simulation.side_by_side import processors
    from planner.spec import dump_json
    from planner.studies.grid import runs_of
    from planner.studies.runner import Asked, study_rows

    asked, scenario = _study(file, over or [], settings or [], seeds)
    loaded = load_question(scenario)
    runs = runs_of(asked, loaded, most)
    store = None if output is None else _folder(output, file, plans=plans)
    folder = None if no_cache else cache_dir or cache_folder(os.environ)

    def keep(row: StudyRow, plan: str) -> None:
        if plans and output is not None and row.status != "failed":
            write_whole(output / "plans" / f"{row.run:04}.json", plan)

    try:
        with progress() as report:
            found = study_rows(
                Asked(asked.name, runs, loaded, scenario),
                store,
                jobs=jobs or processors(),
                cache=folder,
                progress=report,
                kept=keep,
            )
    finally:
        if store is not None:
            store.close()
    if output is not None:
        write_whole(output / "rows.csv", study_csv(found))
        write_whole(output / "rows.json", dump_json(found))
    if as_json:
        emit_json({"format_version": "1.0", **found.model_dump(mode="json")})
    else:
        emit_tables(*study_tables(found))
    failed = sum(row.status == "failed" for row in found.rows)
    if found.ended or failed:
        note(found.ended or f"{failed} of {len(found.rows)} runs failed; their rows say why")
        return LimitReachedError.exit_code
    return 0 if any(row.usd_per_hour is not None for row in found.rows) else INFEASIBLE


def _study(
    file: Path, over: list[str], settings: list[str], seeds: int | None
) -> tuple[Study, Path]:
    """Read a study, or make one of a scenario and axes in words; return it and its scenario."""
    from planner.source import read_source
    from planner.spec import validate
    from planner.studies.grid import Study, axis_of_words

    source = read_source(file)
    axes = [axis_of_words(text) for text in over]
    if isinstance(source.data, dict) and "scenario" in source.data:
        asked = validate(source, Study)
        more = {
            "settings": (*asked.settings, *settings),
            "over": (*asked.over, *axes),
            "seeds": seeds or asked.seeds,
        }
        given = {name: getattr(asked, name) for name in Study.model_fields}
        return _valid({**given, **more}), file.parent / asked.scenario
    if not axes and seeds is None:
        raise InputError(
            f"{file}: is no study (it names no scenario); give --over PATH=VALUES to make one of a"
            " scenario"
        )
    made = {
        "format_version": "1.0",
        "name": file.stem[:100] or "study",
        "scenario": file.name,
        "settings": tuple(settings),
        "over": tuple(axes),
        "seeds": seeds or 1,
    }
    return _valid(made), file


def _valid(given: dict[str, object]) -> Study:
    """Make a study of parts from the file and the command line."""
    from pydantic import ValidationError

    from planner.studies.grid import Study

    try:
        return Study.model_validate(given)
    except ValidationError as error:
        told = (f"--over: {one['msg']}" for one in error.errors())
        raise InputError("\n".join(dict.fromkeys(told))) from error


def _folder(output: Path, file: Path, *, plans: bool) -> RunStore:
    """Make the folder of the results where it is missing, and open its database."""
    from planner.studies.store import RunStore

    if os.path.realpath(output) == os.path.realpath(file):
        raise InputError(f"{output}: is the study itself; name a folder")
    try:
        output.mkdir(exist_ok=True)
        if plans:
            (output / "plans").mkdir(exist_ok=True)
    except FileExistsError as error:
        raise InputError(f"{output}: is a file; name a folder") from error
    except (OSError, ValueError) as error:
        raise InputError(
            f"{output}: cannot be made: {getattr(error, 'strerror', error)}"
        ) from error
    return RunStore(output)
