"""Solvers by name: HiGHS, and every one that PuLP knows and finds on this machine."""

from __future__ import annotations

import inspect
import threading
import warnings
from typing import TYPE_CHECKING, Final

import pulp

from planner.errors import InputError, SolverError, nearest

if TYPE_CHECKING:
    from planner.milp.highs import Settings

HIGHS: Final = "highs"
"""The default, which is not run through PuLP."""
GRACE_S: Final = 2.0
"""How long a solver may go on after its time limit before it is left to itself."""


def available() -> tuple[str, ...]:
    """List the solvers that can be asked here, the default first, the rest as PuLP spells them."""
    with warnings.catch_warnings():
        # A solver that is there may be one that PuLP means to drop.
        warnings.simplefilter("ignore")
        found = pulp.listSolvers(onlyAvailable=True)
    return (HIGHS, *sorted(name for name in found if name.lower() != HIGHS))


def check_solver(name: str) -> None:
    """Refuse a solver that is not known, or not to be had on this machine.

    Raises:
        InputError: Says which solvers there are.
    """
    if name.lower() == HIGHS:
        return
    there = ", ".join(available())
    known = sorted({*pulp.listSolvers(), HIGHS})
    if name.lower() not in (one.lower() for one in known):
        raise InputError(
            f"solver {name!r} is not known; {nearest(name, known)}; installed here: {there}"
        )
    if name.lower() not in (one.lower() for one in available()):
        raise InputError(f"solver {name!r} is not installed here; there are: {there}")


def named(name: str, settings: Settings) -> pulp.LpSolver:
    """Return a solver of PuLP with the time and the gap that it is to keep, as far as it can.

    Raises:
        InputError: There is no such solver here.
    """
    check_solver(name)
    spelled = next(one for one in pulp.listSolvers() if one.lower() == name.lower())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = type(pulp.getSolver(spelled, msg=False))
        wanted = {
            "msg": False,
            "timeLimit": settings.time_limit_s,
            "gapRel": settings.gap,
            "threads": 1,
        }
        takes = inspect.signature(kind.__init__).parameters
        return pulp.getSolver(spelled, **{k: x for k, x in wanted.items() if k in takes})


def run(problem: pulp.LpProblem, engine: pulp.LpSolver, time_limit_s: float) -> int | None:
    """Let a solver of PuLP work; None if it does not come back in time.

    A solver that hangs is left to itself: its thread ends with the process, and what it might
    still write into the problem is not read.

    Raises:
        SolverError: The solver failed.
    """
    ended: list[int | BaseException] = []

    def work() -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                ended.append(problem.solve(engine))
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=work, name=f"solver {engine.name}", daemon=True)
    thread.start()
    thread.join(time_limit_s + GRACE_S)
    if not ended:
        return None
    (result,) = ended
    if isinstance(result, pulp.PulpSolverError):
        raise SolverError(f"{engine.name} failed: {result}") from result
    if isinstance(result, BaseException):
        raise result
    return result
