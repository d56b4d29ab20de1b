"""Work on several things at once; results, and what goes wrong, do not depend on how many."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock
from typing import TYPE_CHECKING, Final, TypeVar

from planner.errors import LimitReachedError
from planner.simulation.crew import crew_at_hand

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

J = TypeVar("J")
R = TypeVar("R")

MOST_THREADS: Final = 16
"""Each holds the requests and records of a run, some 10 MiB."""


def processors() -> int:
    """Return how many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


THREADS: Final = max(2, min(processors(), MOST_THREADS))
"""The kernel releases the interpreter, so runs overlap."""


def side_by_side(
    work: Callable[[J, Callable[[], None]], R],
    jobs: Sequence[J],
    *,
    check: Callable[[], None] = lambda: None,
    threads: int = THREADS,
) -> list[R]:
    """Work on jobs in threads.

    An error or an interrupt ends all of them: jobs that wait are not begun, and those that run
    stop when they next ask whether to go on.

    Args:
        work: Given a job and what it must call before each part of its work, which raises where
            that is to end.
        jobs: In order.
        check: Raises where the time is over.
        threads: At once.

    Returns:
        Results in the order of the jobs.

    Raises:
        BaseException: What the first job raised that failed.
    """
    ended = Event()
    failed: list[BaseException] = []
    lock = Lock()

    def go_on() -> None:
        check()
        if ended.is_set():
            raise LimitReachedError("another run was ended")

    def one(job: J) -> R:
        try:
            go_on()
            return work(job, go_on)
        except BaseException as error:
            with lock:
                if not ended.is_set():
                    failed.append(error)
                    ended.set()
            raise

    if len(jobs) <= 1 or threads <= 1:
        return [one(job) for job in jobs]
    with ThreadPoolExecutor(threads) as pool:
        try:
            return list(pool.map(one, jobs))
        except BaseException as error:
            ended.set()
            if isinstance(error, KeyboardInterrupt):
                if (crew := crew_at_hand()) is not None:
                    crew.abandon()
                raise
            raise failed[0] from None
