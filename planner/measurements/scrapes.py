"""What scrapes of vLLM's ``/metrics`` tell of demand: counts, rates, and the lengths by buckets.

Counters run since the server started. Two scrapes of one server tell of the time between them.
Prompt and output are counted apart, so nothing tells which prompt had which output.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from planner.errors import InputError, nearest
from planner.measurements.client_sets import client_set_of
from planner.measurements.exposition import edge_of, samples_of
from planner.measurements.files import HEAD, probe
from planner.measurements.text_lines import open_text, told
from planner.measurements.tools.prometheus import claims

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from planner.measurements.exposition import Sample

PROMPT: Final = "vllm:request_prompt_tokens"
OUTPUT: Final = "vllm:request_generation_tokens"
FINISHED: Final = "vllm:request_success_total"
WAITING: Final = ("vllm:num_requests_running", "vllm:num_requests_waiting")
UNSERVED: Final = ("abort", "error")
"""Reasons of finishing that are no success: a client went away, or the engine failed."""
_HTTP: Final = "http_requests_total"
_STARTED: Final = "process_start_time_seconds"
_OTHERS: Final = frozenset({".csv", ".json", ".jsonl", ".ndjson", ".parquet", ".tar", ".tgz"})
LONGEST_TOKENS: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class TokenBuckets:
    """Lengths by bucket.

    Attributes:
        edge: Upper edges in tokens, ascending; the last is infinite.
        count: Requests in each bucket (not at or below its edge).
        total: Tokens of all requests together: the mean is exact.
    """

    edge: tuple[float, ...]
    count: tuple[float, ...]
    total: float

    @property
    def requests(self) -> float:
        """Requests in all buckets."""
        return sum(self.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """Demand of one model, since its server started or between two scrapes.

    Attributes:
        model: Its name.
        prompt: Lengths of the prompts of finished requests.
        output: Lengths of their outputs.
        finished: Finished requests by reason; failed ones are among them.
        turned_away: Answers of HTTP 429 and 5xx: asked for, and never served.
        refused: Other answers of HTTP 4xx, which may be mistakes of the caller.
        in_flight: Requests that have not finished.
        span_s: Time over which all this was counted, where it is known.
        taken_s: When the scrape was taken, in seconds since 1970, where it is known.
    """

    model: str
    prompt: TokenBuckets
    output: TokenBuckets
    finished: dict[str, float] = field(default_factory=dict)
    turned_away: float = 0.0
    refused: float = 0.0
    in_flight: float = 0.0
    span_s: float | None = None
    taken_s: float | None = None

    @property
    def unserved(self) -> float:
        """Requests that failed, were cancelled or turned away."""
        return self.turned_away + sum(self.finished.get(reason, 0.0) for reason in UNSERVED)

    @property
    def asked(self) -> float:
        """Requests that were asked for, whatever became of them."""
        return max(self.prompt.requests, sum(self.finished.values())) + self.turned_away


@dataclass
class _Model:
    """What has been read of one model."""

    buckets: dict[tuple[str, float], float] = field(default_factory=lambda: defaultdict(float))
    plain: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    finished: dict[str, float] = field(default_factory=lambda: defaultdict(float))


def is_scrape(path: Path) -> bool:
    """Tell a scrape of vLLM by what is in it.

    Raises:
        InputError: It cannot be read.
    """
    if client_set_of(path) is not None or _OTHERS.intersection(
        suffix.lower() for suffix in path.suffixes[-2:]
    ):
        return False
    with told(path), open_text(path) as file:
        blank = not file.read(HEAD).strip()
    return not blank and claims(probe(path))


def read_scrape(path: Path, model: str | None = None) -> Scrape:
    """Read the demand of one model; the engines of one model are added up.

    Args:
        path: A scrape.
        model: Its name, where the scrape holds several.

    Raises:
        InputError: It cannot be read, holds no lengths, or contradicts itself.
    """
    models: dict[str, _Model] = defaultdict(_Model)
    http: dict[str, float] = defaultdict(float)
    taken, started = 0.0, math.inf
    for sample in samples_of(path, "vllm:", _HTTP, _STARTED):
        taken = max(taken, sample.time_s or 0.0)
        if sample.name == _STARTED:
            started = min(started, sample.value)
        elif sample.name == _HTTP:
            if sample.labels.get("handler", "").startswith("/v1/"):
                http[_answer(sample.labels)] += sample.value
        elif sample.name.startswith("vllm:"):
            _take(models[sample.labels.get("model_name", "")[:200]], sample)
    name = _chosen(path, [name for name, one in models.items() if one.buckets], model)
    of = models[name]
    return Scrape(
        model=name,
        prompt=_buckets(path, of, PROMPT),
        output=_buckets(path, of, OUTPUT),
        finished=dict(of.finished),
        turned_away=http["turned away"],
        refused=http["refused"],
        in_flight=sum(of.plain[gauge] for gauge in WAITING),
        span_s=taken - started if taken > started else None,
        taken_s=taken or None,
    )


def _answer(labels: Mapping[str, str]) -> str:
    status = labels.get("status", labels.get("code", ""))
    if status == "429" or status.startswith("5"):
        return "turned away"
    return "refused" if status.startswith("4") else "served"


def _take(model: _Model, sample: Sample) -> None:
    edge = edge_of(sample)
    if edge is not None:
        name = sample.name.removesuffix("_bucket")
        if name in (PROMPT, OUTPUT):
            model.buckets[name, edge] += sample.value
    elif sample.name == FINISHED:
        model.finished[sample.labels.get("finished_reason", "")] += sample.value
    else:
        model.plain[sample.name] += sample.value


def _chosen(path: Path, names: list[str], wanted: str | None) -> str:
    if wanted is not None and wanted not in names:
        raise InputError(f"{path}: no lengths of a model {wanted!r}; {nearest(wanted, names)}")
    if not names:
        raise InputError(
            f"{path}: holds no {PROMPT}_bucket: no lengths of requests; scrape all of /metrics"
        )
    if wanted is None and len(names) > 1:
        listed = ", ".join(name[:60] for name in sorted(names)[:12])
        raise InputError(f"{path}: holds several models; name one by --model: {listed}")
    return names[0] if wanted is None else wanted


def _buckets(path: Path, model: _Model, name: str) -> TokenBuckets:
    below = sorted((edge, n) for (of, edge), n in model.buckets.items() if of == name)
    if not below or not below[-1][1] > 0:
        raise InputError(f"{path}: {name}: no request is in its buckets; scrape a server at work")
    edges = [edge for edge, _ in below]
    counts = [after - before for before, after in itertools.pairwise([0.0, *(n for _, n in below)])]
    if min(counts) < 0:
        raise InputError(f"{path}: {name}: a bucket holds less than the one below it")
    if edges[0] < 0 or any(edge > LONGEST_TOKENS for edge in edges[:-1]):
        raise InputError(f"{path}: {name}: an edge is no number of tokens")
    if not math.isinf(edges[-1]):
        edges, counts = [*edges, math.inf], [*counts, 0.0]
    if f"{name}_sum" not in model.plain:
        raise InputError(f"{path}: {name}: its _sum is missing; scrape the whole of /metrics")
    return TokenBuckets(tuple(edges), tuple(counts), model.plain[f"{name}_sum"])


def between(earlier: Scrape, later: Scrape, files: tuple[Path, Path]) -> Scrape:
    """Return the demand between two scrapes of one server.

    Args:
        earlier: The first.
        later: The second, of the same model.
        files: Their names, for messages.

    Raises:
        InputError: A counter fell, or nothing was asked for between the two.
    """
    finished = {
        reason: n - earlier.finished.get(reason, 0.0) for reason, n in later.finished.items()
    }
    away, refused = (
        later.turned_away - earlier.turned_away,
        later.refused - earlier.refused,
    )
    prompt = _less(later.prompt, earlier.prompt)
    output = _less(later.output, earlier.output)
    if prompt is None or output is None or min(*finished.values(), away, refused, 0.0) < 0:
        raise InputError(
            f"{files[1]}: a counter is below that of {files[0]}: name the earlier scrape by"
            " --since, and take both of one run of the server"
        )
    if not prompt.requests:
        raise InputError(f"{files[1]}: no request finished since {files[0]}; wait longer")
    span = None
    if later.taken_s is not None and earlier.taken_s is not None:
        span = later.taken_s - earlier.taken_s or None
    return replace(
        later,
        prompt=prompt,
        output=output,
        finished=finished,
        turned_away=away,
        refused=refused,
        span_s=span,
    )


def _less(later: TokenBuckets, earlier: TokenBuckets) -> TokenBuckets | None:
    """Return what came since; ``None`` where a counter fell or the buckets are others."""
    if later.edge != earlier.edge:
        return None
    count = tuple(a - b for a, b in zip(later.count, earlier.count, strict=True))
    total = later.total - earlier.total
    return TokenBuckets(later.edge, count, total) if min(*count, total) >= 0 else None
