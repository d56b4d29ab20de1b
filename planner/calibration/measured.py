"""Reader of ladders of one replica: closed loops and open loops, with percentiles and goodput.

Three tables are understood, told apart by their columns: open and closed loops of one device
with goodput (``rate_rps``, ``prefix_hit``), closed loops with p99 (``concurrency``,
``ttft_p99_ms``), and constant-rate stages (``requested_rate``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

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
from planner.calibration.points import Stage, System, Unusable
from planner.calibration.run import Client
from planner.calibration.silicon import find_llm, precision_of
from planner.curves.roofline import Degrees
from planner.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from planner.calibration.run import Arrivals
    from planner.catalogue import Catalogue

_ACCELERATORS: Final = {
    "L40S": "l40s",
    "MI300X": "mi300x",
    "H100-SXM-80GB": "h100-sxm",
    "H100-80GB (GKE)": "h100-sxm",
}
"""Labels of devices in these tables; others are asked of the catalogue as they are."""

QUANTITIES: Final = (
    "ttft_mean", "ttft_p50", "ttft_p90", "ttft_p99", "tpot_mean", "tpot_p50", "tpot_p90", "tpot_p99"
)  # fmt: skip
_ENGINE: Final = re.compile(
    r"(?P<name>vllm|sglang|trtllm)(?: +v?(?P<version>\d[\w.]*))?", re.IGNORECASE
)
_SEQS: Final = re.compile(r"--max-num-seqs[= ](\d+)")
_SPELT: Final = {"ttft_p50": "ttft_median_ms", "tpot_p50": "tpot_median_ms"}


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One row: a system under a client, and what was measured, by the names of ``Outcome``."""

    row: int
    id: str
    system: System
    client: Client
    measured: Mapping[str, float]
    """Seconds, requests per second, and the attainment as a share."""


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
    names = column_names_of(path)
    return bool({"rate_rps", "requested_rate"} & names) or {"concurrency", "ttft_p99_ms"} <= names


def read_ladder(path: Path, catalogue: Catalogue) -> Ladder:
    """Read a table of runs of one replica.

    Raises:
        InputError: The file cannot be read.
    """
    runs: list[MeasuredRun] = []
    unusable: list[Unusable] = []
    number = -1
    for number, row in enumerate(rows_of(path)):
        name = row.cells.get("tag") or row.cells.get("config") or f"row {number}"
        try:
            runs.append(_run(number, name, row.whole(), catalogue))
        except InputError as error:
            unusable.append(Unusable(number, name, str(error)))
    return Ladder(tuple(runs), tuple(unusable), number + 1)


def _run(number: int, name: str, cells: Mapping[str, str], catalogue: Catalogue) -> MeasuredRun:
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
    return MeasuredRun(number, name, system, _client(cells), _measured(cells))


def _client(cells: Mapping[str, str]) -> Client:
    users = whole_in(cells, "concurrency", MOST_USERS, default=0)
    asked = number_in(cells, "requested_rate", MOST_RPS)
    rate = number_in(cells, "rate_rps", MOST_RPS) or asked or 0.0
    if not users and not rate:
        raise InputError("neither a concurrency nor a rate is stated")
    arrivals: Arrivals = "closed"
    if not users:
        arrivals = "constant" if asked else "poisson"
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
        cached_tokens=round(prompt * (number_in(cells, "prefix_hit", 1.0) or 0.0)),
        max_num_batched_tokens=round(budget) if budget else None,
        max_num_seqs=_seqs(seqs[1]) if seqs else None,
        ttft_slo_s=ttft / 1e3 if ttft else None,
        tpot_slo_s=tpot / 1e3 if tpot else None,
    )


def _length(cells: Mapping[str, str], name: str) -> int:
    mean = number_in(cells, f"{name}_mean", MOST_TOKENS)
    return round(number_in(cells, name, MOST_TOKENS) or mean or 0.0)


def _seqs(digits: str) -> int:
    if len(digits) > 7 or int(digits) < 1:
        raise InputError(f"--max-num-seqs: expected a whole number from 1, got {digits[:20]}")
    return int(digits)


def _measured(cells: Mapping[str, str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for quantity in QUANTITIES:
        spelt = _SPELT.get(quantity, "")
        value = number_in(cells, f"{quantity}_ms", MOST_MS) or number_in(cells, spelt, MOST_MS)
        if value:
            found[f"{quantity}_s"] = value / 1e3
    for name, high in (("goodput_rps", MOST_RPS), ("attainment", 1.0)):
        value = number_in(cells, name, high)
        if value is not None:
            found[name] = value
    return found
