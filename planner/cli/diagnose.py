"""``planner diagnose``: which deadlines measured requests missed, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from planner.cli.options import Json, Settings, seconds
from planner.cli.output import emit_json, emit_tables, progress, require_writable, write_whole
from planner.errors import InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.attribution.diagnosis import Due
    from planner.explanation.counterfactual import Counterfactuals, Served
    from planner.scenario.load import LoadedScenario

SIMULATED: Final = 2_000
"""Requests of each pool of a plan that are looked into."""
STORIES: Final = 4
"""Late requests of each pool that a page draws."""


def diagnose(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Spans, single requests, an engine's log, or a plan.json."
        ),
    ],
    ttft: Annotated[
        str | None, typer.Option("--ttft", metavar="TIME", help="Deadline, such as '2 s'.")
    ] = None,
    tpot: Annotated[
        str | None, typer.Option("--tpot", metavar="TIME", help="Deadline, such as '50 ms'.")
    ] = None,
    max_itl: Annotated[
        str | None,
        typer.Option("--max-itl", metavar="TIME", help="Deadline on the longest gap of tokens."),
    ] = None,
    e2e: Annotated[
        str | None, typer.Option("--e2e", metavar="TIME", help="Deadline on the whole answer.")
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option(
            "--scenario",
            metavar="FILE",
            help="Take deadlines from its workload, and step times from its curves.",
        ),
    ] = None,
    workload: Annotated[
        str | None, typer.Option("--workload", metavar="ID", help="Which of the scenario's.")
    ] = None,
    template: Annotated[
        str | None,
        typer.Option("--template", metavar="TEXT", help="Part of the id of what served."),
    ] = None,
    replicas: Annotated[
        int, typer.Option("--replicas", min=1, max=10_000, help="How many of it served.")
    ] = 1,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Also write a page with pictures."),
    ] = None,
    as_json: Json = False,
    settings: Settings = None,
) -> int:
    """Say which deadlines measured requests missed, what each miss is charged to, and why.

    With --template, also what more replicas or another policy would have made of it. Of a plan,
    what stands behind the misses of each pool, who slows whom, and what is served in vain.
    """
    if html is not None:
        if html.suffix != ".html":
            raise InputError(f"--html {html}: a page ends in .html")
        require_writable(html)
    from planner.measurements.engine_log import is_engine_log

    given = {"ttft": ttft, "tpot": tpot, "max_itl": max_itl, "e2e": e2e}
    words = {**given, "scenario": scenario, "template": template, "set": settings}
    if _is_plan(file):
        _refuse(words, "measured requests; a plan has its own deadlines")
        return _plan(file, html, as_json=as_json)
    if is_engine_log(file):
        _refuse({**words, "html": html}, "single requests; an engine's log tells none")
        return _log(file, as_json=as_json)
    loaded = _scenario(scenario, template, workload, settings)
    due = _due(given, loaded, workload)
    from planner.attribution.diagnosis import diagnose_run, diagnose_runs
    from planner.measurements.staged import read_staged

    runs = read_staged(file)
    served = None
    if loaded is not None and template is not None:
        served = _served(loaded, template, workload, replicas)
    what_if: tuple[Counterfactuals, ...] = ()
    if served is None:
        found = diagnose_runs(runs, due)
    else:
        from planner.explanation.counterfactual import counterfactuals, unloaded_by

        found = [diagnose_run(run, due, unloaded_by(served, run)) for run in runs]
        what_if = tuple(counterfactuals(run, due, served) for run in runs)
    if html is not None:
        from planner.reporting.diagnosis_html import diagnosis_page

        write_whole(html, diagnosis_page(f"Diagnosis: {file.name}", found, what_if))
    if as_json:
        emit_json(
            {
                "format_version": "1.0",
                "file": file.name,
                "runs": [run.model_dump(mode="json") for run in found],
                "counterfactuals": [one.model_dump(mode="json") for one in what_if],
            }
        )
    else:
        from planner.reporting.diagnosis import diagnosis_tables

        emit_tables(*diagnosis_tables(found, what_if))
    return 0


def _is_plan(file: Path) -> bool:
    from planner.measurements.files import probe

    return probe(file).keys >= {"planner_version", "scenario", "pools"}


def _refuse(words: Mapping[str, object], where: str) -> None:
    for name, value in words.items():
        if value:
            raise InputError(f"--{name.replace('_', '-')} belongs to {where}")


def _log(file: Path, *, as_json: bool) -> int:
    from planner.attribution.log_diagnosis import diagnose_log
    from planner.measurements.engine_log import read_engine_log
    from planner.reporting.log_diagnosis import log_tables

    found = [diagnose_log(log) for log in read_engine_log(file)]
    if as_json:
        engines = [one.model_dump(mode="json") for one in found]
        emit_json({"format_version": "1.0", "file": file.name, "engines": engines})
    else:
        emit_tables(*log_tables(found))
    return 0


def _plan(file: Path, html: Path | None, *, as_json: bool) -> int:
    from planner.attribution.plan_diagnosis import diagnose_pool
    from planner.fleet import read_plan
    from planner.planning.tracing import trace_plan
    from planner.reporting.plan_diagnosis import plan_diagnosis_tables

    plan = read_plan(file)
    runs = trace_plan(plan, requests=SIMULATED, folder=Path())
    found = [diagnose_pool(run) for run in runs]
    if html is not None:
        from planner.attribution.waterfall import late_stories
        from planner.planning.against_load import against_load
        from planner.reporting.plan_diagnosis_html import plan_diagnosis_page

        with progress() as report:
            points = against_load(plan, Path(), progress=report)
        stories = {run.name: late_stories(run, STORIES) for run in runs}
        title = str(plan.scenario.document.get("name", file.name))
        write_whole(html, plan_diagnosis_page(title, found, points, stories))
    if as_json:
        pools = [pool.model_dump(mode="json") for pool in found]
        emit_json({"format_version": "1.0", "file": file.name, "pools": pools})
    else:
        emit_tables(*plan_diagnosis_tables(found))
    return 0


def _scenario(
    path: Path | None, template: str | None, workload: str | None, settings: list[str] | None
) -> LoadedScenario | None:
    if path is None:
        for name, value in (
            ("--template", template),
            ("--workload", workload),
            ("--set", settings),
        ):
            if value is not None:
                raise InputError(f"{name} belongs to --scenario; name the scenario too")
        return None
    from planner.scenario.load import load_scenario

    return load_scenario(path, settings or [])


def _due(given: dict[str, str | None], loaded: LoadedScenario | None, workload: str | None) -> Due:
    """Return the deadlines that options give; the others are the scenario's."""
    from planner.attribution.diagnosis import Due

    words = {name: seconds(f"--{name.replace('_', '-')}", text) for name, text in given.items()}
    if loaded is not None:
        slos = {one.id: one.slo for one in loaded.scenario.workloads}
        if workload is None and len(slos) > 1 and not any(words.values()):
            raise InputError(
                f"--workload: the scenario has {len(slos)}: {', '.join(slos)}; name the one that"
                " was measured"
            )
        if workload is not None and workload not in slos:
            raise InputError(f"--workload {workload}: {nearest(workload, slos)}")
        if workload is not None or len(slos) == 1:
            slo = slos[workload or next(iter(slos))]
            if slo.ttft_by_prompt and words["ttft"] is None:
                raise InputError(
                    f"{loaded.source.name}: slo.ttft_by_prompt: measured requests are held against"
                    " one deadline; give it as --ttft"
                )
            for name in words:
                words[name] = words[name] or getattr(slo, name)
    due = Due(*(words[name] for name in ("ttft", "tpot", "max_itl", "e2e")))
    if not due.items():
        raise InputError(
            "no deadline to hold requests against; give --ttft and --tpot, or a --scenario"
        )
    return due


def _served(loaded: LoadedScenario, template: str, workload: str | None, replicas: int) -> Served:
    from planner.explanation.counterfactual import served_by
    from planner.planning.capacity import Wanted

    return served_by(loaded, Wanted(template, None, None, workload), replicas)
