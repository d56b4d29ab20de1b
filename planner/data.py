"""What the distribution carries: its data, and its version."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, metadata
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

_PACKAGE: Final = Path(str(files("planner")))


def shipped(kind: Literal["models", "scenarios"]) -> Path:
    """Return the folder of shipped ``models`` or ``scenarios``.

    A wheel carries both under ``planner/_data`` (see ``setup.py``); an editable install
    and a bare checkout have them beside the package.
    """
    beside = _PACKAGE.parent / kind
    inside = _PACKAGE / "_data" / kind
    return inside if inside.is_dir() else beside


def version() -> str:
    """Return the version of the installed distribution, ``0+checkout`` where there is none."""
    try:
        return metadata("goodput-planner")["Version"]
    except PackageNotFoundError:
        return "0+checkout"
