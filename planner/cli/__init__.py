"""The command line: arguments in, exit code out. No decision is made here.

Modules are light at import: what is heavy (numpy, pydantic, solvers) is imported by the
verb that needs it, so that ``planner --help`` answers at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED: Final = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: Words after ``planner``; those of the process where left out.

    Returns:
        The exit code: 0 done, 1 internal error, 2 input is wrong, 3 infeasible, 4 a limit or an
        interrupt ended the work, 5 a promise is broken.
    """
    try:
        from planner.cli.app import run

        return run(arguments)
    except KeyboardInterrupt:  # while modules load, or while the last lines are written
        from planner.cli.output import note

        note("interrupted")
        return INTERRUPTED
