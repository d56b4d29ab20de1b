"""Reader of ladders: closed loops and open loops, with percentiles and goodput.

Tables are told apart by their columns: open and closed loops of one replica with goodput
(``rate_rps``, ``prefix_hit``), closed loops with p99 (``concurrency``, ``ttft_p99_ms``),
constant-rate stages (``requested_rate``), rate ladders whose degrees and lengths stand in prose
(``system``, ``config``, ``workload``), and MLPerf Inference results.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from planner.calibration import mlperf, rate_ladders
from planner.calibration.cells import (
    MOST_DEVICES,
    MOST_MS,
    MOST_REQUESTS,
    MOST_RPS,
    MOST_TOKENS,
    MOST_USERS,
    column_names_of,
    number_in,
    rows_of,
    whole_in,
)
from planner.calibration.measured_run import MeasuredRun, quantities_of
from planner.calibration.points import Stage, System, Unusable
from planner.calibration.run import Client
from planner.calibration.silicon import find_llm, precision_of
from planner.curves.roofline import Degrees
from planner.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from planner.calibration.run import Arrivals
    from planner.catalogue import Catalogue

    Reader = Callable[[int, Mapping[str, str], Catalogue], MeasuredRun]

_ACCELERATORS: Final = {
    "L40S": "l40s",
    "MI300X": "mi300x",
    "H100-SXM-80GB": "h100-sxm",
    "H100-80GB (GKE)": "h100-sxm",
}
"""Labels of devices in these tables; others are asked of the catalogue as they are."""

_ENGINE: Final = re.compile(
    r"(?P<name>vllm|sglang|trtllm)(?: +v?(?P<version>\d[\w.]*))?", re.IGNORECASE
)
_SEQS: Final = re.compile(r"--max-num-seqs[= ](\d+)")
_SYSTEM: Final = re.compile(r"shared_prefix: .*\bsystem (\d+) \+")


@dataclass(frozen=True, slots=True)
class Ladder:
    """The runs of a file, and the rows that are none."""

    runs: tuple[MeasuredRun, ...]
    unusable: tuple[Unusable, ...]
    rows: int


def is_ladder(path: Path) -> bool:
    """Tell whether a file is one of these tables, by its header.

    Raises:
        InputError: It cannot be read.
    """
    return _reader(column_names_of(path)) is not None


def _reader(names: frozenset[str]) -> Reader | None:
    if names >= mlperf.COLUMNS:
        return mlperf.mlperf_run
    if names >= rate_ladders.COLUMNS:
        return rate_ladders.rate_ladder_run
    if {"rate_rps", "requested_rate"} & names or {"concurrency", "ttft_p99_ms"} <= names:
        return _run
    return None


def read_ladder(path: Path, catalogue: Catalogue) -> Ladder:
    """Read a table of runs.

    Raises:
        InputError: The file cannot be read, or is none of these tables.
    """
    read = _reader(column_names_of(path))
    if read is None:
        raise InputError(f"{path}: is no table of runs at loads or rates")
    runs: list[MeasuredRun] = []
    unusable: list[Unusable] = []
    number = -1
    for number, row in enumerate(rows_of(path)):
        try:
            runs.append(read(number, row.whole(), catalogue))
        except InputError as error:
            unusable.append(Unusable(number, _name(number, row.cells), str(error)))
    return Ladder(tuple(runs), tuple(unusable), number + 1)


def _name(row: int, cells: Mapping[str, str]) -> str:
    return cells.get("tag") or cells.get("config") or cells.get("system") or f"row {row}"


def _run(row: int, cells: Mapping[str, str], catalogue: Catalogue) -> MeasuredRun:
    model, _, suffix = (cells.get("model") or "").partition(" ")
    llm = find_llm(catalogue, model)
    stated = (cells.get("precision") or suffix or "unstated").lower()
    label = cells.get("gpu") or ""
    stack = " ".join(cells.get(name) or "" for name in ("engine", "flags", "config"))
    engine = _ENGINE.search(stack)
    if engine is None:
        raise InputError("engine: not stated")
    devices = whole_in(cells, "n_gpu", MOST_DEVICES, low=1, default=1)
    system = System(
        llm=llm,
        precision=precision_of(llm, stated),
        accelerator=catalogue.accelerator(_ACCELERATORS.get(label, label)),
        engine=engine["name"].lower(),
        engine_version=engine["version"] or "",
        mode="colocated",
        main=Stage(Degrees(devices), 1),
    )
    return MeasuredRun(row, _name(row, cells), system, _client(cells), quantities_of(cells))


def _client(cells: Mapping[str, str]) -> Client:
    users = whole_in(cells, "concurrency", MOST_USERS, default=0)
    asked = number_in(cells, "requested_rate", MOST_RPS)
    rate = number_in(cells, "rate_rps", MOST_RPS) or asked or 0.0
    if not users and not rate:
        raise InputError("neither a concurrency nor a rate is stated")
    arrivals: Arrivals = "closed"
    if not users:
        arrivals = "constant" if asked else "poisson"
    prefix = _cached_prefix(cells)
    prompt, output = _length(cells, "isl"), _length(cells, "osl")
    if not prompt or not output:
        raise InputError("the lengths of prompts or outputs are not stated")
    budget = number_in(cells, "max_num_batched_tokens", MOST_TOKENS)
    seqs = _SEQS.search(cells.get("flags") or "")
    ttft = number_in(cells, "slo_ttft_ms", MOST_MS)
    tpot = number_in(cells, "slo_tpot_ms", MOST_MS)
    sent = whole_in(cells, "n_requests", MOST_REQUESTS, default=0)
    return Client(
        arrivals=arrivals,
        users=users,
        rate_rps=rate,
        requests=sent or whole_in(cells, "n", MOST_REQUESTS, default=0),
        prompt_tokens=prompt,
        output_tokens=output,
        cached_tokens=prefix or round(prompt * (number_in(cells, "prefix_hit", 1.0) or 0.0)),
        max_num_batched_tokens=round(budget) if budget else None,
        max_num_seqs=_seqs(seqs[1]) if seqs else None,
        ttft_slo_s=ttft / 1e3 if ttft else None,
        tpot_slo_s=tpot / 1e3 if tpot else None,
    )


def _cached_prefix(cells: Mapping[str, str]) -> int:
    """Return the system prompt's tokens where the flags say that prefixes are cached; else 0."""
    flags = cells.get("flags") or ""
    shared = _SYSTEM.search(cells.get("workload") or "")
    cached = re.search(r"(?<!no-)enable-prefix-caching|^prefix caching", flags)
    return int(shared[1]) if shared and cached else 0


def _length(cells: Mapping[str, str], name: str) -> int:
    mean = number_in(cells, f"{name}_mean", MOST_TOKENS)
    return round(number_in(cells, name, MOST_TOKENS) or mean or 0.0)


def _seqs(digits: str) -> int:
    if len(digits) > 7 or int(digits) < 1:
        raise InputError(f"--max-num-seqs: expected a whole number from 1, got {digits[:20]}")
    return int(digits)
