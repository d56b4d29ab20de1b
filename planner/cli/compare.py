"""``planner compare``: two fleets by compliant requests per dollar."""

from __future__ import annotations

from typing import Annotated

import typer

from planner.cli.options import Json
from planner.cli.output import emit_json, emit_tables

_HELP = (
    "A plan.json, or a row in words: rate=1000,attainment=98%,cost=1 USD/s and, if you like, "
    "name=NAME and mfu=0.4."
)


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help=_HELP)],
    second: Annotated[str, typer.Argument(metavar="B", help="The same.")],
    as_json: Json = False,
) -> int:
    """Compare two fleets by what a compliant request costs."""
    from planner.explanation.compare import compare_rows, read_row
    from planner.reporting.comparison import comparison_tables

    result = compare_rows(read_row(first, "one"), read_row(second, "two"))
    if as_json:
        emit_json(result.model_dump(mode="json"))
    else:
        emit_tables(*comparison_tables(result))
    return 0
