"""Processes that simulate, for where threads would wait for each other: the plain simulator.

The compiled simulator lets go of the interpreter, so threads use every processor. The plain one is
Python and does not. Whoever owns the program's start, as the command line does, may let runs go to
processes of their own; results are the same to the bit.
"""

from __future__ import annotations

import multiprocessing
import signal
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from planner.errors import LimitReachedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

P = ParamSpec("P")
R = TypeVar("R")

GIVE_UP_S: Final = 2.0
"""How long a process may take to end."""


class Crew:
    """Processes that are started when first needed, and again after an interrupt.

    Args:
        size: How many, at least 2.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._lock = Lock()
        self._pool: ProcessPoolExecutor | None = None
        self._unusable = False

    def call(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function of a module in one of the processes; here, where none can be had.

        Raises:
            LimitReachedError: The work was abandoned.
        """
        pool = self._begun()
        if pool is None:
            return work(*args, **kwargs)
        try:
            return pool.submit(work, *args, **kwargs).result()
        except KeyboardInterrupt:
            self.abandon()
            raise
        except (BrokenExecutor, RuntimeError) as error:
            if self._pool is not pool:
                raise LimitReachedError("another run was ended") from error
            if not isinstance(error, BrokenExecutor):
                raise
            self._unusable = True
            return work(*args, **kwargs)

    def abandon(self) -> None:
        """End the processes at once, whatever they are doing."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            children = multiprocessing.active_children()
            for child in children:
                child.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            for child in children:
                child.join(GIVE_UP_S)

    def close(self) -> None:
        """End the processes when they are done."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True, cancel_futures=True)

    def _begun(self) -> ProcessPoolExecutor | None:
        with self._lock:
            if self._pool is None and not self._unusable:
                try:
                    self._pool = ProcessPoolExecutor(
                        self.size, multiprocessing.get_context("spawn"), _ignore_interrupts
                    )
                except (OSError, ImportError, ValueError):  # no semaphores, no room
                    self._unusable = True
            return None if self._unusable else self._pool


def _ignore_interrupts() -> None:
    """Leave an interrupt of the terminal to the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


_crew: Crew | None = None


@contextmanager
def simulating_in(crew: Crew | None) -> Iterator[None]:
    """Let runs that begin inside go to a crew, which is dismissed at the end."""
    global _crew  # runs begin far below those who may start processes
    before, _crew = _crew, crew
    try:
        yield
    except BaseException:
        if crew is not None:
            crew.abandon()
        raise
    finally:
        _crew = before
        if crew is not None:
            crew.close()


def crew_at_hand() -> Crew | None:
    """Return the processes that runs may go to; None: they run here."""
    return _crew
