"""llm-d benchmark reports, version 0.2: YAML or JSON; every statistic names its unit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from planner.measurements.build import (
    CLIENT_E2E,
    CLIENT_TTFT,
    Definition,
    finished,
    keyed_statistics,
    nominal,
)
from planner.measurements.measurement import Arrivals, Group, Lengths, Measurement, Statistics
from planner.measurements.node import Node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.measurements.files import Probe
    from planner.measurements.measurement import Latency

UNITS: Final = {
    "s": 1.0,
    "ms": 1e-3,
    "s/token": 1.0,
    "ms/token": 1e-3,
    "count": 1.0,
    "tokens/s": 1.0,
    "queries/s": 1.0,
    "percent": 0.01,
    "fraction": 1.0,
    "ratio": 1.0,
}
STATISTICS: Final = {
    "mean": "mean",
    "std": "stddev",
    "min": "min",
    "p50": "p50",
    "p75": "p75",
    "p90": "p90",
    "p95": "p95",
    "p99": "p99",
    "p999": "p99p9",
    "max": "max",
}
TPOT: Final = Definition(
    "tpot",
    "requests",
    "close",
    "time per output token without the first",
    "the report leaves the exact definition to the tool behind it",
)
NORMALISED: Final = Definition(
    "tpot", "requests", "other", "per request: E2E / output tokens", "it includes TTFT"
)
ITL: Final = Definition(
    "itl",
    "chunks",
    "close",
    "gaps between tokens",
    "the report leaves the exact definition to the tool behind it",
)
_DURATION: Final = re.compile(
    r"^PT(?:(\d{1,6}(?:\.\d+)?)H)?(?:(\d{1,6}(?:\.\d+)?)M)?(?:(\d{1,9}(?:\.\d+)?)S)?$"
)
ENGINES: Final = ("vllm", "sglang", "tensorrt-llm", "trtllm", "tgi")


def claims(found: Probe) -> bool:
    """Tell a report of version 0.2."""
    if found.kind not in ("yaml", "json") or not isinstance(found.data, dict):
        return False
    version = str(found.data.get("version", ""))
    return version.startswith("0.2") and {"run", "results"} <= found.keys


def read(found: Probe) -> Iterator[Measurement]:
    """Yield the one measurement of a report.

    Raises:
        InputError: A value is of the wrong kind or out of bounds, or a unit is unknown.
    """
    root = Node(found.data, str(found.path))
    empty = Node({}, str(found.path))
    aggregate = root.at("results", "request_performance", "aggregate") or empty
    requests, latency = aggregate.at("requests") or empty, aggregate.at("latency") or empty
    rates = aggregate.at("throughput") or empty
    load = root.at("scenario", "load", "standardized") or empty
    rate = load.number("rate_qps")
    total, failed = requests.whole("total"), requests.whole("failures")
    unfinished = requests.whole("incomplete")
    bad = None if failed is None else failed + (unfinished or 0)
    prefix = load.at("prefix", "prefix_len")
    shared = prefix.number("value") if prefix else None
    yield finished(
        Measurement(
            format="llm-d report",
            tool=load.text("tool") or "llm-d benchmark",
            tool_version=load.text("tool_version"),
            path=found.path,
            location=f"stage {load.text('stage')}" if load.has("stage") else "",
            arrivals=_arrivals(root, load),
            offered_rps=rate,
            completed_rps=_scaled(rates.at("request_rate")).mean,
            sent=total,
            failed=bad,
            completed=max(total - bad, 0) if total is not None and bad is not None else None,
            duration_s=_duration(root.at("run", "time")),
            input_tokens_per_s=_scaled(rates.at("input_token_rate")).mean,
            output_tokens_per_s=_scaled(rates.at("output_token_rate")).mean,
            prompt=_lengths(requests.at("input_length"), load.at("input_seq_len")),
            output=_lengths(requests.at("output_length"), load.at("output_seq_len")),
            latencies=_latencies(latency),
            prefix_hit_rate=_hit_rate(root),
            shared_prompts=f"prompts share prefixes of {shared:g} tokens" if shared else None,
            **_stack(root),
        ),
        may_count_chunks=True,
    )


def _latencies(latency: Node) -> tuple[Latency, ...]:
    made: tuple[Latency, ...] = ()
    for definition, name in (
        (CLIENT_TTFT, "time_to_first_token"),
        (TPOT, "time_per_output_token"),
        (NORMALISED, "normalized_time_per_output_token"),
        (ITL, "inter_token_latency"),
        (CLIENT_E2E, "request_latency"),
    ):
        made += definition.of(_scaled(latency.at(name)), name)
    return made


def _scaled(node: Node | None) -> Statistics:
    if node is None:
        return Statistics()
    unit = node.text("units") or ""
    if unit not in UNITS:
        known = ", ".join(UNITS)
        raise node.refuse(f"unknown unit {unit[:40]!r}; known: {known}", "units")
    return keyed_statistics(node, STATISTICS, scale=UNITS[unit])


def _lengths(seen: Node | None, asked: Node | None) -> Lengths | None:
    statistics = _scaled(seen)
    if statistics.known:
        return Lengths(statistics, "observed")
    if asked is None or asked.number("value") is None:
        return None
    if asked.text("distribution") == "fixed":
        return nominal(asked.number("value"))
    spread = asked.number("std_dev")
    return Lengths(Statistics(mean=asked.number("value"), std=spread), "nominal")


def _arrivals(root: Node, load: Node) -> Arrivals | None:
    """Read the arrivals; the process behind a rate stands in the tool's own configuration."""
    cap = load.unbounded("concurrency")
    cap = None if cap == float("inf") else cap
    rate = load.number("rate_qps")
    native = root.at("scenario", "load", "native", "config", "load")
    kind = native.text("type") if native and isinstance(native.value, dict) else None
    if rate is None:
        return Arrivals("closed_loop", concurrency=cap) if cap else None
    if kind == "constant":
        return Arrivals("constant", rate, cap)
    return Arrivals("poisson", rate, cap, 1.0) if kind == "poisson" else None


def _hit_rate(root: Node) -> float | None:
    """Read the engines' prefix cache hit rate, where one engine, and no other, reports it."""
    listed = root.at("results", "observability", "vllm_prefix_cache_hit_rate", "components")
    engines = list(listed.elements()) if listed else []
    return _scaled(engines[0].at("statistics")).mean if len(engines) == 1 else None


def _duration(node: Node | None) -> float | None:
    text = node.text("duration") if node else None
    match = _DURATION.match(text) if text else None
    if match is None or not any(match.groups()):
        return None
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def _stack(root: Node) -> dict[str, Any]:
    """Read who served; several engines of one role are one deployment only if they are alike."""
    stack = root.at("scenario", "stack")
    engines = []
    for component in stack.elements() if stack else ():
        inner = component.at("standardized")
        if inner is not None and inner.text("kind") == "inference_engine":
            engines.append(inner)
    if not engines:
        return {}
    first = engines[0]
    accelerator = first.at("accelerator") or Node({}, first.where)
    tool = first.text("tool")
    common: dict[str, Any] = {
        "engine": tool if tool in ENGINES else None,
        "engine_version": first.text("tool_version") if tool in ENGINES else None,
        "model": _name(first),
        "accelerator": accelerator.text("model"),
        "notes": () if tool in ENGINES or not tool else (f"served by {tool[:100]}",),
    }
    groups = tuple(_group(engine) for engine in engines)
    roles = {engine.text("role") for engine in engines}
    if "prefill" in roles and len(groups) > 1:
        return common | {"layout": groups}
    one = groups[0]
    if len(groups) > 1:
        return common
    return common | {
        "accelerators": one.accelerators,
        "replicas": one.replicas,
        "tp_degree": one.tp_degree,
        "pp_degree": one.pp_degree,
        "ep_degree": one.ep_degree,
        "dp_degree": one.dp_degree,
    }


def _name(engine: Node) -> str | None:
    model = engine.at("model")
    return model.text("name") if model else None


def _group(engine: Node) -> Group:
    accelerator = engine.at("accelerator") or Node({}, engine.where)
    degrees = accelerator.at("parallelism") or Node({}, engine.where)
    replicas, count = engine.whole("replicas", low=1), accelerator.whole("count", low=1)
    return Group(
        "prefill" if engine.text("role") == "prefill" else "decode",
        replicas=replicas,
        accelerators=count * replicas if count and replicas else None,
        tp_degree=degrees.whole("tp", low=1),
        pp_degree=degrees.whole("pp", low=1),
        ep_degree=degrees.whole("ep", low=1),
        dp_degree=degrees.whole("dp", low=1),
    )
