"""``planner validate``: how good predictions are on measurements they have not seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.options import Json
from planner.cli.output import emit_json, emit_tables, note

if TYPE_CHECKING:
    from rich.table import Table


def validate(
    rows: Annotated[Path, typer.Argument(metavar="ROWS.csv", help="Measurements to predict.")],
    calibrate_on: Annotated[
        Path | None,
        typer.Option("--calibrate-on", metavar="ROWS.csv", help="Measurements it may learn from."),
    ] = None,
    leave_out: Annotated[
        str | None,
        typer.Option(
            "--leave-out",
            metavar="UNIT",
            help="Predict each row from the other groups (`group`) or systems (`system`) of ROWS.",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Predict measured rows and say how far off the predictions are."""
    from planner.calibration.validate import validate as run
    from planner.catalogue import Catalogue
    from planner.errors import InputError

    if leave_out not in (None, "group", "system"):
        raise InputError(f"--leave-out: {leave_out!r} is no unit; use group or system")
    if leave_out is not None and calibrate_on is not None:
        raise InputError("--leave-out learns from ROWS itself; remove --calibrate-on")
    found = run(rows, Catalogue(), calibrate_on, leave_out)  # type: ignore[arg-type]
    document = found.document()
    if as_json:
        emit_json(document)
    else:
        emit_tables(*_tables(document))
    for reason, count in sorted(document["counts"]["not_predicted"].items()):
        note(f"{count} rows not predicted: {reason}")
    return 0


def _tables(document: dict[str, Any]) -> list[Table]:
    from rich.table import Table

    tables = []
    for metric, groups in document["metrics"].items():
        table = Table(title=metric)
        for name in ("by", "level", "n", "mean error", "median", "bias", "p90", "in band"):
            table.add_column(name, justify="left" if name in ("by", "level") else "right")
        for by, levels in groups.items():
            for level, m in levels.items():
                shares = (m[k] for k in ("mape", "median_ape", "bias", "p90", "band_coverage"))
                table.add_row(
                    by,
                    level,
                    str(m["n"]),
                    *map(_percent, shares),
                )
        tables.append(table)
    return tables


def _percent(share: float | None) -> str:
    return "no band" if share is None else f"{100 * share:.1f} %"
