"""Where measured points are kept: the platform's cache folder, another one, or nowhere."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from planner.simulation.point_key import meaning_of_numbers
from planner.simulation.points import remembering

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from planner.simulation.point_store import PointStore

VARIABLE: Final = "PLANNER_CACHE_DIR"
OFF: Final = "off"
NAME: Final = "goodput-planner"


def cache_folder(environment: Mapping[str, str]) -> Path | None:
    """Return the folder that the environment asks for; None: nothing is to be kept.

    ``PLANNER_CACHE_DIR`` names it, or is ``off``. Without it, ``goodput-planner`` in
    ``XDG_CACHE_HOME`` (which must be absolute to count), or in ``~/.cache``.
    """
    named = environment.get(VARIABLE, "")
    if named:
        return None if named == OFF else Path(named)
    shared = environment.get("XDG_CACHE_HOME", "")
    if shared and Path(shared).is_absolute():
        return Path(shared) / NAME
    home = environment.get("HOME") or environment.get("USERPROFILE") or ""
    return Path(home) / ".cache" / NAME if Path(home).is_absolute() else None


@contextmanager
def points_kept_in(
    folder: Path | None, tell: Callable[[str], None] = lambda _: None
) -> Iterator[PointStore | None]:
    """Look simulations that begin inside up in a folder, and keep there what is simulated.

    Args:
        folder: Made where it is missing, ``~`` is a home; None: every simulation runs.
        tell: Told once, in one line, why the folder cannot be used; work goes on without it.
    """
    if folder is None:
        yield None
        return
    try:
        meaning_of_numbers()
        from planner.simulation.point_store import PointStore  # not every Python has sqlite

        home = folder.expanduser()
    except (OSError, ImportError) as error:
        tell(f"measured points are not kept: {error}")
        yield None
        return
    except RuntimeError:
        tell(f"measured points are not kept: {folder}: nobody's home is called so")
        yield None
        return
    with PointStore(home, tell) as store, remembering(store):
        yield store
