"""AIPerf and GenAI-Perf: summaries as JSON and CSV, single requests as JSONL.

Every metric names its unit. ``inter_token_latency`` is per request, (E2E − TTFT) / (output
tokens − tokens of the first chunk): our TPOT. ``inter_chunk_latency`` holds the gaps.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planner.errors import InputError
from planner.measurements.build import (
    CHUNK_ITL,
    CLIENT_E2E,
    CLIENT_TTFT,
    Definition,
    finished,
    records,
    tpot_of,
)
from planner.measurements.files import lines_of, probe, rows_of
from planner.measurements.measurement import (
    Arrivals,
    Lengths,
    Measurement,
    Records,
    Statistics,
)
from planner.measurements.node import Node
from planner.measurements.text_lines import column_names, csv_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.measurements.files import Probe
    from planner.measurements.measurement import Latency

SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0}
PER_REQUEST: Final = Definition(
    "tpot",
    "requests",
    "same",
    "per request: (E2E - TTFT) / (output tokens - tokens of the first chunk)",
    "a first chunk of several tokens makes it longer than ours",
)
FIELDS: Final = {
    "time_to_first_token": CLIENT_TTFT,
    "inter_token_latency": PER_REQUEST,
    "inter_chunk_latency": CHUNK_ITL,
    "request_latency": CLIENT_E2E,
}
LONGEST_NAME: Final = 200
SUMMARIES: Final = ("profile_export_aiperf.json", "profile_export_genai_perf.json")
RECORDS: Final = "profile_export.jsonl"
_TITLE: Final = re.compile(r"^(.*?)(?:\s*\(([^()]*)\))?$")


def claims(found: Probe) -> bool:
    """Tell a summary of AIPerf or GenAI-Perf, as JSON."""
    if found.kind != "json" or not isinstance(found.data, dict):
        return False
    table = _table(Node(found.data, "")).value
    metric = table.get("request_latency") or table.get("request_throughput")
    return isinstance(metric, dict) and {"unit", "avg"} <= metric.keys()


def read(found: Probe) -> Iterator[Measurement]:
    """Yield the one measurement of a JSON summary.

    Raises:
        InputError: A value is of the wrong kind or out of bounds, or a unit is unknown.
    """
    root = Node(found.data, str(found.path))
    table = _table(root)
    metrics = {
        str(name): table.at(str(name))
        for name, value in table.table().items()
        if isinstance(value, dict) and "avg" in value
    }
    config = root.at("input_config") or Node({}, root.where)
    ours = root.has("aiperf_version") or root.has("schema_version") or config.has("loadgen")
    tool = "aiperf" if ours else "genai-perf"
    m = _of_metrics({k: v for k, v in metrics.items() if v}, found, tool)
    arrivals = _arrivals(config)
    yield finished(
        replace(
            m,
            tool_version=root.text("aiperf_version"),
            model=_model(config),
            arrivals=arrivals,
            offered_rps=arrivals.rate_rps if arrivals else None,
            notes=("the run was cancelled",) if root.value.get("was_cancelled") is True else (),
        )
    )


def _table(root: Node) -> Node:
    """Return what holds the metrics: the document, or its ``records`` before version 0.9."""
    inner = root.value.get("records")
    return Node(inner, root.where, "records") if isinstance(inner, dict) else root


def claims_csv(found: Probe) -> bool:
    """Tell a summary of AIPerf or GenAI-Perf, as CSV."""
    return found.kind == "csv" and found.data[:1] == ("Metric",) and "avg" in found.data


def read_csv(found: Probe) -> Iterator[Measurement]:
    """Yield the one measurement of a CSV summary, whose blocks each have a head of their own.

    Raises:
        InputError: A value is no number, or a unit is unknown.
    """
    metrics: dict[str, Node] = {}
    head: tuple[str, ...] = ()
    for line, cells in csv_rows(found.path, lines_of(found.path)):
        where = f"{found.path}:{line}"
        if cells and cells[0].strip() == "Metric":
            head = column_names(where, cells)
        elif not cells:
            head = ()  # blocks that follow, such as those of devices, are other tables
        elif head:
            row = {key: cell.strip() for key, cell in zip(head, cells, strict=False) if cell != ""}
            name, unit = _named(row.pop("Metric", ""))
            values = {"avg": row["Value"]} if "Value" in row else row
            values.setdefault("unit", row.get("Unit", unit))
            metrics[name] = Node(values, where, name, cells=True)
    tool = "aiperf" if {"Unit", "sum", "p1"} & found.keys else "genai-perf"
    yield finished(_of_metrics(metrics, found, tool))


def _named(title: str) -> tuple[str, str]:
    """Split ``Time To First Token (ms)`` into ``time_to_first_token`` and ``ms``."""
    found = _TITLE.match(" ".join(title[:200].split()))
    name, unit = (found[1], found[2] or "") if found else (title, "")
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_"), unit


def _of_metrics(metrics: dict[str, Node], found: Probe, tool: str) -> Measurement:
    latencies: tuple[Latency, ...] = ()
    for name, definition in FIELDS.items():
        if name in metrics:
            latencies += definition.of(_seconds(metrics[name]), name)
    failed = _average(metrics, "error_request_count")
    done = _average(metrics, "request_count")
    duration = None
    if "benchmark_duration" in metrics:
        duration = metrics["benchmark_duration"].number(
            "avg", scale=_unit(metrics["benchmark_duration"])
        )
    return Measurement(
        format=tool,
        tool=tool,
        path=found.path,
        location="",
        completed_rps=_average(metrics, "request_throughput"),
        completed=int(done) if done is not None else None,
        failed=int(failed) if failed is not None else None,
        duration_s=duration,
        output_tokens_per_s=_average(metrics, "output_token_throughput"),
        prompt=_lengths(metrics.get("input_sequence_length")),
        output=_lengths(metrics.get("output_sequence_length")),
        latencies=latencies,
        goodput_rps=_average(metrics, "goodput"),
        prefix_hit_rate=_hit_rate(metrics),
    )


def _average(metrics: dict[str, Node], name: str) -> float | None:
    return metrics[name].number("avg") if name in metrics else None


def _unit(node: Node) -> float:
    unit = node.text("unit") or ""
    if unit not in SECONDS:
        known = ", ".join(SECONDS)
        raise node.refuse(f"the unit {unit[:40]!r} is none of time; known: {known}", "unit")
    return SECONDS[unit]


def _seconds(node: Node) -> Statistics:
    return _statistics(node, _unit(node))


def _statistics(node: Node, scale: float) -> Statistics:
    values = {
        name: node.number(name, scale=scale)
        for name in ("std", "min", "p50", "p75", "p90", "p95", "p99", "max")
    }
    return Statistics(mean=node.number("avg", scale=scale), count=node.whole("count"), **values)


def _lengths(node: Node | None) -> Lengths | None:
    statistics = _statistics(node, 1.0) if node else Statistics()
    return Lengths(statistics, "observed") if statistics.known else None


def _hit_rate(metrics: dict[str, Node]) -> float | None:
    """Return cached over all prompt tokens, both as the server counts them."""
    names = ("usage_prompt_cache_read_tokens", "usage_prompt_tokens")
    sides = [metrics[name] for name in names if name in metrics]
    if len(sides) < len(names):
        return None
    cached, total = (node.number("avg") for node in sides)
    counts = {node.whole("count") for node in sides}
    return min(cached / total, 1.0) if cached is not None and total and len(counts) == 1 else None


def _model(config: Node) -> str | None:
    items = config.at("models", "items") if isinstance(config.value.get("models"), dict) else None
    listed = config.at("endpoint", "model_names") or config.at("model_names") or config.at("model")
    names = []
    if items is not None:
        names = [item.text("name") for item in items.elements()]
    elif listed is not None and isinstance(listed.value, list):
        names = [str(name) for name in listed.value]
    elif listed is not None and isinstance(listed.value, str):
        names = [listed.value]
    return names[0][:LONGEST_NAME] if len(names) == 1 and names[0] else None


def _arrivals(config: Node) -> Arrivals | None:
    phase = _phase(config)
    load = phase or config.at("loadgen") or config.at("perf_analyzer", "stimulus") or config
    cap = load.number("concurrency")
    rate = load.number("rate" if phase else "request_rate")
    if not rate:
        return Arrivals("closed_loop", concurrency=cap) if cap else None
    pattern = load.first_text("type", "arrival_pattern", "request_rate_mode")
    shape = load.number("smoothness")
    if load.has("rate_ramp") or load.has("rate_series"):
        return Arrivals("trace", concurrency=cap)
    if pattern == "constant":
        return Arrivals("constant", rate, cap)
    if pattern == "poisson":
        return Arrivals("poisson", rate, cap, 1.0)
    return Arrivals("gamma", rate, cap, shape) if pattern == "gamma" else None


def _phase(config: Node) -> Node | None:
    """Return the one phase that was measured, where the configuration lists phases."""
    phases = config.at("phases")
    if phases is None or not isinstance(phases.value, list):
        return None
    measured = [
        phase
        for phase in phases.elements()
        if "warmup" not in (phase.first_text("kind"), phase.first_text("name"))
        and phase.table().get("exclude_from_results") is not True
    ]
    return measured[0] if len(measured) == 1 else None


def claims_folder(found: Probe) -> bool:
    """Tell the folder of artifacts of a run."""
    return found.kind == "folder" and any(name in found.data for name in SUMMARIES)


def read_folder(found: Probe) -> Iterator[Measurement]:
    """Yield the one measurement of a run: its summary, and its requests if they are there.

    Raises:
        InputError: A file cannot be read, or holds what makes no sense.
    """
    summary = next(found.path / name for name in SUMMARIES if name in found.data)
    inner = probe(summary)
    if not claims(inner):
        raise InputError(f"{summary}: not a summary of aiperf or genai-perf")
    for m in read(inner):
        if RECORDS not in found.data:
            yield m
            continue
        single = probe(found.path / RECORDS)
        each = next(read_records(single)) if claims_records(single) else m
        yield finished(
            replace(
                m,
                records=each.records,
                sent=m.sent or each.sent,
                failed=each.failed if m.failed is None else m.failed,
                completed=each.completed if m.completed is None else m.completed,
                shared_prompts=m.shared_prompts or each.shared_prompts,
                notes=m.notes + each.notes if each is not m else m.notes,
            )
        )


def claims_records(found: Probe) -> bool:
    """Tell the single requests of AIPerf."""
    if found.kind not in ("json", "jsonl") or not isinstance(found.data, dict):
        return False
    metadata = found.data.get("metadata")
    return (
        {"metadata", "metrics"} <= found.keys
        and isinstance(metadata, dict)
        and "request_start_ns" in metadata
    )


def read_records(found: Probe) -> Iterator[Measurement]:
    """Yield the one measurement of the requests; those of the warm-up are left out.

    Raises:
        InputError: A line is no request, or a value is of the wrong kind.
    """
    rows, sessions, warm = [], 0, 0
    last_ns = first_ns = float("nan")
    for node in rows_of(found):
        metadata, metrics = node.at("metadata"), node.at("metrics")
        if metadata is None:
            raise node.refuse("expected a request with metadata and metrics")
        if metadata.text("benchmark_phase") == "warmup":
            warm += 1
            continue
        start = metadata.number("request_start_ns", high=1e20)
        end = metadata.number("request_end_ns", high=1e20)
        sessions += metadata.has("turn_index") and bool(metadata.number("turn_index"))
        first_ns = float(np.fmin(first_ns, start if start is not None else np.nan))
        last_ns = float(np.fmax(last_ns, end if end is not None else np.nan))
        rows.append(_record(node, metadata, metrics, start))
    if not rows:
        raise InputError(f"{found.path}: no request besides the warm-up")
    of = _columns(np.array(rows, np.float64))
    duration = (last_ns - first_ns) * 1e-9
    done = int(of.completed.sum())
    yield finished(
        Measurement(
            format="aiperf records",
            tool="aiperf",
            path=found.path,
            location="",
            sent=len(of),
            completed=done,
            failed=len(of) - done,
            duration_s=duration if duration > 0 else None,
            records=of,
            shared_prompts="turns of a conversation repeat its history" if sessions else None,
            notes=(f"{warm} warm-up requests are left out",) if warm else (),
        )
    )


def _record(
    node: Node, metadata: Node, metrics: Node | None, start: float | None
) -> tuple[float, ...]:
    nan = float("nan")
    failed = node.has("error") or metadata.value.get("was_cancelled") is True
    values = [
        _value(metrics, name, unit)
        for name, unit in (
            ("input_sequence_length", False),
            ("output_sequence_length", False),
            ("time_to_first_token", True),
            ("request_latency", True),
            ("inter_token_latency", True),
        )
    ]
    gaps = metrics.at("inter_chunk_latency") if metrics else None
    longest = nan
    if gaps is not None:
        each = gaps.numbers("value", scale=_unit(gaps))
        longest = float(each.max()) if each is not None and len(each) else nan
    return (float(not failed), nan if start is None else start * 1e-9, *values, longest)


def _value(metrics: Node | None, name: str, is_time: bool) -> float:
    node = metrics.at(name) if metrics else None
    value = node.number("value", scale=_unit(node) if is_time else 1.0) if node else None
    return float("nan") if value is None else value


def _columns(table: Any) -> Records:
    completed, start, prompt, output, ttft, e2e, tpot, longest = table.T
    ours = tpot_of(e2e, ttft, output)
    return records(
        len(table),
        completed=completed > 0,
        start_s=start,
        prompt_tokens=prompt,
        output_tokens=output,
        ttft_s=ttft,
        e2e_s=e2e,
        tpot_s=np.where(np.isfinite(ours), ours, tpot),
        max_itl_s=longest,
    )
