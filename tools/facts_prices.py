"""models/prices: every price point, with who said so, when, and what must be bought at once."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from facts_text import read_rows, slug, write_csv, write_yaml

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS: Final = {
    "accelerator": "id in models/accelerators; a few accelerators have prices only",
    "provider": "who sells, in the source's words",
    "region": "the provider's name of the region; empty where one price holds everywhere",
    "term": (
        "on-demand, spot, reserved-1y, reserved-1y-no-upfront, reserved-3y, reserved-from (a "
        "commitment of unstated length), capacity-block (up to 6 months, paid in advance); "
        "rental-3y-25pct-upfront and owned-*-tco are a cost model, not quotes"
    ),
    "n_accelerators": "devices of the instance: the least that can be bought",
    "instance": "the provider's name of the machine; empty where sold by the device",
    "usd_per_instance_hour": "list price without tax, egress and storage",
    "usd_per_accelerator_hour": "the same per device",
    "date": "day, month or year of the price, as exact as the source says",
    "confidence": (
        "high: vendor's list; medium: aggregator or copy of a provider's page; low: estimate, "
        "or another row contradicts it"
    ),
    "source": "key in sources below",
    "note": "what else the source says",
}


HEADER: Final = tuple(name for names in COLUMNS for name in names.split(", "))


def _cited(source: str) -> str:
    """Drop from a citation what only says how a copy of it was kept."""
    plain = re.sub(r",? ?\(?stored[- ](?:page|file ids? [0-9, ]+)[^)]*\)", "", source)
    return plain.replace("stored ", "")


KEYS: Final = {
    "provider price page (Akash)": "akash-page",
    "provider page (average market price)": "sf-compute-page",
    "two public benchmark reports": "benchmark-reports",
    "public GitHub markdown": "hyperscaler-survey",
}
"""Words for sources that do not begin with the name of a project."""


def _key(source: str, taken: dict[str, str]) -> str:
    """Return a source's key: its project's name, numbered where another source has it."""
    project = source.split(" ")[0].split("@")[0].split("/")[-1].lower()
    word = next((key for start, key in KEYS.items() if source.startswith(start)), project)
    key, n = word, 1
    while taken.get(key, source) != source:
        n += 1
        key = f"{word}-{n}"
    return key


def write_prices(shared: Path, models: Path) -> None:
    """Write the table and the YAML that explains it."""
    taken: dict[str, str] = {}
    licences: dict[str, str] = {}
    rows = []
    for row in read_rows(shared / "data/hardware/prices.csv"):
        source = _cited(row["source"])
        key = _key(source, taken)
        taken[key] = source
        licences[key] = row["licence"]
        rows.append(
            [
                slug(row["gpu"]),
                row["provider"],
                row["region"],
                slug(row["term"]),
                row["n_gpu"],
                row["instance"],
                row["instance_usd_per_h"],
                row["usd_per_gpu_h"],
                row["date"],
                row["confidence"],
                key,
                row["note"],
            ]
        )
    write_csv(models / "prices.csv", HEADER, rows)
    counts = Counter(row[10] for row in rows)
    facts: dict[str, object] = {
        "format_version": "1.0",
        "what": f"{len(rows)} price points of accelerators, per instance as sold, USD per hour",
        "columns": COLUMNS,
        "sources": {
            key: {"source": taken[key], "licence": licences[key], "rows": counts[key]}
            for key in sorted(taken)
        },
    }
    write_yaml(models / "prices.yaml", facts)
