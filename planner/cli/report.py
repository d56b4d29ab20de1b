"""``planner report``: a plan or a study as one page, or as Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.output import emit, require_writable, write_whole
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.studies.runner import StudyResult

FORMS = {".html": "html", ".htm": "html", ".md": "md"}
MOST_BYTES = 256 * 2**20
"""Of the rows of a study."""


def report(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A plan.json, or the folder of a study.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write here: .html or .md."),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="FORM", help="html or md; by the file's name, else md."),
    ] = None,
) -> int:
    """Tell a plan or a study to people: the answer first, then what it rests on.

    A page is one file that needs no network; Markdown is for pull requests.
    """
    chosen = form or (FORMS.get(output.suffix.lower()) if output is not None else "md")
    if chosen not in ("html", "md"):
        what = f"--format {form}" if form else f"--output {output}"
        raise InputError(f"{what}: a report is html or md; name the file so, or add --format")
    from planner.fleet import read_plan
    from planner.reporting.report import report_of_plan, report_of_study

    source = file / "rows.json" if file.is_dir() else file
    if output is not None:
        require_writable(output, source)
    if source.name == "rows.json":
        text = report_of_study(_study(source), chosen)
    else:
        text = report_of_plan(read_plan(source), chosen)
    if output is None:
        emit(text)
    else:
        write_whole(output, text)
    return 0


def _study(path: Path) -> StudyResult:
    """Read the rows of a study."""
    from pydantic import ValidationError

    from planner.source import read_text
    from planner.studies.runner import StudyResult

    try:
        return StudyResult.model_validate_json(read_text(path, MOST_BYTES))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "document"
        raise InputError(
            f"{path}: {where}: {first['msg']}; are these rows of a study? planner whatif STUDY -o"
            " DIR writes them"
        ) from error
