"""LLMPerf: the summary, and the list of single responses, in seconds; a closed loop.

Its ``inter_token_latency_s`` is E2E / output tokens and so includes TTFT: it is no TPOT of
ours. TTFT, E2E and the output length of each response give ours. It writes some whole numbers as
text, and NaN for the spread of a single response.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.errors import InputError
from planner.measurements.build import (
    CLIENT_E2E,
    CLIENT_TTFT,
    Definition,
    finished,
    keyed_statistics,
    records,
    tpot_of,
)
from planner.measurements.files import rows_of
from planner.measurements.measurement import Arrivals, Lengths, Measurement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.measurements.files import Probe
    from planner.measurements.measurement import Latency, Statistics
    from planner.measurements.node import Node

ITL: Final = Definition(
    "tpot", "requests", "other", "per request: E2E / output tokens", "it includes TTFT"
)
QUANTILES: Final = ("p50", "p75", "p90", "p95", "p99")


def claims(found: Probe) -> bool:
    """Tell a summary of LLMPerf."""
    return found.kind == "json" and "results_ttft_s_mean" in found.keys


def read(found: Probe) -> Iterator[Measurement]:
    """Yield the one measurement of a summary.

    Raises:
        InputError: A value is of the wrong kind or out of bounds.
    """
    for row in rows_of(found):
        node = _plain(row)
        users = node.number("num_concurrent_requests")
        latencies: tuple[Latency, ...] = ()
        for definition, name in (
            (CLIENT_TTFT, "ttft_s"),
            (ITL, "inter_token_latency_s"),
            (CLIENT_E2E, "end_to_end_latency_s"),
        ):
            latencies += definition.of(_statistics(node, name), name)
        done, sent = (
            node.whole("results_num_completed_requests"),
            node.whole("results_num_requests_started"),
        )
        per_minute = node.number("results_num_completed_requests_per_min")
        rate = per_minute / 60 if per_minute is not None else None
        yield finished(
            Measurement(
                format="llmperf",
                tool="llmperf",
                path=found.path,
                location=node.path,
                model=node.text("model"),
                arrivals=Arrivals("closed_loop", concurrency=users) if users else None,
                completed_rps=rate,
                sent=sent,
                completed=done,
                failed=node.whole("results_number_errors"),
                duration_s=done / rate if done and rate else None,
                output_tokens_per_s=node.number("results_mean_output_throughput_token_per_s"),
                prompt=_lengths(node, "number_input_tokens"),
                output=_lengths(node, "number_output_tokens"),
                latencies=latencies,
            )
        )


def _plain(row: Node) -> Node:
    """Take numbers that are written as text, and leave out what is NaN: the tool's "no value"."""
    known = {key: value for key, value in row.table().items() if not _blank(value)}
    return replace(row, value=known, cells=True)


def _blank(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _statistics(node: Node, name: str) -> Statistics:
    names = {part: f"results_{name}_{part}" for part in ("mean", "min", "max")}
    names["std"] = f"results_{name}_stddev"
    names |= {q: f"results_{name}_quantiles_{q}" for q in QUANTILES}
    return keyed_statistics(node, names)


def _lengths(node: Node, name: str) -> Lengths | None:
    statistics = _statistics(node, name)
    return Lengths(statistics, "observed") if statistics.known else None


def claims_records(found: Probe) -> bool:
    """Tell the single responses of LLMPerf."""
    needs = {"ttft_s", "end_to_end_latency_s", "number_output_tokens"}
    return found.kind in ("json", "jsonl") and found.keys >= needs


def read_records(found: Probe) -> Iterator[Measurement]:
    """Yield the one measurement of all responses; the order is that of their ends.

    Raises:
        InputError: A value is of the wrong kind or out of bounds.
    """
    names = ("number_input_tokens", "number_output_tokens", "ttft_s", "end_to_end_latency_s")
    rows = []
    for node in rows_of(found):
        values = [node.number(name) for name in names]
        failed = node.has("error_code") or not values[1] or not values[2]
        rows.append([float(not failed), *(np.nan if v is None else v for v in values)])
    if not rows:
        raise InputError(f"{found.path}: no response")
    completed, prompt, output, ttft, e2e = np.array(rows, np.float64).T
    of = records(
        len(rows),
        completed=completed > 0,
        prompt_tokens=prompt,
        output_tokens=output,
        ttft_s=ttft,
        e2e_s=e2e,
        tpot_s=tpot_of(e2e, ttft, output),
    )
    done = int(of.completed.sum())
    yield finished(
        Measurement(
            format="llmperf responses",
            tool="llmperf",
            path=found.path,
            location="",
            sent=len(of),
            completed=done,
            failed=len(of) - done,
            records=of,
        )
    )
