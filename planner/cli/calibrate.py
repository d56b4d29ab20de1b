"""``planner calibrate``: step laws from benchmark results, fitted through the simulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from planner.cli.options import Json
from planner.cli.output import emit_json, emit_tables, note, require_writable, write_whole


def calibrate(
    rows: Annotated[Path, typer.Argument(metavar="ROWS.csv", help="Benchmark results.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Write the curves for a scenario's `curves`."
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Fit a step law to each measured system."""
    from rich.table import Table

    from planner.calibration.calibrate import calibrate as run
    from planner.catalogue import Catalogue

    if output is not None:
        require_writable(output, rows)
    found = run(rows, Catalogue())
    document = found.document()
    if output is not None:
        write_whole(output, json.dumps(document, indent=2) + "\n")
    if as_json:
        emit_json(document)
    else:
        table = Table(title="Fitted step laws")
        for name in ("system", "runs", "TPOT error", "held out", "TTFT error", "decode", "prefill"):
            table.add_column(name, justify="left" if name == "system" else "right")
        for curve, written in zip(found.curves, found.documents, strict=True):
            moved, sd = written.moved_from_prior, written.standard_deviation
            parts = (f"{moved[n]:+.2f} ± {sd[n]:.2f}" for n in ("decode_log", "prefill_log"))
            shown = (
                _error(written.tpot_error, written.tpot_compared),
                _percent(written.relative_error),
                _error(written.ttft_error, written.ttft_compared),
            )
            table.add_row(curve.system.group, str(curve.runs), *shown, *parts)
        emit_tables(table)
    for unusable in found.unusable:
        note(f"row {unusable.row} ({unusable.id}) not used: {unusable.reason}")
    return 0


def _percent(error: float) -> str:
    return f"{100 * error:.1f} %"


def _error(error: float | None, compared: tuple[str, ...]) -> str:
    """Say how far off a latency is, and which of its statistics was compared."""
    return "not stated" if error is None else f"{_percent(error)} ({' or '.join(compared)})"
