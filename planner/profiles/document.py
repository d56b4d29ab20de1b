"""The profile of a trace as a document; units in the names, shares between 0 and 1."""

from __future__ import annotations

from typing import Literal

from planner.spec import Spec


class LengthProfile(Spec):
    """One length, in tokens."""

    mean: float
    cv: float
    """Standard deviation / mean."""
    p50: float
    p90: float
    p95: float
    p99: float
    max: int


class HeatMap(Spec):
    """How many requests have which lengths together."""

    prompt_edges: tuple[int, ...]
    """Cell i holds prompts from edge i to below edge i + 1."""
    output_edges: tuple[int, ...]
    counts: tuple[tuple[int, ...], ...]
    """By prompt, then by output."""


class RateOverTime(Spec):
    """Requests per second by window of time."""

    window_s: float
    rps: tuple[float, ...]


class Dispersion(Spec):
    """How unevenly requests fall into windows of one length."""

    window_s: float
    windows: int
    index: float
    """Variance / mean of the counts, about the mean of their hour; 1 for Poisson arrivals."""
    low: float
    high: float
    """95 % interval, from blocks of the trace."""
    peak: float
    """Busiest window / mean window."""


class ArrivalProfile(Spec):
    """When requests came."""

    span_s: float
    rate_rps: float
    cv: float
    """Standard deviation / mean of the gaps, those of one tick of the clock spread over it."""
    cv_as_stamped: float
    """The same by the stamps of the file, whatever the clock's tick."""
    tick_s: float
    """Step of the clock that stamped them; 0 where it is finer than the gaps."""
    rate: RateOverTime
    dispersion: tuple[Dispersion, ...]
    """By ascending window."""
    autocorrelation_window_s: float
    autocorrelation: tuple[float, ...]
    """Of the counts of such windows, at a distance of 1, 2, ... windows."""


class PrefixProfile(Spec):
    """What a prefix cache could save."""

    block_tokens: int
    blocks: int
    hit_share: float
    """Blocks that an earlier request had already, in a cache that forgets nothing."""
    requests_with_hits: float
    """Share of the requests that would find at least one block."""
    first_block_share: float
    """Share of the requests that begin with the most common first block."""


class ClientProfile(Spec):
    """Who asks how much."""

    clients: int
    largest_share: float
    ten_largest_share: float
    half_of_the_load: int
    """Fewest clients that make half of the requests together."""


class TraceProfile(Spec):
    """A request trace in numbers."""

    format_version: Literal["1.0"] = "1.0"
    planner_version: str
    file: str
    start: str | None
    """The first arrival, as the file writes it."""
    requests: int
    failed: int
    """Failed, cancelled or rejected; they are counted in everything else."""
    prompt: LengthProfile
    output: LengthProfile
    rank_correlation: float
    """Spearman's, of prompt and output."""
    heat: HeatMap
    arrivals: ArrivalProfile | None
    """None where the file tells no times."""
    prefix: PrefixProfile | None
    clients: ClientProfile | None
    notes: tuple[str, ...]
