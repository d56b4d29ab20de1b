"""How the import tools write facts: YAML and CSV whose bytes depend on the facts alone."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read a CSV file with a header as one dict a row."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_yaml(path: Path, facts: Mapping[str, object]) -> None:
    """Write facts in their order; a fact that is None is left out, for unknown stays absent."""
    text = yaml.safe_dump(known(facts), sort_keys=False, allow_unicode=True, width=96)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table with Unix line ends."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(header)
    table.writerows(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(out.getvalue(), encoding="utf-8")


def known(facts: Mapping[str, object]) -> dict[str, object]:
    """Drop what is None or empty, at every depth."""
    out: dict[str, object] = {}
    for key, value in facts.items():
        kept = known(value) if isinstance(value, dict) else value
        if kept is not None and kept != {} and kept != []:
            out[key] = kept
    return out


def number(text: str) -> float | None:
    """Read a cell that may be empty."""
    return float(text) if text else None


def whole(text: str) -> int | None:
    """Read a cell that may be empty and holds a whole number, if need be written ``8.0``."""
    return int(float(text)) if text else None


def with_unit(text: str, unit: str) -> str | None:
    """Write ``3350.0`` as ``3350 GB/s``; an empty cell stays unknown."""
    value = number(text)
    if value is None:
        return None
    shown = f"{value:.0f}" if value == int(value) else repr(value)
    return f"{shown} {unit}"


def slug(name: str) -> str:
    """Write a name as an id: lower case, hyphens for spaces and underscores."""
    return name.strip().lower().replace("_", "-").replace(" ", "-")
