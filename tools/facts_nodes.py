"""models/nodes: machines as they are sold, and which of their devices share a scale-up link."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from facts_text import read_rows, slug, write_csv, write_yaml

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS: Final = {
    "id": "the provider's name of the machine as an id",
    "provider": "who sells it",
    "instance": "the provider's own spelling",
    "accelerator": "id in models/accelerators; a few accelerators have prices only",
    "n_accelerators": "devices in it: the granularity of a purchase",
    "scaleup_domain": (
        "devices of the machine that reach each other over the accelerator's scale-up link; 1: over"
        " PCIe only; empty: not known"
    ),
}


def write_nodes(shared: Path, models: Path) -> None:
    """Write the table and the YAML that explains it."""
    domains = {
        slug(row["gpu"]): row["scaleup_domain"]
        for row in read_rows(shared / "data/hardware/gpus.csv")
    }
    machines: dict[tuple[str, str, str], tuple[str, str, int]] = {}
    for row in read_rows(shared / "data/hardware/prices.csv"):
        if row["instance"] and "price per" not in row["instance"]:  # which names no machine
            key = (slug(row["instance"]), row["provider"], slug(row["gpu"]))
            machines[key] = (row["instance"], slug(row["gpu"]), int(float(row["n_gpu"])))
    rows = []
    for (one, provider, _), (instance, accelerator, n) in sorted(machines.items()):
        known = domains.get(accelerator, "")
        domain = str(min(int(float(known)), n)) if known else ""
        rows.append((one, provider, instance, accelerator, n, domain))
    write_csv(models / "nodes.csv", tuple(COLUMNS), rows)
    facts: dict[str, object] = {
        "format_version": "1.0",
        "what": f"{len(rows)} machines as sold, one row per provider, machine and accelerator",
        "columns": COLUMNS,
        "source": (
            "machines: the price points of prices.csv, whose sources and licences prices.yaml"
            " lists; scale-up domains: the accelerators' files"
        ),
        "licence": "as prices.yaml says for each source; facts only",
    }
    write_yaml(models / "nodes.yaml", facts)
