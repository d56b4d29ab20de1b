"""Everything that the planner can refuse, as one tree.

* PlannerError
    + InputError            the user's files or arguments are wrong   (exit 2)
    + InfeasibleError       no fleet keeps every promise              (exit 3)
    + LimitReachedError     a limit ended the work before any plan    (exit 4)
    + SolverError           the solver failed or lied                 (exit 1)

Anything else that escapes is a bug of ours (exit 1).
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, order=True)
class Where:
    """A place in a user's file; lines and columns count from 1."""

    path: str
    line: int
    column: int

    def __str__(self) -> str:
        """Write the place as editors and terminals link it."""
        return f"{self.path}:{self.line}:{self.column}"


class PlannerError(Exception):
    """Base of every error that the planner raises on purpose."""

    exit_code: ClassVar[int] = 1


class InputError(PlannerError):
    """A scenario, catalogue file or argument says something that cannot be used.

    The message holds one line per mistake:
    ``file:line:column: path: what is wrong; how to mend it``.
    """

    exit_code = 2


class InfeasibleError(PlannerError):
    """No fleet within the limits keeps every promise of the scenario."""

    exit_code = 3


class LimitReachedError(PlannerError):
    """A time limit ended the work before any plan was found."""

    exit_code = 4


class SolverError(PlannerError):
    """The solver failed, or its answer did not survive our own check."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Say what the user may have meant: the nearest known name, or all of them if few.

    Returns:
        A clause such as ``did you mean 'h100-sxm'?``, or ``known: a, b, c``; never empty.
    """
    names = sorted(set(known))
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    if not names:
        return "none is known"
    shown = ", ".join(names[:12])
    return f"known: {shown}" + (f" and {len(names) - 12} more" if len(names) > 12 else "")
