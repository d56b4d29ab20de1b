"""What an engine logs of itself every few seconds: running, waiting, KV use.

vLLM's log lines (``Running: 12 reqs, Waiting: 3 reqs, GPU KV cache usage: 45.6%``), or a table with
the columns ``running``, ``waiting`` and ``kv_cache_pct``. Neither tells single requests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.errors import InputError
from planner.measurements.files import probe, rows_of
from planner.measurements.text_lines import bounded_lines, open_text, told

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LINE: Final = re.compile(
    r"Running: (?P<running>\d{1,9}) reqs?,"
    r".{0,100}?(?:Waiting|Pending): (?P<waiting>\d{1,9}) reqs?,"
    r".{0,100}?KV cache usage: (?P<kv>\d{1,3}(?:\.\d{1,9})?) ?%"
    r"(?:,.{0,60}?Prefix cache hit rate: (?P<hits>\d{1,3}(?:\.\d{1,9})?) ?%)?"
)
ENGINE: Final = re.compile(r"Engine (\d{1,6}):")
PREEMPTED: Final = re.compile(r"is preempted by|Preempted request|num_preemptions? ?[=:] ?[1-9]")
HEAD: Final = 1_000_000
"""Characters at the beginning of a log among which there is a line of this kind."""
MOST_SAMPLES: Final = 2_000_000
COLUMNS: Final = frozenset({"running", "waiting", "kv_cache_pct"})


@dataclass(frozen=True, slots=True, eq=False)
class EngineLog:
    """The samples of one engine; arrays of shape ``(samples,)``.

    Attributes:
        name: Of the engine or setting.
        running: Requests in seats.
        waiting: Requests that wait.
        kv_use: Share of the KV blocks in use.
        prefix_hits: Share of prompt tokens that were found; NaN where not told.
        preemptions: Lines that tell of a preemption; None where the source could not tell any.
    """

    name: str
    running: Floats
    waiting: Floats
    kv_use: Floats
    prefix_hits: Floats
    preemptions: int | None


def is_engine_log(path: Path) -> bool:
    """Tell a log of an engine, or a table of its samples.

    Raises:
        InputError: It cannot be read.
    """
    found = probe(path)
    if found.kind not in ("csv", "text"):
        return False
    return found.keys >= COLUMNS or _has_lines(path)


def _has_lines(path: Path) -> bool:
    with told(path), open_text(path) as file:
        return LINE.search(file.read(HEAD)) is not None


def read_engine_log(path: Path) -> tuple[EngineLog, ...]:
    """Read the samples of each engine of a log.

    Raises:
        InputError: The file cannot be read, holds too many samples, or a cell is no number.
    """
    samples: dict[str, list[tuple[float, ...]]] = {}
    preemptions: int | None = None
    if not _has_lines(path):
        for row in rows_of(probe(path)):
            values = [row.number(name) or 0.0 for name in ("running", "waiting")]
            kv = row.number("kv_cache_pct", high=100.0, scale=0.01) or 0.0
            _add(path, samples, row.text("config") or "", (*values, kv, float("nan")))
    else:
        preemptions = 0
        with told(path), open_text(path) as file:
            for line in bounded_lines(path, file):
                preemptions += bool(PREEMPTED.search(line))
                found = LINE.search(line)
                if found is not None:
                    hits = float(found["hits"]) / 100 if found["hits"] else float("nan")
                    values = [float(found["running"]), float(found["waiting"])]
                    number = ENGINE.search(line)
                    engine = f"engine {int(number[1]) if number else 0}"
                    _add(path, samples, engine, (*values, float(found["kv"]) / 100, hits))
    return tuple(_log(name, np.array(rows).T, preemptions) for name, rows in samples.items())


def _log(name: str, columns: Floats, preemptions: int | None) -> EngineLog:
    running, waiting, kv_use, hits = columns
    return EngineLog(name, running, waiting, kv_use, hits, preemptions)


def _add(
    path: Path, samples: dict[str, list[tuple[float, ...]]], name: str, row: tuple[float, ...]
) -> None:
    rows = samples.setdefault(name, [])
    rows.append(row)
    if len(rows) > MOST_SAMPLES:
        raise InputError(f"{path}: more than {MOST_SAMPLES:,} samples of {name}; cut the log")
