"""``planner simulate --engine-case FILE.json``: serve one engine case, and check it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from planner.cli.output import emit_json, emit_tables, note

CHECK_FAILED: Final = 5
"""Exit code of a broken expectation."""
MOST_SHOWN: Final = 20
"""Differences written out; the rest are counted."""


def run_engine_case(path: Path, json_out: bool, check: bool) -> int:
    """Serve the case in ``path``; write its results to stdout, differences to stderr.

    Args:
        path: The case file.
        json_out: Whether stdout gets the whole result as JSON instead of a table.
        check: Whether to compare with the file's ``expected``.

    Returns:
        The exit code: 0, or 5 where the result differs from what the case expects.

    Raises:
        InputError: The file cannot be used, or there is nothing to check against.
    """
    from planner.errors import InputError
    from planner.simulation.engine_case import differences, read_case, run_case

    case = read_case(path)
    if check and case.expected is None:
        raise InputError(f"{path}: expected: there is nothing to check against; add it")
    result = run_case(case, str(path))
    found = differences(case, result) if check else []
    if json_out:
        shown = result | {"differences": found} if check else result
        emit_json(shown)
    else:
        _print_table(case.name, case.unit, result)
    if check and not found:
        note(f"{path}: as expected")
    for line in found[:MOST_SHOWN]:
        note(f"{path}: {line}")
    if len(found) > MOST_SHOWN:
        note(f"{path}: and {len(found) - MOST_SHOWN} more differences")
    return CHECK_FAILED if found else 0


COLUMNS: Final = (
    "id",
    "fate",
    "replica",
    "decode_replica",
    "first_token",
    "finish",
    "ttft",
    "decode_span",
    "max_token_gap",
    "preemptions",
    "cached_tokens",
    "kv_start",
    "kv_end",
)
"""What the table shows, where it is told; the JSON has the rest."""


def _print_table(name: str, unit: str, result: dict[str, Any]) -> None:
    """Write one row per request, and the totals below."""
    from rich.markup import escape
    from rich.table import Table

    first = result["requests"][0] if result["requests"] else {"id": None}
    columns = [column for column in COLUMNS if column in first]
    table = Table(title=escape(f"{name} ({unit})"))
    for column in columns:
        table.add_column(column, justify="left" if column in ("id", "fate") else "right")
    for request in result["requests"]:
        cells = (request[column] for column in columns)
        table.add_row(*("" if cell is None else escape(str(cell)) for cell in cells))
    steps = ", ".join(f"{engine} {count}" for engine, count in result["n_steps"].items())
    spent = escape(f"makespan {result['makespan']} {unit}; steps: {steps}")
    emit_tables(table, spent, width=200)  # nothing is cut short in a file
