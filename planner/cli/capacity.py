"""``planner capacity``: how much one template carries, and its goodput past that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.cache import CacheDir, NoCache, remembered_simulations
from planner.cli.options import Json, Seed, Settings, share
from planner.cli.output import emit, emit_tables, progress, require_writable, write_whole
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.planning.capacity import TemplateCapacity


def capacity(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The scenario.")],
    template: Annotated[
        str | None,
        typer.Option("--template", metavar="TEXT", help="Part of a template's id."),
    ] = None,
    accelerator: Annotated[
        str | None, typer.Option("--accelerator", metavar="ID", help="Which accelerator.")
    ] = None,
    tp_degree: Annotated[
        int | None, typer.Option("--tp", min=1, help="Tensor-parallel degree.")
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option("--workload", metavar="ID", help="Serve this one alone; else all together."),
    ] = None,
    replicas: Annotated[
        int, typer.Option("--replicas", min=1, max=100_000, help="Size of the pool.")
    ] = 1,
    precision: Annotated[
        str, typer.Option("--precision", metavar="SHARE", help="Wanted half-width of the interval.")
    ] = "0.5%",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Draw the curve: .svg or .html."),
    ] = None,
    as_json: Json = False,
    settings: Settings = None,
    seed: Seed = None,
    cache_dir: CacheDir = None,
    no_cache: NoCache = False,
) -> int:
    """Find the largest load at which a template keeps the promise, and what comes after it.

    Prints the capacity with its 95 % interval and the compliant rate at each load, up to its
    collapse. Among several templates that fit, the cheapest per request is measured.
    """
    wanted_precision = share("--precision", precision) or 0.0
    if wanted_precision <= 0:
        raise InputError(f"--precision: {precision!r} must be above 0, such as 0.5%")
    if output is not None:
        if output.suffix not in (".svg", ".html"):
            raise InputError(f"-o {output}: a picture ends in .svg or .html")
        require_writable(output)
    from planner.scenario.load import load_scenario, solver_settings

    changes = [*(settings or []), *solver_settings(None, None, seed)]
    loaded = load_scenario(file, changes)
    from planner.planning.capacity import Wanted, capacity_of

    wanted = Wanted(template, accelerator, tp_degree, workload)
    with remembered_simulations(cache_dir, no_cache), progress() as report:
        found = capacity_of(
            loaded, wanted, replicas=replicas, precision=wanted_precision, progress=report
        )
    try:
        if output is not None:
            _draw(found, output)
    finally:
        _show(found, as_json=as_json)  # what was found is shown even if the disk is full
    return 0


def _draw(found: TemplateCapacity, output: Path) -> None:
    from planner.reporting.goodput_svg import goodput_html, goodput_svg

    draw = goodput_svg if output.suffix == ".svg" else goodput_html
    write_whole(output, draw(found))


def _show(found: TemplateCapacity, *, as_json: bool) -> None:
    from planner.reporting.capacity import capacity_table
    from planner.spec import dump_json

    if as_json:
        emit(dump_json(found))
    else:
        emit_tables(*capacity_table(found))
