"""``planner new``: a scenario to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.cli.options import Json
from planner.cli.output import emit, emit_json
from planner.errors import InputError, nearest


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="File to write; .yaml is added.")],
    source: Annotated[
        str, typer.Option("--from", metavar="SCENARIO", help="Which shipped scenario to copy.")
    ] = "quickstart",
    as_json: Json = False,
) -> int:
    """Copy a shipped scenario to a new file, as a start for your own."""
    from planner.data import shipped

    known = {path.stem: path for path in shipped("scenarios").glob("*.yaml")}
    if source not in known:
        raise InputError(f"--from {source}: no shipped scenario; {nearest(source, known)}")
    if not name.strip():
        raise InputError("NAME is empty; give the new file a name")
    path = Path(name)
    if path.name in ("", ".."):
        raise InputError(f"{name}: is a folder; name a file in it")
    if path.suffix not in (".yaml", ".yml"):
        path = path.with_name(f"{path.name}.yaml")
    text = known[source].read_text(encoding="utf-8")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise InputError(f"{path}: is there already; choose another name") from error
    except FileNotFoundError as error:
        raise InputError(f"{path}: there is no folder {path.parent}; make it first") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be written: {why}") from error
    if as_json:
        emit_json({"file": str(path), "from": source})
    else:
        emit(f"{path}: written; next: planner plan {path}\n")
    return 0
