"""``planner workload`` of scrapes of vLLM's ``/metrics``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from planner.cli.output import emit, emit_json, emit_tables, write_whole
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.measurements.scrapes import Scrape


def from_scrape(
    file: Path,
    since: Path | None,
    over: str | None,
    model: str | None,
    output: Path | None,
    *,
    as_json: bool,
    fit: bool,
) -> int:
    """Profile a scrape, or what came between two, or fit a workload to it."""
    from planner.profiles.marginal_profile import profile_scrape
    from planner.reporting.marginals import marginal_statements, marginal_table
    from planner.source import write_yaml
    from planner.spec import dump_json

    if output is not None and output.suffix == ".html":
        raise InputError(f"-o {output}: a page needs single requests, metrics have none; use .json")
    counted = _counted(file, since, over, model)
    try:
        found = profile_scrape(counted, file.name, since.name if since else None)
    except InputError as error:
        raise InputError(f"{file}: {error}") from error
    if not fit:
        text = dump_json(found.profile)
        if output is not None:
            write_whole(output, text)
        if as_json:
            emit(text)
        else:
            emit_tables(*marginal_table(found.profile))
        return 0
    said = marginal_statements(found.profile)
    section = {
        "arrivals": found.arrivals().model_dump(mode="json", exclude_none=True),
        "lengths": found.lengths().model_dump(
            mode="json", exclude_none=True, exclude_defaults=True
        ),
    }
    text = "".join(f"# {line}\n" for line in said) + write_yaml(section)
    if output is not None:
        write_whole(output, text)
    if as_json:
        emit_json({"workload": section, "goodness_of_fit": list(said)})
    else:
        emit(text)
    return 0


def _counted(file: Path, since: Path | None, over: str | None, model: str | None) -> Scrape:
    from planner.measurements.scrapes import between, read_scrape

    scrape = read_scrape(file, model)
    if since is not None:
        scrape = between(read_scrape(since, scrape.model), scrape, (since, file))
    return scrape if over is None else replace(scrape, span_s=_seconds(over))


def _seconds(text: str) -> float:
    from planner.units import TIME

    try:
        value = TIME.read(text)
    except ValueError as error:
        raise InputError(f"--over: {error}") from error
    if not 0 < value <= 3.2e8:
        raise InputError(f"--over: {text!r} must be above 0 and at most ten years")
    return value
