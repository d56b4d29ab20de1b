"""Options that several verbs share, and how their words become numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from planner.errors import InputError

Json = Annotated[bool, typer.Option("--json", help="Write JSON instead of a table.")]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Also write the plan to this file."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Change a value of the scenario, such as workloads.chat.slo.ttft='500 ms'. Repeats.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of every random draw."),
]


def share(option: str, text: str | None) -> float | None:
    """Read ``0.1%`` or ``0.001`` as 0.001.

    Raises:
        InputError: The text is no number, or does not lie between 0 and 1.
    """
    if text is None:
        return None
    from planner.units import read_share

    try:
        value = read_share(text)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from error
    if not 0 <= value < 1:
        raise InputError(f"{option}: {text!r} is not between 0 and 1; write 0.1% or 0.001")
    return value


def seconds(option: str, text: str | None) -> float | None:
    """Read ``60s``, ``60 s`` or ``2 min`` as seconds.

    Raises:
        InputError: The text is no time with a unit, or the time is not above 0.
    """
    if text is None:
        return None
    from planner.units import TIME

    try:
        value = TIME.read(text)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from error
    if value <= 0:
        raise InputError(f"{option}: {text!r} must be above 0")
    return value
