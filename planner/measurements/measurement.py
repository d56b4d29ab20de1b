"""What a benchmark measured at one load, in our words and units.

Tools agree on few words. TPOT here is per request, (last token − first token) / (output
tokens − 1), and 0 for one-token outputs; its quantiles are over requests. A latency that a
tool defines otherwise is kept, with its definition, and says how far it serves as ours.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

Metric = Literal["ttft", "tpot", "itl", "e2e"]
Fit = Literal["same", "close", "other"]
"""``same``: our definition. ``close``: usable, with the stated bias. ``other``: not usable."""
Over = Literal["requests", "tokens", "chunks"]
"""What the quantiles and the mean run over."""
Mode = Literal["closed_loop", "poisson", "gamma", "constant", "unlimited", "trace"]

QUANTILES: Final = {"p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}


@dataclass(frozen=True, slots=True)
class Statistics:
    """Mean, spread and quantiles; ``None`` where the file does not say."""

    mean: float | None = None
    std: float | None = None
    min: float | None = None
    p50: float | None = None
    p75: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    p999: float | None = None
    max: float | None = None
    count: int | None = None

    @property
    def known(self) -> bool:
        """Tell whether any value is known."""
        return any(getattr(self, f.name) is not None for f in fields(self) if f.name != "count")

    @property
    def constant(self) -> bool:
        """Tell whether every value is known to be the same."""
        if self.std is not None:
            return self.std == 0
        return self.min is not None and self.min == self.max


def statistics_of(values: NDArray[np.float64]) -> Statistics:
    """Summarise values, shape ``(requests,)``; quantiles are linear between order statistics.

    The standard deviation is that of the values themselves (divisor n), as the tools have it.
    Values that are not known (NaN) are left out.
    """
    known = values[np.isfinite(values)]
    if not known.size:
        return Statistics()
    quantiles = np.quantile(known, list(QUANTILES.values()))
    return Statistics(
        mean=float(known.mean()),
        std=float(known.std()),
        min=float(known.min()),
        max=float(known.max()),
        count=int(known.size),
        **dict(zip(QUANTILES, map(float, quantiles), strict=True)),
    )


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts at or below each edge. It knows intervals, not quantiles.

    Attributes:
        edges_s: Upper edges of the buckets, rising, in seconds; the last may be infinite.
        at_or_below: Observations at or below each edge, never falling.
    """

    edges_s: tuple[float, ...]
    at_or_below: tuple[float, ...]

    def quantile_bounds(self, share: float) -> tuple[float, float]:
        """Return the edges in seconds between which a quantile lies; the upper may be infinite."""
        target = share * self.at_or_below[-1]
        low = 0.0
        for edge, count in zip(self.edges_s, self.at_or_below, strict=True):
            if count >= target and count > 0:
                return low, edge
            low = edge
        return low, float("inf")

    def share_bounds(self, deadline_s: float) -> tuple[float, float]:
        """Return the least and the greatest share of observations within a deadline."""
        total = self.at_or_below[-1]
        if not total:
            return 0.0, 1.0
        pairs = tuple(zip(self.edges_s, self.at_or_below, strict=True))
        low = max((count for edge, count in pairs if edge <= deadline_s), default=0.0)
        high = next((count for edge, count in pairs if edge >= deadline_s), total)
        return low / total, high / total


@dataclass(frozen=True, slots=True)
class Latency:
    """One latency of the file, in seconds, with its definition.

    Attributes:
        metric: The quantity of ours that it is, or is closest to.
        statistics: In seconds.
        over: What the statistics run over.
        fit: How far it serves as ours.
        definition: The tool's definition, in words.
        why: What keeps it from ours, or what to keep in mind; empty where nothing does.
        field: The name in the file.
        histogram: Counts per bucket, where the file has nothing finer.
    """

    metric: Metric
    statistics: Statistics
    over: Over
    fit: Fit
    definition: str
    field: str
    why: str = ""
    histogram: Histogram | None = None


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of prompts or of outputs.

    Attributes:
        statistics: In tokens.
        source: ``observed``: counted in the run. ``nominal``: what the client was told to send.
    """

    statistics: Statistics
    source: Literal["observed", "nominal"]

    @property
    def mean(self) -> float | None:
        """The mean in tokens."""
        return self.statistics.mean


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How requests were offered.

    Attributes:
        mode: ``closed_loop``: a fixed number of users, each sends when answered.
            ``unlimited``: all at once, held back by ``concurrency`` if that is given: a closed
            loop whose users all start at the same moment. The others: an open loop at a rate.
        rate_rps: Offered rate of an open loop, in req/s.
        concurrency: Users of a closed loop; the client's cap on requests in flight otherwise.
        burstiness: Shape of gamma gaps; 1 is Poisson.
    """

    mode: Mode
    rate_rps: float | None = None
    concurrency: float | None = None
    burstiness: float | None = None

    @property
    def closed(self) -> bool:
        """Tell whether an answer lets the next request go."""
        return self.mode == "closed_loop" or (
            self.mode == "unlimited" and self.concurrency is not None
        )


@dataclass(frozen=True, slots=True)
class Group:
    """The replicas of one role in a disaggregated deployment."""

    role: Literal["prefill", "decode"]
    replicas: int | None = None
    accelerators: int | None = None
    tp_degree: int | None = None
    pp_degree: int | None = None
    ep_degree: int | None = None
    dp_degree: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """One entry per request, in the order of the file; shape ``(requests,)`` each.

    NaN stands for what is not known. Arrays are read-only. ``ttft_s``, ``tpot_s`` and ``e2e_s``
    are ours by definition; requests that did not complete have NaN there.

    Attributes:
        completed: False for requests that failed, were cancelled or brought no token.
        start_s: Seconds after the first request.
        prompt_tokens: Tokens.
        output_tokens: Tokens.
        ttft_s: Seconds.
        tpot_s: Seconds; 0 for one-token outputs.
        e2e_s: Seconds.
        max_itl_s: Seconds; the largest gap between two chunks.
        queue_s: Seconds in the engine's queue.
        prefill_s: Seconds from leaving the queue to the first token, in the engine.
        decode_s: Seconds from the first to the last token, in the engine.
    """

    completed: NDArray[np.bool_]
    start_s: NDArray[np.float64]
    prompt_tokens: NDArray[np.float64]
    output_tokens: NDArray[np.float64]
    ttft_s: NDArray[np.float64]
    tpot_s: NDArray[np.float64]
    e2e_s: NDArray[np.float64]
    max_itl_s: NDArray[np.float64]
    queue_s: NDArray[np.float64]
    prefill_s: NDArray[np.float64]
    decode_s: NDArray[np.float64]

    def __len__(self) -> int:
        """Return the number of requests."""
        return len(self.completed)


@dataclass(frozen=True, slots=True)
class Slo:
    """Deadlines against which the file counted its goodput, in seconds."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None


@dataclass(frozen=True, slots=True)
class Given:
    """What the caller knows and the file may not say; it replaces what the file says.

    Attributes:
        engine: Such as ``vllm``.
        engine_version: Such as ``0.11.0``.
        model: Name of the model.
        accelerator: Name of the accelerator.
        accelerators: Devices under test.
        tp_degree: Tensor-parallel degree of a replica.
        pp_degree: Pipeline-parallel degree of a replica.
        ep_degree: Expert-parallel degree of a replica.
        dp_degree: Attention data-parallel degree of a replica.
        replicas: Replicas under test.
        precision: Precision of the weights and of the arithmetic.
        prefix_hit_rate: Share of prompt tokens served from the prefix cache.
        arrivals: How requests were offered.
        prompt: Lengths of the prompts.
        output: Lengths of the outputs.
    """

    engine: str | None = None
    engine_version: str | None = None
    model: str | None = None
    accelerator: str | None = None
    accelerators: int | None = None
    tp_degree: int | None = None
    pp_degree: int | None = None
    ep_degree: int | None = None
    dp_degree: int | None = None
    replicas: int | None = None
    precision: str | None = None
    prefix_hit_rate: float | None = None
    arrivals: Arrivals | None = None
    prompt: Lengths | None = None
    output: Lengths | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Measurement:
    """One load level of one benchmark. ``None`` is what the file does not say.

    Attributes:
        format: Name of the format it was read as.
        tool: The benchmark that wrote it.
        tool_version: Its version.
        view: Whose clock: the ``client``'s, or the ``server``'s, which has no network and no
            client queue.
        engine: The serving engine.
        engine_version: Its version.
        model: The served model, as the file writes it.
        accelerator: The accelerator, as the file writes it.
        accelerators: Devices under test, all replicas together.
        tp_degree: Tensor-parallel degree.
        pp_degree: Pipeline-parallel degree.
        ep_degree: Expert-parallel degree.
        dp_degree: Attention data-parallel degree.
        replicas: Replicas under test.
        layout: The groups of a disaggregated deployment.
        precision: Precision of weights and arithmetic.
        arrivals: How requests were offered.
        offered_rps: Offered rate of an open loop, req/s.
        sent_rps: Rate at which the client did send, req/s, where it reports it.
        completed_rps: Completed requests per second of the tool's duration.
        sent: Requests that were sent.
        completed: Requests that completed.
        failed: Requests that failed.
        duration_s: Seconds over which rates are counted.
        input_tokens_per_s: Prompt tokens of completed requests, tokens/s.
        output_tokens_per_s: Tokens/s.
        prompt: Lengths of the prompts.
        output: Lengths of the outputs.
        mean_context_tokens: Mean context of a decode table, tokens.
        latencies: All latencies of the file; see :meth:`best`.
        goodput_rps: Requests within ``slo`` per second, as the tool counts them.
        attainment: Share of requests within ``slo``, as the tool counts them.
        slo: The deadlines behind the two.
        mean_concurrency: Mean requests in flight, as the tool reports it.
        peak_concurrency: Most requests in flight.
        prefix_hit_rate: Share of prompt tokens served from the prefix cache.
        shared_prompts: Why prompts share prefixes, where the file says so.
        repeated_outputs: Share of outputs whose text another request got too.
        settings: Engine settings that the file names, as (name, value).
        records: The single requests, where the file has them.
        notes: What else the reader has to say.
        path: The file.
        location: The place in it.
    """

    format: str
    tool: str
    path: Path
    location: str
    tool_version: str | None = None
    view: Literal["client", "server"] = "client"
    engine: str | None = None
    engine_version: str | None = None
    model: str | None = None
    accelerator: str | None = None
    accelerators: int | None = None
    tp_degree: int | None = None
    pp_degree: int | None = None
    ep_degree: int | None = None
    dp_degree: int | None = None
    replicas: int | None = None
    layout: tuple[Group, ...] = ()
    precision: str | None = None
    arrivals: Arrivals | None = None
    offered_rps: float | None = None
    sent_rps: float | None = None
    completed_rps: float | None = None
    sent: int | None = None
    completed: int | None = None
    failed: int | None = None
    duration_s: float | None = None
    input_tokens_per_s: float | None = None
    output_tokens_per_s: float | None = None
    prompt: Lengths | None = None
    output: Lengths | None = None
    mean_context_tokens: float | None = None
    latencies: tuple[Latency, ...] = ()
    goodput_rps: float | None = None
    attainment: float | None = None
    slo: Slo | None = None
    mean_concurrency: float | None = None
    peak_concurrency: float | None = None
    prefix_hit_rate: float | None = None
    shared_prompts: str | None = None
    repeated_outputs: float | None = None
    settings: tuple[tuple[str, str], ...] = ()
    records: Records | None = None
    notes: tuple[str, ...] = ()

    def best(self, metric: Metric) -> Latency | None:
        """Return the latency that serves as ours: the same one if there is, else a close one."""
        for fit in ("same", "close"):
            for latency in self.latencies:
                if latency.metric == metric and latency.fit == fit:
                    return latency
        return None

    @property
    def ttft(self) -> Statistics | None:
        """Statistics of TTFT in seconds, if usable as ours."""
        return _statistics(self.best("ttft"))

    @property
    def tpot(self) -> Statistics | None:
        """Statistics of TPOT in seconds, if usable as ours."""
        return _statistics(self.best("tpot"))

    @property
    def itl(self) -> Statistics | None:
        """Statistics of ITL in seconds, if usable as ours."""
        return _statistics(self.best("itl"))

    @property
    def e2e(self) -> Statistics | None:
        """Statistics of the end-to-end time in seconds, if usable as ours."""
        return _statistics(self.best("e2e"))

    @property
    def missing(self) -> tuple[str, ...]:
        """Name what a calibration needs and neither the file nor the caller said."""
        plain = ("engine", "engine_version", "model", "accelerator", "tp_degree", "precision")
        names = [name for name in plain if getattr(self, name) is None]
        if self.layout and all(group.tp_degree is not None for group in self.layout):
            names = [name for name in names if name != "tp_degree"]
        if self.arrivals is None:
            names.append("arrivals")
        for name, lengths in (("prompt_lengths", self.prompt), ("output_lengths", self.output)):
            if lengths is None or lengths.source != "observed" or lengths.mean is None:
                names.append(name)
        if self.prefix_hit_rate is None:
            names.append("prefix_hit_rate")
        names += [name for name in ("ttft", "tpot") if getattr(self, name) is None]
        return tuple(names)


def _statistics(latency: Latency | None) -> Statistics | None:
    return latency.statistics if latency else None
