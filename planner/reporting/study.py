"""The rows of a study as a table, as CSV, and in short."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Final

from planner.reporting.format import NONE, count, share, usd
from planner.reporting.layout import grid, heading, lines, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from planner.studies.runner import StudyResult, StudyRow

FIGURES: Final = (
    "status",
    "usd_per_hour",
    "usd_per_thousand_compliant",
    "goodput_rps",
    "attainment",
    "accelerators",
    "kept_at",
    "gap",
)
LONGEST: Final = 60
"""Rows in the table; the files have all."""


def study_tables(found: StudyResult, longest: int | None = LONGEST) -> Iterator[RenderableType]:
    """Lay out the rows of a study, readable at 100 columns.

    Args:
        found: The rows.
        longest: Most rows that are shown; None for all.
    """
    done = len(found.rows)
    yield plain(f"{found.name}: {done} of {count(found.asked, 'run')} planned\n", style="bold")
    if not found.rows:
        return
    paths = list(found.rows[0].values)
    names = _short(paths)
    named = any(row.alternative for row in found.rows)
    seeded = len({row.seed for row in found.rows}) > 1
    headers = [">run", *(["variant"] if named else []), *names, *([">seed"] if seeded else [])]
    headers += [">USD/h", ">USD per 1,000", ">attainment", "fleet"]
    yield grid(
        headers,
        [
            (
                str(row.run),
                *([row.alternative or NONE] if named else []),
                *(row.values[path] for path in paths),
                *([str(row.seed)] if seeded else []),
                usd(row.usd_per_hour),
                usd(row.usd_per_thousand_compliant),
                share(row.attainment),
                _fleet(row),
            )
            for row in found.rows[:longest]
        ],
    )
    if longest is not None and done > longest:
        yield plain(f"and {done - longest} more; -o DIR writes all")
    for name, path in zip(names, paths, strict=True):
        if name != path:
            yield plain(f"{name}: {path}")
    yield heading("In short")
    yield lines(_in_short(found))


def _in_short(found: StudyResult) -> Iterator[str]:
    there = [row for row in found.rows if row.usd_per_thousand_compliant is not None]
    if there:
        best = min(there, key=lambda row: (row.usd_per_thousand_compliant or 0.0, row.run))
        worst = max(there, key=lambda row: (row.usd_per_thousand_compliant or 0.0, -row.run))
        yield (
            f"cheapest per compliant request: run {best.run},"
            f" {usd(best.usd_per_thousand_compliant)} per thousand; dearest: run {worst.run},"
            f" {usd(worst.usd_per_thousand_compliant)}"
        )
        fleets = {row.fleet for row in there}
        yield f"{count(len(fleets), 'different fleet')} in {count(len(there), 'run')}"
    none = [row for row in found.rows if row.usd_per_hour is None]
    for row in none[:3]:
        yield f"run {row.run}: {row.status}: {row.reason}"
    if len(none) > 3:
        yield f"and {len(none) - 3} more without a fleet"


def _fleet(row: StudyRow) -> str:
    """Name the fleet by accelerators and degrees; the files have the whole names."""
    told: dict[str, int] = {}
    for part in row.fleet:
        number, _, name = part.partition(" x ")
        kind = ".".join(name.split("@")[0].split(".")[:2])
        told[kind] = told.get(kind, 0) + int(number)
    return " + ".join(f"{n} {kind}" for kind, n in told.items()) or row.status


def _short(paths: list[str]) -> list[str]:
    """Name each path by as few of its last parts as tell it from the others."""
    found = []
    for path in paths:
        parts = path.split(".")
        for n in range(1, len(parts) + 1):
            name = ".".join(parts[-n:])
            if sum(other.endswith(f".{name}") or other == name for other in paths) == 1:
                break
        found.append(name)
    return found


def study_csv(found: StudyResult) -> str:
    """Write one row a run; text that a spreadsheet would take for a formula is quoted."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    paths = list(found.rows[0].values) if found.rows else []
    rows.writerow(["run", "alternative", *map(_cell, paths), "seed", *FIGURES, "fleet", "reason"])
    for row in found.rows:
        rows.writerow(
            [
                row.run,
                _cell(row.alternative or ""),
                *(_cell(row.values[path]) for path in paths),
                row.seed,
                *(_number(getattr(row, name)) for name in FIGURES),
                _cell(" + ".join(row.fleet)),
                _cell(row.reason),
            ]
        )
    return text.getvalue()


def _number(value: object) -> object:
    return "" if value is None else value


def _cell(text: str) -> str:
    """Keep a spreadsheet from reading text as a formula; numbers with a sign stay numbers."""
    if text[:1] in ("=", "@", "\t", "\r") or (text[:1] in ("+", "-") and not _is_number(text)):
        return f"'{text}"
    return text


def _is_number(text: str) -> bool:
    return text[1:2].isdigit() or text[1:2] == "."
