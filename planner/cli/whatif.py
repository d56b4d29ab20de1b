"""``planner whatif``: one question asked many times, with values of the scenario changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from planner.cli.options import Json, Seed, Settings, seconds
from planner.cli.output import emit_json, emit_tables, note, progress, require_writable, write_whole
from planner.cli.whatif_own import own
from planner.cli.whatif_prices import break_even, offer
from planner.cli.whatif_study import study
from planner.errors import InputError, LimitReachedError

if TYPE_CHECKING:
    from planner.studies import FlipMap


class Questions(TyperGroup):
    """Takes a file in place of a verb for a study: ``planner whatif STUDY.yaml``."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the verb and what is left of the words."""
        known = not args or args[0] in self.commands or args[0].startswith("-")
        return super().resolve_command(ctx, args if known else ["study", *args])


app = typer.Typer(
    cls=Questions,
    help="Ask a scenario's question with values changed.",
    no_args_is_help=True,
)


app.command()(own)
app.command()(study)
app.command()(break_even)
app.command()(offer)


@app.callback()
def _group() -> None:
    """Ask a scenario's question with values changed."""


@app.command()
def apart(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A scenario that states a link.")],
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="AXIS=VALUES",
            help="prompt, output, ttft, tpot, scale (multiples), link (nvlink, rdma, tcp), or a"
            " path: tpot=1,2,4. Repeats; the first goes along the strips. Left out: each alone.",
        ),
    ] = None,
    plans: Annotated[
        int,
        typer.Option("--plans", min=1, max=1000, help="Most plans; what is over finds the flips."),
    ] = 24,
    with_lines: Annotated[
        bool, typer.Option("--lines", help="Also split each difference, cause by cause.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Also write a row per cell (.csv)."),
    ] = None,
    draw: Annotated[
        Path | None,
        typer.Option("--draw", metavar="FILE", help="Also draw the map (.svg)."),
    ] = None,
    settings: Settings = None,
    seed: Seed = None,
    time_limit: Annotated[
        str | None,
        typer.Option("--time-limit", metavar="TIME", help="When to stop, such as 10min."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Map where prefill and decode are cheaper together, and where apart.

    One plan per cell. The files are written anew after each, so that an interrupt keeps the rows
    that are done.
    """
    for name, path, suffix in (("--output", output, ".csv"), ("--draw", draw, ".svg")):
        if path is not None and path.suffix != suffix:
            raise InputError(f"{name} {path}: must end in {suffix}")
    limit = seconds("--time-limit", time_limit)
    from planner.scenario.load import load_scenario, solver_settings

    loaded = load_scenario(file, [*(settings or []), *solver_settings(None, None, seed)])
    if output is not None:
        require_writable(output, file, draw)
    if draw is not None:
        require_writable(draw, file, output)
    from planner.reporting.flip_map import flip_csv, flip_svg, flip_tables
    from planner.reporting.format import count
    from planner.studies import Bounds, axis_of, flip_map

    def keep(so_far: FlipMap) -> None:
        if output is not None:
            write_whole(output, flip_csv(so_far))
        if draw is not None:
            write_whole(draw, flip_svg(so_far))

    axes = [axis_of(loaded, text) for text in vary or []]
    with progress() as report:
        found = flip_map(
            loaded,
            axes,
            Bounds(plans, limit, with_lines),
            progress=report,
            kept=keep,
        )
    if as_json:
        emit_json(found.model_dump(mode="json"))
    else:
        emit_tables(*flip_tables(found))
    if found.ended:
        note(f"{found.ended}; {count(len(found.cells), 'cell')} of the map done")
        return LimitReachedError.exit_code
    return 0 if any(cell.pools for cell in found.cells) else 3
