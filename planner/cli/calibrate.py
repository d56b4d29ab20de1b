"""``planner calibrate``: step laws from benchmark results, fitted through the simulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from planner.cli.options import Json
from planner.cli.output import emit_json, emit_tables, note, write_whole


def calibrate(
    rows: Annotated[Path, typer.Argument(metavar="ROWS.csv", help="Benchmark results.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Also write the curves to this file."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Fit a step law to each measured system."""
    from rich.table import Table

    from planner.calibration.calibrate import calibrate as run
    from planner.catalogue import Catalogue

    found = run(rows, Catalogue())
    curves = [curve.document() for curve in found.curves]
    if output is not None:
        write_whole(output, json.dumps({"curves": curves}, indent=2) + "\n")
    if as_json:
        emit_json({"curves": curves})
    else:
        table = Table(title="Fitted step laws")
        for name in ("system", "runs", "TPOT error", "TTFT error", "decode", "prefill", "prior"):
            table.add_column(name, justify="left" if name in ("system", "prior") else "right")
        for curve, document in zip(found.curves, curves, strict=True):
            moved, sd = document["moved_from_prior"], document["standard_deviation"]
            parts = (f"{moved[n]:+.2f} ± {sd[n]:.2f}" for n in ("decode_log", "prefill_log"))
            shown = (_error(document, kind) for kind in ("tpot", "ttft"))
            table.add_row(curve.system.group, str(curve.runs), *shown, *parts, curve.prior)
        emit_tables(table)
    for unusable in found.unusable:
        note(f"row {unusable.row} ({unusable.id}) not used: {unusable.reason}")
    return 0


def _error(document: dict[str, Any], kind: str) -> str:
    """Say how far off a latency is, and which of its statistics was compared."""
    error = document[f"{kind}_error"]
    if error is None:
        return "not stated"
    return f"{100 * error:.1f} % ({' or '.join(document[f'{kind}_compared'])})"
