"""Make the facts under models/ from a folder of source tables.

    python tools/import_catalogue.py FOLDER [--into models]

FOLDER (or the environment variable PLANNER_SHARED) holds data/hardware/gpus.csv and
prices.csv, data/models/modelcards.csv, data/step-laws/step_laws.csv and
data/traces/AzureLLMInferenceTrace_*.csv. The same folder always gives the same bytes.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from facts_accelerators import write_accelerators
from facts_laws import write_laws
from facts_llms import write_llms
from facts_nodes import write_nodes
from facts_prices import write_prices
from facts_text import write_csv
from make_length_histogram import TRACES, write_histogram


def write_models(shared: Path, models: Path) -> None:
    """Write every generated file of ``models`` from the tables of ``shared``."""
    names = {
        "accelerator": write_accelerators(shared, models),
        "llm": write_llms(shared, models),
    }
    rows = [
        (kind, alias, one)
        for kind, ids in names.items()
        for one, aliases in ids.items()
        for alias in aliases
    ]
    write_csv(models / "aliases.csv", ("kind", "alias", "id"), sorted(rows))
    write_laws(shared, models)
    write_prices(shared, models)
    write_nodes(shared, models)
    for name in TRACES:
        write_histogram(name, shared / "data/traces", models / "lengths")


def main() -> int:
    """Read the arguments and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shared", nargs="?", default=os.environ.get("PLANNER_SHARED"), type=Path)
    parser.add_argument("--into", default=Path(__file__).parents[1] / "models", type=Path)
    arguments = parser.parse_args()
    if arguments.shared is None or not (arguments.shared / "data").is_dir():
        print("name a folder that holds data/, or set PLANNER_SHARED", file=sys.stderr)
        return 2
    write_models(arguments.shared, arguments.into)
    return 0


if __name__ == "__main__":
    sys.exit(main())
