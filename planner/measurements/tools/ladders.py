"""Plain tables: one load level a row, or one request a row, as CSV.

A level's row has latencies as ``<ttft|tpot|itl|e2e>_<mean|p50|…>_ms`` and what else is known of
the run, under the names below. A request's row has ``input_len``, ``output_len``, ``ttft_ms``,
``e2e_ms`` and, to tell runs apart, ``config`` and ``request_rate``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planner.errors import InputError
from planner.measurements.build import (
    CHUNK_ITL,
    CLIENT_E2E,
    CLIENT_TTFT,
    TOKEN_TPOT,
    Definition,
    finished,
    keyed_statistics,
    nominal,
    records,
    tpot_of,
)
from planner.measurements.files import rows_of
from planner.measurements.measurement import (
    Arrivals,
    Lengths,
    Measurement,
    Records,
    Slo,
    Statistics,
)
from planner.measurements.node import MS, Node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.measurements.files import Probe
    from planner.measurements.measurement import Latency

DEFINITIONS: Final[dict[str, Definition]] = {
    "ttft": CLIENT_TTFT,
    "tpot": TOKEN_TPOT,
    "itl": CHUNK_ITL,
    "e2e": CLIENT_E2E,
}
PARTS: Final = {
    "mean": ("mean",),
    "std": ("std",),
    "min": ("min",),
    "p50": ("p50", "median"),
    "p75": ("p75",),
    "p90": ("p90",),
    "p95": ("p95",),
    "p99": ("p99",),
    "p999": ("p99.9",),
    "max": ("max",),
}
NAMES: Final = {
    "engine": ("engine", "framework", "flags"),
    "accelerator": ("gpu", "accelerator"),
    "accelerators": ("n_gpu", "n_gpus", "n_accel", "accelerators"),
    "precision": ("precision", "weight_dtype"),
    "arrivals": ("arrivals", "mode", "scenario"),
    "rate": ("rate_rps", "requested_rate", "scheduled_samples_per_s"),
    "completed_rps": (
        "completed_rps",
        "request_throughput",
        "request_throughput_rps",
        "completed_samples_per_s",
        "samples_per_s",
    ),
    "sent": ("n_requests", "n"),
    "tokens": ("output_tok_s", "tokens_per_s"),
    "prompt": ("isl_mean", "isl"),
    "output": ("osl_mean", "mean_output_tokens", "osl"),
    "slo_ttft": ("slo_ttft_ms", "slo_ttft_p99_ms", "ttft_slo_ms"),
    "slo_tpot": ("slo_tpot_ms", "tpot_slo_ms"),
    "place": ("config", "tag", "system"),
}
NOMINAL: Final = ("isl", "osl")
SETTINGS: Final = (
    "config",
    "flags",
    "workload",
    "max_num_batched_tokens",
    "max_num_seqs",
    "kv_dtype",
)
"""What tells runs apart that are otherwise alike."""
ENGINES: Final = ("vllm", "sglang", "tensorrt-llm", "trtllm", "tgi")
MOST_RUNS: Final = 10_000
_COLUMN: Final = re.compile(r"^(ttft|tpot|itl|e2e)_(mean|p50|median|p90|p95|p99)_ms$")
_ENGINE: Final = re.compile(r"^([A-Za-z-]+)(?:\s+v?(\d+\.\d+[^\s,;)]*))?")
_SHARED: Final = re.compile(r"shared.prefix|prefix groups|shared system prompt")


def claims(found: Probe) -> bool:
    """Tell a table with latencies of load levels."""
    return found.kind == "csv" and any(_COLUMN.match(name) for name in found.data)


def read(found: Probe) -> Iterator[Measurement]:
    """Yield one measurement per row.

    Raises:
        InputError: A cell is no number or out of bounds.
    """
    for row in rows_of(found):
        yield _level(row, found)


def _number(row: Node, name: str) -> float | None:
    for column in NAMES[name]:
        if row.has(column):
            return row.number(column)
    return None


def _count(row: Node, name: str) -> int | None:
    for column in NAMES[name]:
        if row.has(column):
            return row.whole(column)
    return None


def _level(row: Node, found: Probe) -> Measurement:
    engine, version = engine_of(row.first_text(*NAMES["engine"]) or row.first_text("system"))
    arrivals = _arrivals(row)
    latencies: tuple[Latency, ...] = ()
    for metric, definition in DEFINITIONS.items():
        latencies += definition.of(_statistics(row, metric), f"{metric}_*_ms")
    precision = row.first_text(*NAMES["precision"])
    workload = row.text("workload") or ""
    sent, failed = _count(row, "sent"), row.whole("failed")
    done = row.whole("success")
    if done is None and sent is not None and failed is not None:
        done = max(sent - failed, 0)
    ttft, tpot = _number(row, "slo_ttft"), _number(row, "slo_tpot")
    end_to_end = row.number("target_latency_ms", scale=MS)
    slo = Slo(ttft and ttft * MS, tpot and tpot * MS, end_to_end)
    line = row.where.rpartition(":")[2]
    return finished(
        Measurement(
            format="load levels",
            tool=row.text("tool") or "table",
            path=found.path,
            location=f"line {line}: {row.first_text(*NAMES['place']) or ''}".rstrip(": "),
            engine=engine,
            engine_version=version,
            model=row.text("model"),
            accelerator=row.first_text(*NAMES["accelerator"]),
            accelerators=_count(row, "accelerators") or None,
            tp_degree=row.whole("tp_degree", low=1),
            precision=None if precision == "UNSET" else precision,
            arrivals=arrivals,
            offered_rps=arrivals.rate_rps if arrivals else None,
            sent_rps=row.number("achieved_rate"),
            completed_rps=_number(row, "completed_rps"),
            sent=sent,
            completed=done,
            failed=failed,
            output_tokens_per_s=_number(row, "tokens"),
            prompt=_lengths(row, "prompt"),
            output=_lengths(row, "output"),
            latencies=latencies,
            goodput_rps=row.number("goodput_rps"),
            attainment=row.number("attainment", high=1.0),
            slo=slo if slo != Slo() else None,
            peak_concurrency=row.number("peak_concurrency"),
            prefix_hit_rate=row.number("prefix_hit", high=1.0),
            shared_prompts=workload[:200] if _SHARED.search(workload) else None,
            settings=tuple((name, row.text(name) or "") for name in SETTINGS if row.has(name)),
            notes=(note,) if (note := row.text("note")) else (),
        ),
        may_count_chunks=True,
    )


def _statistics(row: Node, metric: str) -> Statistics:
    names = {}
    for part, columns in PARTS.items():
        column = next((f"{metric}_{c}_ms" for c in columns if row.has(f"{metric}_{c}_ms")), None)
        if column:
            names[part] = column
    return keyed_statistics(row, names, scale=MS)


def engine_of(text: str | None) -> tuple[str | None, str | None]:
    """Split ``vLLM 0.27.1`` into ``vllm`` and ``0.27.1``; ``None`` for what is no engine."""
    match = _ENGINE.match(text.strip()) if text else None
    if match is None or match[1].lower() not in ENGINES:
        return None, None
    return match[1].lower(), match[2]


def _arrivals(row: Node) -> Arrivals | None:
    words = (row.first_text(*NAMES["arrivals"]) or "").lower()
    users, rate = row.number("concurrency"), _number(row, "rate")
    if "poisson" in words or words in ("server", "interactive"):
        return Arrivals("poisson", rate, users, 1.0) if rate else None
    if "constant" in words:
        return Arrivals("constant", rate, users) if rate else None
    if words == "offline":
        return Arrivals("unlimited", concurrency=users)
    return Arrivals("closed_loop", concurrency=users) if users else None


def _lengths(row: Node, side: str) -> Lengths | None:
    column = next((name for name in NAMES[side] if row.has(name)), None)
    if column is None:
        return None
    mean = row.number(column)
    if column in NOMINAL:
        return nominal(mean)
    return Lengths(Statistics(mean=mean), "observed")


def claims_requests(found: Probe) -> bool:
    """Tell a table with one request a row."""
    return found.kind == "csv" and found.keys >= {"input_len", "output_len", "ttft_ms", "e2e_ms"}


def read_requests(found: Probe) -> Iterator[Measurement]:
    """Yield one measurement per configuration and rate, in the order of their first row.

    Raises:
        InputError: A cell is no number or out of bounds, or there are too many runs.
    """
    runs: dict[tuple[str, float], list[tuple[float, ...]]] = {}
    for row in rows_of(found):
        rate = row.unbounded("request_rate")
        key = (row.text("config") or "", -1.0 if rate is None else rate)
        if key not in runs and len(runs) >= MOST_RUNS:
            raise InputError(f"{row.where}: more than {MOST_RUNS:,} runs")
        runs.setdefault(key, []).append(_request(row))
    for (config, rate), rows in runs.items():
        of = _columns(np.array(rows, np.float64))
        done = int(of.completed.sum())
        yield finished(
            Measurement(
                format="requests",
                tool="table",
                path=found.path,
                location=f"{config} at {rate:g} req/s" if rate >= 0 else config,
                sent=len(of),
                completed=done,
                failed=len(of) - done,
                offered_rps=rate if 0 <= rate < float("inf") else None,
                records=of,
            )
        )


def _request(row: Node) -> tuple[float, ...]:
    names = ("input_len", "output_len", "ttft_ms", "e2e_ms", "max_itl_ms", "start_s")
    values = [row.number(name, scale=MS if name.endswith("_ms") else 1.0) for name in names]
    return tuple(float("nan") if value is None else value for value in values)


def _columns(table: Any) -> Records:
    prompt, output, ttft, e2e, longest, start = table.T
    return records(
        len(table),
        completed=(output > 0) & (ttft > 0),
        start_s=start,
        prompt_tokens=prompt,
        output_tokens=output,
        ttft_s=ttft,
        e2e_s=e2e,
        tpot_s=tpot_of(e2e, ttft, output),
        max_itl_s=longest,
    )
