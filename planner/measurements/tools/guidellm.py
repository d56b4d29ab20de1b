"""GuideLLM reports, version 2 (and the older one of the same shape).

Its ``time_per_output_token_ms`` is (last token − start) / output tokens and so includes TTFT.
Its ``inter_token_latency_ms`` is (last − first) / (output tokens − 1) per request: our TPOT,
but each request counts once per token gap, so long outputs weigh more. The two agree where all
outputs are equally long.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planner.measurements.build import (
    CLIENT_E2E,
    CLIENT_TTFT,
    Definition,
    finished,
    keyed_statistics,
    records,
    tpot_of,
)
from planner.measurements.measurement import Arrivals, Lengths, Measurement, Statistics
from planner.measurements.node import MS, Node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.measurements.files import Probe
    from planner.measurements.measurement import Latency, Records

WEIGHTED: Final = Definition(
    "tpot",
    "tokens",
    "other",
    "per request: (last - first token) / (output tokens - 1), counted once per token gap",
    "long outputs weigh more, and their lengths differ",
)
WITH_TTFT: Final = Definition(
    "tpot",
    "tokens",
    "other",
    "per request: (last token - start) / output tokens, counted once per token",
    "it includes TTFT",
)
REASONING: Final = Definition(
    "ttft", "requests", "other", "request sent to first token after reasoning", "skips reasoning"
)


def claims(found: Probe) -> bool:
    """Tell a report of GuideLLM."""
    if found.kind not in ("json", "yaml") or not isinstance(found.data, dict):
        return False
    runs = found.data.get("benchmarks")
    return isinstance(runs, list) and any(isinstance(r, dict) and "metrics" in r for r in runs)


def read(found: Probe) -> Iterator[Measurement]:
    """Yield one measurement per benchmark of the report.

    Raises:
        InputError: A value is of the wrong kind or out of bounds.
    """
    root = Node(found.data, str(found.path))
    version = None
    if metadata := root.at("metadata"):
        version = metadata.text("guidellm_version")
    benchmarks = root.at("benchmarks")
    for benchmark in benchmarks.elements() if benchmarks else ():
        yield _measurement(benchmark, found, version)


def _measurement(node: Node, found: Probe, version: str | None) -> Measurement:
    metrics = node.at("metrics") or Node({}, node.where, node.path)
    totals = metrics.at("request_totals") or Node({}, node.where, node.path)
    arrivals = _arrivals(node)
    output = _lengths(metrics, "output_token_count")
    requests = node.at("requests")
    of = _records(requests) if requests else None
    hit_rate = _hit_rate(requests) if requests else None
    backend = node.at("config", "backend") or node.at("benchmarker", "backend")
    errored, unfinished = totals.whole("errored"), totals.whole("incomplete")
    failed = None if errored is None else errored + (unfinished or 0)
    m = Measurement(
        format="guidellm",
        tool="guidellm",
        tool_version=version,
        path=found.path,
        location=node.path,
        model=backend.text("model") if backend else None,
        arrivals=arrivals,
        offered_rps=arrivals.rate_rps if arrivals else None,
        completed_rps=_mean(metrics, "requests_per_second"),
        sent=totals.whole("total"),
        completed=totals.whole("successful"),
        failed=failed,
        duration_s=node.number("duration"),
        prompt=_lengths(metrics, "prompt_token_count"),
        output=output,
        latencies=_latencies(metrics, output),
        mean_concurrency=_mean(metrics, "request_concurrency"),
        prefix_hit_rate=hit_rate,
        shared_prompts=_shared(Node(found.data, str(found.path))),
        records=of,
    )
    # Its token rates are means over instants, not tokens over time: they are left out.
    return finished(m)


def _mean(metrics: Node, name: str) -> float | None:
    found = metrics.at(name, "successful")
    return found.number("mean") if found else None


def _latencies(metrics: Node, output: Lengths | None) -> tuple[Latency, ...]:
    itl = WEIGHTED
    if output is not None and output.statistics.constant:
        itl = replace(itl, fit="same", why="all outputs are equally long, so weights are equal")
    made: tuple[Latency, ...] = ()
    for definition, name, scale in (
        (CLIENT_TTFT, "time_to_first_token_ms", MS),
        (itl, "inter_token_latency_ms", MS),
        (WITH_TTFT, "time_per_output_token_ms", MS),
        (REASONING, "time_to_first_output_token_ms", MS),
        (CLIENT_E2E, "request_latency", 1.0),
    ):
        found = metrics.at(name, "successful")
        made += definition.of(_statistics(found, scale), name)
    return made


def _statistics(node: Node | None, scale: float = 1.0) -> Statistics:
    if node is None or node.number("count") == 0:
        return Statistics()
    plain = keyed_statistics(
        node, {"mean": "mean", "std": "std_dev", "min": "min", "max": "max"}, scale=scale
    )
    shares = node.at("percentiles")
    if shares is None:
        return replace(plain, count=node.whole("count"))
    names = {name: name for name in ("p50", "p75", "p90", "p95", "p99", "p999")}
    quantiles = keyed_statistics(shares, names, scale=scale)
    known: dict[str, Any] = {name: getattr(quantiles, name) for name in names}
    return replace(plain, count=node.whole("count"), **known)


def _lengths(metrics: Node, name: str) -> Lengths | None:
    statistics = _statistics(metrics.at(name, "successful"))
    return Lengths(statistics, "observed") if statistics.known else None


def _arrivals(node: Node) -> Arrivals | None:
    strategy = (
        node.at("config", "strategy")
        or node.at("args", "strategy")
        or node.at("scheduler", "strategy")
    )
    if strategy is None:
        return None
    kind = strategy.first_text("type_", "kind")
    cap = strategy.number("max_concurrency")
    rate = strategy.number("rate")
    if kind == "synchronous":
        return Arrivals("closed_loop", concurrency=1.0)
    if kind == "concurrent":
        streams = strategy.number("streams")
        return Arrivals("closed_loop", concurrency=cap if streams is None else streams)
    if kind == "throughput":
        return Arrivals("unlimited", concurrency=cap)
    if kind in ("constant", "poisson"):
        return Arrivals("poisson" if kind == "poisson" else "constant", rate, cap)
    return Arrivals("constant", rate, cap) if kind == "async" else None


def _shared(root: Node) -> str | None:
    """Say whether the synthetic prompts begin alike."""
    data = root.at("config", "spec", "data") or root.at("args", "data")
    for source in data.elements() if data and isinstance(data.value, list) else ():
        if not isinstance(source.value, dict):
            continue
        buckets = source.at("prefix_buckets")
        tokens = [
            (bucket.number("prefix_tokens") or 0.0)
            for bucket in (
                buckets.elements() if buckets and isinstance(buckets.value, list) else ()
            )
            if isinstance(bucket.value, dict)
        ]
        if any(tokens):
            return f"prompts share prefixes of up to {max(tokens):g} tokens"
        turns = source.number("turns")
        if turns and turns > 1:
            return f"conversations of {turns:g} turns repeat their history"
    return None


def _records(requests: Node) -> Records | None:
    """Read the single requests, where the report keeps them."""
    rows: list[tuple[float, ...]] = []
    for name in ("successful", "errored", "incomplete"):
        listed = requests.at(name)
        done = float(name == "successful")
        rows += [_record(node, done) for node in (listed.elements() if listed else ())]
    if not rows:
        return None
    completed, start, prompt, output, ttft, e2e = np.array(rows, np.float64).T
    return records(
        len(rows),
        completed=completed > 0,
        start_s=start,
        prompt_tokens=prompt,
        output_tokens=output,
        ttft_s=ttft,
        e2e_s=e2e,
        tpot_s=tpot_of(e2e, ttft, output),
    )


def _hit_rate(requests: Node) -> float | None:
    """Return cached over all prompt tokens, where the server told them for every request."""
    cached = total = 0.0
    listed = requests.at("successful")
    for request in listed.elements() if listed else ():
        hits, tokens = request.number("cached_tokens"), request.number("prompt_tokens")
        if hits is None or tokens is None:
            return None
        cached, total = cached + hits, total + tokens
    return min(cached / total, 1.0) if total else None


def _record(node: Node, done: float) -> tuple[float, ...]:
    return (
        done,
        _known(node, "request_start_time", "start_time"),
        _known(node, "prompt_tokens"),
        _known(node, "output_tokens"),
        _known(node, "time_to_first_token_ms") * MS,
        _known(node, "request_latency"),
    )


def _known(node: Node, *names: str) -> float:
    for name in names:
        value = node.number(name)
        if value is not None:
            return value
    return float("nan")
