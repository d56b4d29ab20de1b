"""``planner workload`` of files that hold rates by window of time, and no requests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.cli.output import emit, emit_json, emit_tables, write_whole
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.profiles.rate_profile import RateProfile


def from_rates(
    file: Path, series: str | None, output: Path | None, *, as_json: bool, fit: bool
) -> int:
    """Profile a load over time, or write the sections of a scenario that follow it."""
    from planner.measurements.rate_series import COLUMNS, read_rate_series
    from planner.profiles.rate_profile import profile_rates
    from planner.reporting.rates import rate_table
    from planner.source import write_yaml
    from planner.spec import dump_json

    if output is not None and output.suffix == ".html":
        raise InputError(f"-o {output}: a page needs single requests, rates have none; use .json")
    profile = profile_rates(*read_rate_series(file, COLUMNS, series), file.name, series)
    if not fit:
        text = dump_json(profile)
        if output is not None:
            write_whole(output, text)
        if as_json:
            emit(text)
        else:
            emit_tables(*rate_table(profile))
        return 0
    sections = _sections(profile, file, output)
    said = (
        "arrivals belong to the workload, traffic to the scenario; lengths come from elsewhere",
        f"the mean over all windows, and how the load goes over time: up to"
        f" {profile.peak_rps / profile.mean_rps:.3g} times that",
    )
    text = "".join(f"# {line}\n" for line in said) + write_yaml(sections)
    if output is not None:
        write_whole(output, text)
    if as_json:
        emit_json({"workload": sections, "goodness_of_fit": list(said)})
    else:
        emit(text)
    return 0


def _sections(profile: RateProfile, file: Path, output: Path | None) -> dict[str, Any]:
    """Return the sections; the file is named as the scenario beside the output will find it."""
    name = str(file) if output is None else os.path.relpath(file, output.parent)
    series = {"file": name} | ({} if profile.series is None else {"name": profile.series})
    return {
        "arrivals": {"poisson": f"{profile.mean_rps:.5g} req/s"},
        "traffic": {"plan_for": "peak", "profiles": [{"series": series}]},
    }
