"""One execution: a damaged file is read, or refused by an ``InputError``; in time and in memory."""

from __future__ import annotations

import random  # noqa: TID251 - ten times as fast, and always from a seed
import resource
import shutil
import signal
import time
import traceback
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from planner.errors import PlannerError
from tests.fuzz.mutate import damaged, packed
from tests.fuzz.readers import SEEDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.fuzz.readers import Reader

MOST_S: Final = 5.0
"""Of the processor: on a busy machine the clock says nothing."""
MOST_WAIT_S: Final = 60.0
"""By the clock: what waits for ever takes no processor."""
MOST_BYTES: Final = 2**30
"""By which the process may grow."""
BESIDE: Final = ("log.csv", "table.json", "histogram.csv", "small.yaml")
"""Files that others name by a relative path."""


class HangError(BaseException):
    """Reading took too long; no ``Exception``, so that no reader takes it for its own."""


@dataclass
class Count:
    """What came of the executions."""

    executions: int = 0
    read: int = 0
    refused: int = 0
    broken: dict[str, str] = field(default_factory=dict)
    """By the place in the code: how to have it again, and what was said."""


def prepare(folder: Path) -> None:
    """Put what documents name by a path beside them."""
    for name in BESIDE:
        shutil.copy(SEEDS / name, folder / name)


def execute(reader: Reader, seed: int, folder: Path, count: Count) -> None:
    """Draw one file, read it, and note what is neither success nor a refusal in words."""
    path = draw(reader, seed, folder)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    count.executions += 1
    try:
        with _no_longer_than(MOST_S, MOST_WAIT_S), warnings.catch_warnings():
            warnings.simplefilter("error")
            reader.read(path)
        count.read += 1
    except PlannerError as error:
        count.refused += 1
        if error.exit_code != 2 or not str(error) or "Traceback" in str(error):
            _note(count, reader, seed, error)
    except (Exception, HangError) as error:
        _note(count, reader, seed, error)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    if grown > MOST_BYTES:
        count.broken.setdefault(f"{reader.name}: {grown >> 20} MiB more", f"seed {seed}")
    path.unlink(missing_ok=True)


def draw(reader: Reader, seed: int, folder: Path) -> Path:
    """Write the file of a seed."""
    rng = random.Random(f"{reader.name} {seed}")
    raw, ending = damaged(rng, reader.seeds()), rng.choice(reader.endings)
    path = folder / f"{reader.name}{ending}"
    path.write_bytes(packed(rng, raw) if ending.endswith(".gz") else raw)
    return path


def _note(count: Count, reader: Reader, seed: int, error: BaseException) -> None:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/planner/" in frame.filename] or frames
    last = ours[-1]
    place = f"{reader.name}: {type(error).__name__} at {last.filename}:{last.lineno}"
    count.broken.setdefault(place, f"seed {seed}: {str(error)[:300]}")


@contextmanager
def _no_longer_than(cpu_s: float, wait_s: float) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise HangError(f"more than {cpu_s:g} s of the processor, or {wait_s:g} s by the clock")

    timers = (
        (signal.SIGPROF, signal.ITIMER_PROF, cpu_s),
        (signal.SIGALRM, signal.ITIMER_REAL, wait_s),
    )
    old = [signal.signal(number, ring) for number, _, _ in timers]
    for _, timer, seconds in timers:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(timers, old, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def run(
    readers: Sequence[Reader], folder: Path, seconds: float, first: int = 0, most: int | None = None
) -> dict[str, Count]:
    """Execute for some seconds, or so often, the readers in turn by equal shares of time."""
    prepare(folder)
    counts = {reader.name: Count() for reader in readers}
    slice_s, end = min(seconds / len(readers), 5.0), time.monotonic() + seconds
    while time.monotonic() < end:
        for reader in readers:
            count, until = counts[reader.name], time.monotonic() + slice_s
            while time.monotonic() < until:
                execute(reader, first + count.executions, folder, count)
            if most is not None and sum(c.executions for c in counts.values()) >= most:
                return counts
    return counts
