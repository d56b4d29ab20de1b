"""``planner workload``: what a trace is like, and the scenario section that is like it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.options import Json
from planner.cli.output import emit, emit_json, emit_tables, note, require_writable, write_whole
from planner.cli.workload_rates import from_rates
from planner.cli.workload_scrape import from_scrape
from planner.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.errors import Where
    from planner.profiles.fit import WorkloadFit
    from planner.source import Loc


def workload(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="A trace or log: CSV, JSONL, either with .gz, Parquet; OpenTelemetry spans; a"
            " client set's .tar.gz; a scrape of vLLM's /metrics.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Also write a page (.html), the profile (.json), or the section of --fit (.yaml).",
        ),
    ] = None,
    as_json: Json = False,
    fit: Annotated[
        bool, typer.Option("--fit", help="Write the workload section that is like the trace.")
    ] = False,
    parametric: Annotated[
        bool,
        typer.Option(
            "--parametric", help="Fit lengths by stated distributions instead of a histogram."
        ),
    ] = False,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="WHAT=NAME",
            help="Which column holds time, time_unit, prompt, output, status, client or session.",
        ),
    ] = None,
    since: Annotated[
        Path | None,
        typer.Option(
            "--since", metavar="EARLIER", help="An earlier scrape: what came between is counted."
        ),
    ] = None,
    over: Annotated[
        str | None,
        typer.Option(
            "--over", metavar="TIME", help="Time over which a scrape counted, such as '10 min'."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", help="Which model of a scrape that holds several."),
    ] = None,
    series: Annotated[
        str | None,
        typer.Option("--series", metavar="NAME", help="Which series of a file of rates."),
    ] = None,
    users: Annotated[
        int | None, typer.Option("--users", min=1, help="Users, instead of a file.")
    ] = None,
    active: Annotated[
        str | None,
        typer.Option("--active", metavar="SHARE", help="Share of the users who are active."),
    ] = None,
    requests_per_hour: Annotated[
        float | None,
        typer.Option("--requests-per-hour", help="Requests of an active user in an hour."),
    ] = None,
) -> int:
    """Profile a trace, fit a workload to it, or turn a number of users into a rate."""
    if (file is None) == (users is None):
        what = "both are given" if file is not None else "neither is given"
        raise InputError(f"give either a FILE or --users; {what}")
    if output is not None:
        endings = (".yaml", ".yml") if fit or parametric else (".html", ".json")
        if users is not None or output.suffix not in endings:
            what = "a number of users has no file" if users else f"name it {' or '.join(endings)}"
            raise InputError(f"-o {output}: {what}")
        require_writable(output, file, since)
    only = {"--since": since, "--over": over, "--model": model}
    if users is not None:
        _refuse(only, "a scrape of metrics, not to --users")
        _refuse({"--series": series}, "a file of rates, not to --users")
        return _from_users(users, active, requests_per_hour, as_json=as_json)
    if active is not None or requests_per_hour is not None:
        raise InputError("--active and --requests-per-hour belong to --users")
    if file is None:
        return 0
    from planner.measurements.rate_series import has_rates_only
    from planner.measurements.scrapes import is_scrape

    columns = _columns(column)
    log_only = {"--column": columns or None}
    if has_rates_only(file):
        _refuse(
            {**only, **log_only}, "another kind of file; this one holds rates by window of time"
        )
        return from_rates(file, series, output, as_json=as_json, fit=fit or parametric)
    _refuse({"--series": series}, "a file of rates by window of time, and this is none")
    if is_scrape(file):
        _refuse(log_only, "a log; a scrape has no columns")
        return from_scrape(file, since, over, model, output, as_json=as_json, fit=fit or parametric)
    _refuse(only, "a scrape of metrics; the file is none of vLLM's /metrics")
    return _from_file(file, output, columns, as_json, "parametric" if parametric else fit)


def _refuse(options: Mapping[str, object], where: str) -> None:
    for name, value in options.items():
        if value is not None:
            raise InputError(f"{name} belongs to {where}")


def _from_users(
    users: int, active: str | None, requests_per_hour: float | None, *, as_json: bool
) -> int:
    from planner.scenario.arrivals import Users
    from planner.source import Source
    from planner.spec import validate

    if requests_per_hour is None:
        raise InputError("--users: how often does each ask? give --requests-per-hour")
    written = {"count": users, "active": active or "1", "requests_per_hour": requests_per_hour}
    options: dict[Loc, Where | str] = {(key,): f"--{key.replace('_', '-')}" for key in written}
    options["count",] = "--users"
    section = validate(Source("--users", written, options), Users)
    if as_json:
        emit_json(
            {
                "arrivals": {"users": section.model_dump(mode="json")},
                "rate_rps": section.rate_rps,
                "formula": section.formula,
            }
        )
    else:
        emit(
            f"{section.formula}\narrivals: {{users: {{count: {section.count},"
            f" active: {section.active:g}, requests_per_hour: {section.requests_per_hour:g}}}}}\n"
        )
    return 0


def _columns(given: list[str] | None) -> dict[str, str]:
    known = ("time", "time_unit", "prompt", "output", "status", "client", "session")
    columns = {}
    for text in given or ():
        what, equals, name = text.partition("=")
        if not equals or not name or what not in known:
            raise InputError(f"--column {text}: write WHAT=NAME; WHAT is one of {', '.join(known)}")
        columns[what] = name
    return columns


def _from_file(
    file: Path, output: Path | None, columns: dict[str, str], as_json: bool, fit: bool | str
) -> int:
    from planner.measurements.requests import RequestColumns
    from planner.problem.demand import read_trace
    from planner.profiles.profile import profile_trace
    from planner.reporting.profile import fit_statements, profile_table
    from planner.spec import dump_json

    trace = read_trace(file, RequestColumns(**columns) if columns else None)
    profile = profile_trace(trace, file.name)
    if fit:
        from planner.profiles.fit import fit_workload

        found = fit_workload(trace, profile)
        said = fit_statements(found)
        section = _section(found, output, parametric=fit == "parametric")
        _write_section(section, found, output, said)
        if as_json:
            emit_json({"workload": section, "goodness_of_fit": list(said)})
        else:
            emit(_yaml(section, said))
        return 0
    if output is not None:
        from planner.reporting.profile_html import profile_page

        page = profile_page if output.suffix == ".html" else dump_json
        write_whole(output, page(profile))
    if as_json:
        emit(dump_json(profile))
    else:
        emit_tables(*profile_table(profile))
    return 0


def _section(found: WorkloadFit, output: Path | None, *, parametric: bool) -> dict[str, Any]:
    """Return the arrivals and lengths of a workload as plain data."""
    from planner.profiles.fit import arrivals_document, parametric_lengths

    arrivals: dict[str, Any] = {"poisson": "1.0 req/s"}
    if found.arrivals is not None:
        arrivals = arrivals_document(found.arrivals).model_dump(mode="json", exclude_none=True)
    lengths: dict[str, Any] = {"histogram": _histogram_of(output).name}
    if parametric or output is None:
        lengths = parametric_lengths(found).model_dump(
            mode="json", exclude_none=True, exclude_defaults=True
        )
    return {"arrivals": arrivals, "lengths": lengths}


def _histogram_of(output: Path | None) -> Path:
    path = output or Path("workload.yaml")
    return path.with_name(f"{path.stem}.lengths.csv")


def _write_section(
    section: dict[str, Any], found: WorkloadFit, output: Path | None, said: tuple[str, ...]
) -> None:
    if output is None:
        return
    if "histogram" in section["lengths"]:
        heat = found.histogram
        rows = ["prompt_low,prompt_high,output_low,output_high,count"]
        for i, row in enumerate(heat.counts):
            low, high = heat.prompt_edges[i], heat.prompt_edges[i + 1] - 1
            rows += [
                f"{low},{high},{heat.output_edges[j]},{heat.output_edges[j + 1] - 1},{count}"
                for j, count in enumerate(row)
                if count
            ]
        write_whole(_histogram_of(output), "\n".join(rows) + "\n")
        note(f"{_histogram_of(output)}: the joint histogram of lengths")
    write_whole(output, _yaml(section, said))


def _yaml(section: dict[str, Any], said: tuple[str, ...]) -> str:
    from planner.source import write_yaml

    comments = "".join(f"# {line}\n" for line in said)
    return f"{comments}{write_yaml(section)}"
