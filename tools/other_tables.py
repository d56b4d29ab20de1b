"""Predictions of tables that no law or factor was fitted to, for the page on accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from planner.calibration.validate import validate

if TYPE_CHECKING:
    from pathlib import Path

    from planner.catalogue import Catalogue


def other_tables(folder: Path, catalogue: Catalogue) -> str:
    """Return the section: every table of a folder, as ``planner validate`` predicts it."""
    lines = [
        "## Tables of other kinds",
        "A priori predictions, mean / median error in percent and share within the 90 % band.",
        "No law or factor was fitted to these rows, but they were seen: AMD's share of",
        "arithmetic was read off MLPerf and helps MI300X in other tables too, and the width of",
        "the bands away from what was measured was set with these tables in view, so their",
        "coverage is not blind.",
        "",
        "| table | rows | predicted | TPOT | in band | TTFT | in band |",
        "|---|---|---|---|---|---|---|",
    ]
    for path in sorted((*folder.glob("*.csv"), *folder.glob("*.csv.gz"))):
        found = validate(path, catalogue).document()
        counts = found["counts"]
        cells = [path.name, f"{counts['rows']:,}", f"{counts['predicted']:,}"]
        for metric in ("tpot_s", "ttft_s"):
            cells += _cells(found["metrics"].get(metric))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", TAIL])


def _cells(metric: dict[str, Any] | None) -> list[str]:
    if metric is None:
        return ["", ""]
    m = metric["overall"]["all"]
    return [f"{100 * m['mape']:.0f} / {100 * m['median_ape']:.0f}", f"{m['band_coverage']:.0%}"]


TAIL = """Rows without a prediction say why: offline runs have no TTFT or TPOT, models and
accelerators that the catalogue lacks, requests that failed. Open loops beyond saturation have a
TTFT that grows with the length of the run, so a capacity that is a tenth off makes it many times
off; rates that submitters chose at the edge of a deadline lie there. One table states 3.4 ms TPOT
for an 8B model in 16-bit weights, whose bytes alone take 4.8 ms: its label is not the whole truth.
A 405B model on software of 2024 runs two to three times slower than its step laws."""
