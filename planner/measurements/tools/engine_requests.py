"""A table of single requests with the engine's own times in seconds: queue, prefill, decode.

Requests of one setting, told by ``config``, are one run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planner.errors import InputError
from planner.measurements.build import finished, records, tpot_of
from planner.measurements.files import rows_of
from planner.measurements.measurement import Measurement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.measurements.files import Probe
    from planner.measurements.node import Node

NAMES: Final = {
    "start_s": ("arrival_s", "start_s", "arrived_s"),
    "prompt_tokens": ("input_toks", "prompt_tokens", "input_tokens", "input_len"),
    "output_tokens": ("output_toks", "output_tokens", "completion_tokens", "output_len"),
    "ttft_s": ("ttft_s",),
    "e2e_s": ("e2e_s", "latency_s"),
    "max_itl_s": ("max_itl_s",),
    "queue_s": ("queue_s", "queued_time_s"),
    "prefill_s": ("prefill_s",),
    "decode_s": ("decode_s",),
}
MOST_RUNS: Final = 10_000


def claims(found: Probe) -> bool:
    """Tell a table with one request a row and its times in seconds."""
    keys = found.keys
    return (
        found.kind == "csv"
        and keys >= {"ttft_s", "e2e_s"}
        and any(name in keys for name in NAMES["prompt_tokens"])
        and any(name in keys for name in NAMES["output_tokens"])
    )


def read(found: Probe) -> Iterator[Measurement]:
    """Yield one measurement per setting, in the order of their first row.

    Raises:
        InputError: A cell is no number or out of bounds, or there are too many settings.
    """
    runs: dict[str, list[tuple[float, ...]]] = {}
    about: dict[str, Node] = {}
    for row in rows_of(found):
        config = row.text("config") or ""
        if config not in runs and len(runs) >= MOST_RUNS:
            raise InputError(f"{row.where}: more than {MOST_RUNS:,} settings")
        about.setdefault(config, row)
        runs.setdefault(config, []).append(_request(row))
    for config, rows in runs.items():
        yield _measurement(found, config, about[config], np.array(rows, np.float64))


def _request(row: Node) -> tuple[float, ...]:
    values = []
    for names in NAMES.values():
        name = next((name for name in names if row.has(name)), None)
        value = None if name is None else row.number(name)
        values.append(float("nan") if value is None else value)
    return tuple(values)


def _measurement(found: Probe, config: str, row: Node, table: Any) -> Measurement:
    columns = dict(zip(NAMES, table.T, strict=True))
    completed = (columns["output_tokens"] > 0) & np.isfinite(columns["e2e_s"])
    completed &= np.isfinite(columns["ttft_s"])
    of = records(
        len(table),
        completed=completed,
        tpot_s=tpot_of(columns["e2e_s"], columns["ttft_s"], columns["output_tokens"]),
        **columns,
    )
    done = int(completed.sum())
    version = row.text("vllm")
    return finished(
        Measurement(
            format="engine requests",
            tool="table",
            path=found.path,
            location=config,
            engine="vllm" if version else None,
            engine_version=version,
            model=row.text("model"),
            accelerator=row.text("hardware"),
            sent=len(of),
            completed=done,
            failed=len(of) - done,
            records=of,
        )
    )
