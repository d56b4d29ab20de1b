"""inference-perf reports: one JSON per stage, with the configuration beside it, in seconds.

Its ``time_per_output_token`` divides by what it counted while streaming. Where the server sends
a token in several chunks, that is not tokens, and the mean does not add up to E2E: such a TPOT is
marked, and a ratio of means stands in.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from planner.errors import InputError
from planner.measurements.build import (
    CHUNK_ITL,
    CLIENT_E2E,
    CLIENT_TTFT,
    Definition,
    finished,
    keyed_statistics,
    observed_mean,
)
from planner.measurements.files import parse_json, read_text
from planner.measurements.measurement import Arrivals, Lengths, Measurement, Statistics
from planner.measurements.node import Node
from planner.source import is_file, read_source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from planner.measurements.files import Probe
    from planner.measurements.measurement import Latency

TPOT: Final = Definition(
    "tpot", "requests", "same", "per request: (last - first token) / (output tokens - 1)"
)
NORMALISED: Final = Definition(
    "tpot", "requests", "other", "per request: E2E / output tokens", "it includes TTFT"
)
STATISTICS: Final = {
    "mean": "mean",
    "min": "min",
    "p50": "median",
    "p75": "p75",
    "p90": "p90",
    "p95": "p95",
    "p99": "p99",
    "p999": "p99.9",
    "max": "max",
}
SERVER: Final = "the server's histograms: quantiles are interpolated within buckets"
CONFIGS: Final = ("config.yaml", "config.yml")
_STAGE: Final = re.compile(r"^(stage_(\d+)|summary)_(lifecycle|prometheus)_metrics\.json$")


@dataclass(frozen=True, slots=True)
class _Config:
    """What the configuration says about the load."""

    model: str | None = None
    engine: str | None = None
    mode: str | None = None
    cap: float | None = None
    shared: str | None = None


def claims(found: Probe) -> bool:
    """Tell a report of inference-perf."""
    return found.kind == "json" and found.keys >= {"load_summary", "successes"}


def read(found: Probe) -> Iterator[Measurement]:
    """Yield the one measurement of a report; the configuration is looked for beside it.

    Raises:
        InputError: A value is of the wrong kind or out of bounds.
    """
    yield _measurement(Node(found.data, str(found.path)), found.path, _config(found.path.parent))


def claims_folder(found: Probe) -> bool:
    """Tell a folder of reports."""
    return found.kind == "folder" and any(_STAGE.match(name) for name in found.data)


def read_folder(found: Probe) -> Iterator[Measurement]:
    """Yield one measurement per stage; the summary over all stages is no load level.

    Raises:
        InputError: No stage is found, or one cannot be read.
    """
    config = _config(found.path)
    stages = sorted(
        (int(match[2]), name)
        for name in found.data
        if (match := _STAGE.match(name)) and match[2] and match[3] == "lifecycle"
    )
    if not stages:
        raise InputError(f"{found.path}: no stage_<n>_lifecycle_metrics.json; name a file")
    for _, name in stages:
        path = found.path / name
        yield _measurement(Node(parse_json(path, read_text(path)), str(path)), path, config)


def _config(folder: Path) -> _Config:
    path = next((folder / name for name in CONFIGS if is_file(folder / name)), None)
    if path is None:
        return _Config()
    root = Node(read_source(path).data, str(path))
    if not isinstance(root.value, dict):
        raise InputError(f"{path}: expected keys and values")
    server, load, data = root.at("server"), root.at("load"), root.at("data")
    workers = load.number("num_workers") if load else None
    each = load.number("worker_max_concurrency") if load else None
    kind = data.text("type") if data else None
    return _Config(
        model=server.text("model_name") if server else None,
        engine=server.text("type") if server else None,
        mode=load.text("type") if load else None,
        cap=workers * each if workers and each else None,
        shared=_shared(data) if data and kind == "shared_prefix" else None,
    )


def _shared(data: Node) -> str:
    prefix = data.at("shared_prefix")
    tokens = prefix.number("system_prompt_len") if prefix else None
    length = f" of {tokens:g} tokens" if tokens else ""
    return f"data type shared_prefix: prompts share system prompts{length}"


def _measurement(root: Node, path: Path, config: _Config) -> Measurement:
    load = root.at("load_summary") or Node({}, root.where, "load_summary")
    good = root.at("successes") or Node({}, root.where, "successes")
    bad = root.at("failures") or Node({}, root.where, "failures")
    if not good.has("latency"):
        return _of_prometheus(good, path, config)
    latency = good.at("latency")
    rates = good.at("throughput") or Node({}, root.where)
    arrivals = _arrivals(load, config)
    match = _STAGE.match(path.name)
    summary = bool(match and match[1] == "summary")
    done, failed = good.whole("count"), bad.whole("count")
    m = Measurement(
        format="inference-perf",
        tool="inference-perf",
        path=path,
        location=match[1] if match else "",
        engine=config.engine,
        model=config.model,
        arrivals=arrivals,
        offered_rps=arrivals.rate_rps if arrivals else None,
        sent_rps=load.number("achieved_rate"),
        completed_rps=rates.number("requests_per_sec"),
        sent=load.whole("count"),
        completed=done,
        failed=failed,
        input_tokens_per_s=rates.number("input_tokens_per_sec"),
        output_tokens_per_s=rates.number("output_tokens_per_sec"),
        prompt=_lengths(good.at("prompt_len")),
        output=_lengths(good.at("output_len")),
        latencies=_latencies(latency) if latency else (),
        shared_prompts=config.shared,
        notes=("a summary over all stages: no single load level",) if summary else (),
    )
    if done is not None and m.completed_rps:
        m = replace(m, duration_s=done / m.completed_rps)
    return finished(m, may_count_chunks=True)


def _arrivals(load: Node, config: _Config) -> Arrivals | None:
    rate = load.number("requested_rate")
    if rate is None:
        return None
    if config.mode == "constant":
        return Arrivals("constant", rate, config.cap)
    if config.mode == "poisson":
        return Arrivals("poisson", rate, config.cap, 1.0)
    return None


def _latencies(latency: Node) -> tuple[Latency, ...]:
    made: tuple[Latency, ...] = ()
    for definition, name in (
        (CLIENT_TTFT, "time_to_first_token"),
        (TPOT, "time_per_output_token"),
        (NORMALISED, "normalized_time_per_output_token"),
        (CHUNK_ITL, "inter_token_latency"),
        (CLIENT_E2E, "request_latency"),
    ):
        found = latency.at(name)
        made += definition.of(keyed_statistics(found, STATISTICS) if found else Statistics(), name)
    return made


def _lengths(node: Node | None) -> Lengths | None:
    statistics = keyed_statistics(node, STATISTICS) if node else Statistics()
    return Lengths(statistics, "observed") if statistics.known else None


def _of_prometheus(good: Node, path: Path, config: _Config) -> Measurement:
    """Read what the tool scraped from the server. Its ``prompt_len.mean`` is a sum: rates serve."""
    made: tuple[Latency, ...] = ()
    for definition, name in (
        (CLIENT_TTFT, "time_to_first_token"),
        (TPOT, "time_per_output_token"),
        (CLIENT_E2E, "request_latency"),
    ):
        found = good.at(name)
        server = replace(definition, fit="close", words=f"server: {name}", why=SERVER)
        made += server.of(keyed_statistics(found, STATISTICS) if found else Statistics(), name)
    rate = good.number("rate")
    prompt, output = good.at("prompt_len"), good.at("output_len")
    tokens = [side.number("rate") if side else None for side in (prompt, output)]
    hits = good.at("prefix_cache_hit_percent")
    match = _STAGE.match(path.name)
    return finished(
        Measurement(
            format="inference-perf prometheus",
            tool="inference-perf",
            view="server",
            path=path,
            location=match[1] if match else "",
            engine=config.engine,
            model=config.model,
            completed=good.whole("count"),
            completed_rps=rate,
            input_tokens_per_s=tokens[0],
            output_tokens_per_s=tokens[1],
            prompt=observed_mean(tokens[0], rate),
            output=observed_mean(tokens[1], rate),
            latencies=made,
            prefix_hit_rate=hits.number("mean", scale=0.01, high=100.0) if hits else None,
            shared_prompts=config.shared,
        )
    )
