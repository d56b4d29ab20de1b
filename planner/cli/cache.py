"""The cache of simulations, as the command line offers it: where it is, and what it saved."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.cli.output import note
from planner.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

CacheDir = Annotated[
    Path | None,
    typer.Option(
        "--cache-dir", metavar="DIR", help="Where simulations are remembered, if not as usual."
    ),
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Simulate everything anew and remember nothing.")
]


@contextlib.contextmanager
def remembered_simulations(folder: Path | None = None, none: bool = False) -> Iterator[None]:
    """Read simulations that ran before from disk; run others on every processor.

    On a terminal, says how many were read.

    Args:
        folder: From ``--cache-dir``; the environment's where left out.
        none: From ``--no-cache``.

    Raises:
        InputError: Both are given, or the folder is a file.
    """
    if folder is not None and none:
        raise InputError("--no-cache: contradicts --cache-dir; give one of them")
    if folder is not None and _is_a_file(folder):
        raise InputError(f"--cache-dir {folder}: is a file; name a folder")
    from planner.kernels import COMPILED
    from planner.simulation.crew import Crew, simulating_in
    from planner.simulation.point_folder import cache_folder, points_kept_in
    from planner.simulation.side_by_side import THREADS, processors

    chosen = None if none else folder or cache_folder(os.environ)
    crew = None if COMPILED or processors() < 2 else Crew(THREADS)
    with simulating_in(crew), points_kept_in(chosen, note) as store:
        yield
    if store is not None and store.asked and sys.stderr is not None and sys.stderr.isatty():
        note(f"{store.found} of {store.asked} simulations were read from {store.path.parent}")


def _is_a_file(folder: Path) -> bool:
    """Tell whether a path is that of something else than a folder, as far as can be seen."""
    try:
        return folder.exists() and not folder.is_dir()
    except OSError:  # too long, or behind a closed door: told where it is used
        return False
