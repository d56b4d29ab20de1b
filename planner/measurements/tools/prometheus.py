"""A scrape of vLLM's ``/metrics``: the Prometheus text format, in seconds.

Counters run since the server started, warm-up included. Histograms hold marginals: nothing tells
which TTFT belonged to which TPOT, so no joint attainment follows; and quantiles are known as
intervals only. Means (sum / count) are exact.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from planner.errors import InputError
from planner.measurements.build import SERVER_VIEW, Definition, finished
from planner.measurements.exposition import edge_of, samples_of
from planner.measurements.measurement import Histogram, Lengths, Measurement, Statistics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planner.measurements.exposition import Sample
    from planner.measurements.files import Probe
    from planner.measurements.measurement import Latency

MOST_MODELS: Final = 100
_HEAD: Final = re.compile(r"^(?:# (?:HELP|TYPE) )?vllm:", re.MULTILINE)
DEFINITIONS: Final = {
    "vllm:time_to_first_token_seconds": Definition(
        "ttft", "requests", "close", "arrival in the server's frontend to first token", SERVER_VIEW
    ),
    "vllm:request_time_per_output_token_seconds": Definition(
        "tpot", "requests", "close", "per request: decode time / (output tokens - 1)", SERVER_VIEW
    ),
    "vllm:inter_token_latency_seconds": Definition(
        "itl", "tokens", "close", "every gap between tokens", SERVER_VIEW
    ),
    "vllm:time_per_output_token_seconds": Definition(
        "itl",
        "tokens",
        "close",
        "every gap between tokens, under its old name",
        "not per request in spite of its name; " + SERVER_VIEW,
    ),
    "vllm:e2e_request_latency_seconds": Definition(
        "e2e", "requests", "close", "arrival in the server's frontend to last token", SERVER_VIEW
    ),
}
MARGINALS: Final = "histograms: marginals only, no joint attainment; quantiles are intervals"


@dataclass
class _Series:
    """What a scrape holds of one model: plain samples, and buckets by histogram."""

    plain: dict[str, float] = field(default_factory=dict)
    buckets: dict[str, dict[float, float]] = field(default_factory=dict)


def claims(found: Probe) -> bool:
    """Tell a scrape that holds metrics of vLLM."""
    return found.kind == "text" and _HEAD.search(found.data) is not None


def read(found: Probe) -> Iterator[Measurement]:
    """Yield one measurement per model; engines of one model are added up.

    Raises:
        InputError: A sample is not in the text format, or buckets fall.
    """
    by_model: dict[str, _Series] = {}
    for sample in samples_of(found.path, "vllm:"):
        _take(by_model, sample)
    if not by_model:
        raise InputError(f"{found.path}: no sample of vLLM")
    for model, series in by_model.items():
        yield _measurement(found, model, series)


def _take(by_model: dict[str, _Series], sample: Sample) -> None:
    model = sample.labels.get("model_name", "")[:200]
    if model not in by_model and len(by_model) >= MOST_MODELS:
        raise InputError(f"{sample.where}: more than {MOST_MODELS} models")
    series = by_model.setdefault(model, _Series())
    edge = edge_of(sample)
    if edge is not None:
        table = series.buckets.setdefault(sample.name.removesuffix("_bucket"), {})
        table[edge] = table.get(edge, 0.0) + sample.value
    else:
        series.plain[sample.name] = series.plain.get(sample.name, 0.0) + sample.value


def _measurement(found: Probe, model: str, series: _Series) -> Measurement:
    plain = series.plain
    made: tuple[Latency, ...] = ()
    for name, definition in DEFINITIONS.items():
        histogram = _histogram(found, name, series.buckets.get(name, {}))
        made += definition.of(_mean(plain, name), name, histogram)
    queried = plain.get("vllm:prefix_cache_queries_total", 0.0)
    hits = plain.get("vllm:prefix_cache_hits_total")
    if hits is not None and queried and hits > queried:
        raise InputError(f"{found.path}: more prefix cache hits than queried tokens")
    done = plain.get("vllm:request_success_total")
    for name in ("vllm:num_preemptions_total", "vllm:num_requests_waiting"):
        plain.setdefault(name, math.nan)
    notes = [MARGINALS, "counters run since the server started, warm-up included"]
    if plain["vllm:num_preemptions_total"] > 0:
        notes.append(f"{plain['vllm:num_preemptions_total']:.0f} preemptions")
    return finished(
        Measurement(
            format="vllm prometheus",
            tool="prometheus",
            view="server",
            path=found.path,
            location=f'model_name="{model}"',
            engine="vllm",
            model=model or None,
            completed=int(done) if done is not None else None,
            prompt=_lengths(plain, "vllm:request_prompt_tokens"),
            output=_lengths(plain, "vllm:request_generation_tokens"),
            latencies=made,
            prefix_hit_rate=hits / queried if hits is not None and queried else None,
            notes=tuple(notes),
        )
    )


def _mean(plain: Mapping[str, float], name: str) -> Statistics:
    total, count = plain.get(f"{name}_sum"), plain.get(f"{name}_count")
    if total is None or not count:
        return Statistics(count=int(count) if count else None)
    return Statistics(mean=total / count, count=int(count))


def _lengths(plain: Mapping[str, float], name: str) -> Lengths | None:
    statistics = _mean(plain, name)
    return Lengths(statistics, "observed") if statistics.known else None


def _histogram(found: Probe, name: str, buckets: Mapping[float, float]) -> Histogram | None:
    if not buckets:
        return None
    edges = tuple(sorted(buckets))
    counts = tuple(buckets[edge] for edge in edges)
    if any(after < before for before, after in itertools.pairwise(counts)):
        raise InputError(f"{found.path}: {name}: a bucket holds less than the one below it")
    return Histogram(edges, counts) if counts[-1] > 0 else None
