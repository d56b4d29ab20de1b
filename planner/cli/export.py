"""``planner export``: what creates a plan's fleet, and whether a folder still does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.options import Json
from planner.cli.output import emit, emit_json, write_whole
from planner.errors import InputError, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.fleet import FleetPlan

BROKEN = 5
MOST_BYTES = 2**20
"""Of a file that is checked."""


def export(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan.json.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Folder of the files.")
    ],
    target: Annotated[
        list[str],
        typer.Option(
            "--target",
            metavar="NAME",
            help="vllm: a file per pool for vllm serve --config; lws: a LeaderWorkerSet per pool."
            " Repeats.",
        ),
    ],
    model: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="MODEL=LOCATION", help="Where weights lie. Repeats."),
    ] = None,
    image: Annotated[
        str | None, typer.Option("--image", metavar="IMAGE", help="Container with the engine.")
    ] = None,
    kv_connector: Annotated[
        str | None,
        typer.Option(
            "--kv-connector", metavar="NAME", help="For prefill and decode apart: NixlConnector."
        ),
    ] = None,
    node_selector: Annotated[
        list[str] | None,
        typer.Option(
            "--node-selector",
            metavar="ACCELERATOR=LABEL=VALUE",
            help="By which label its nodes are known. Repeats.",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Write nothing; say where DIR differs from the plan (exit 5)."
        ),
    ] = False,
    as_json: Json = False,
) -> int:
    """Write files that create exactly the plan's fleet, with the load test that confirms it.

    Nothing is invented: what a plan does not know comes from options, and is asked for.
    """
    from planner.exports import TARGETS, read_options
    from planner.exports import export as exported
    from planner.fleet import read_plan

    targets = list(dict.fromkeys(target))
    for name in targets:
        if name not in TARGETS:
            raise InputError(f"--target {name}: {nearest(name, TARGETS)}")
    found = read_plan(plan)
    if check:
        return _check(found, targets, output, as_json=as_json)
    options = read_options(found, model or [], image, kv_connector, node_selector or [])
    texts = exported(found, targets, options)
    _write(output, texts, targets)
    if as_json:
        emit_json({"format_version": "1.0", "folder": str(output), "files": sorted(texts)})
    else:
        emit("".join(f"{output / name}\n" for name in sorted(texts)))
    return 0


def _write(output: Path, texts: dict[str, str], targets: Sequence[str]) -> None:
    """Write the files; a folder with files of another fleet is refused, so that none is applied."""
    try:
        output.mkdir(exist_ok=True)
        for name in targets:
            folder = output / name
            folder.mkdir(exist_ok=True)
            others = [p.name for p in folder.iterdir() if f"{name}/{p.name}" not in texts]
            if others:
                raise InputError(
                    f"{folder}: holds {', '.join(sorted(others)[:3])}, which this plan does not"
                    " have; name another folder"
                )
    except FileExistsError as error:
        raise InputError(f"{output}: is a file; name a folder") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{output}: cannot be made: {why}") from error
    for name, text in texts.items():
        write_whole(output / name, text)


def _check(plan: FleetPlan, targets: Sequence[str], output: Path, *, as_json: bool) -> int:
    """Read the folder back."""
    from planner.exports import check
    from planner.source import read_text

    told = []
    for name in targets:
        folder = output / name
        files = sorted(folder.glob("*")) if folder.is_dir() else []
        told += check(plan, name, {p.name: read_text(p, MOST_BYTES) for p in files})
    if as_json:
        emit_json({"format_version": "1.0", "folder": str(output), "differs": told})
    else:
        emit("".join(f"{line}\n" for line in told) or f"{output}: as planned\n")
    return BROKEN if told else 0
