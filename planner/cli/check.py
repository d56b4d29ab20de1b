"""``planner check``: read scenarios and report every mistake."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from planner.cli.options import Json, Settings
from planner.cli.output import emit, emit_json, note
from planner.errors import InputError

_PLACE: Final = re.compile(r"^(?P<file>.+?):(?P<line>\d+):(?P<column>\d+): (?P<message>.*)$")


def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Scenarios to read.")],
    settings: Settings = None,
    as_json: Json = False,
) -> int:
    """Read scenarios and report every mistake with its line; plan nothing."""
    code = 0
    reports: list[dict[str, Any]] = []
    for path in files:
        report = {"file": str(path), "ok": True, "mistakes": []}
        try:
            summary = _summary(path, settings or [])
        except InputError as error:
            code = error.exit_code
            report |= {"ok": False, "mistakes": [_mistake(x) for x in str(error).split("\n")]}
            if not as_json:
                note(str(error))
        else:
            if not as_json:
                emit(f"{path}: ok ({summary})\n")
        reports.append(report)
    if as_json:
        emit_json({"files": reports})
    return code


def _summary(path: Path, settings: list[str]) -> str:
    from planner.catalogue import Catalogue
    from planner.problem.resolve import resolve
    from planner.problem.tables import resolve_tables
    from planner.reporting.format import count
    from planner.scenario.load import LoadedScenario, load_question

    loaded = load_question(path, settings)
    if isinstance(loaded, LoadedScenario):
        resolve(loaded, Catalogue())
        workloads, offers = loaded.scenario.workloads, loaded.scenario.accelerators
        held = count(len(offers), "accelerator")
        if nodes := loaded.scenario.nodes:
            held = count(len(nodes), "kind") + " of nodes"
        return f"{count(len(workloads), 'workload')}, {held}"
    table = resolve_tables(loaded)
    return f"{count(len(table.demanded), 'bucket')}, {count(len(table.templates), 'template')}"


def _mistake(line: str) -> dict[str, Any]:
    """Split a line of an error into its place and its sentence."""
    found = _PLACE.match(line)
    if found is None:
        return {"line": None, "column": None, "message": line}
    return {
        "line": int(found["line"]),
        "column": int(found["column"]),
        "message": found["message"],
    }
