"""From a trace to its profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from planner.data import version
from planner.profiles.arrivals import profile_arrivals
from planner.profiles.document import (
    ClientProfile,
    HeatMap,
    LengthProfile,
    PrefixProfile,
    TraceProfile,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.measurements.request_trace import PrefixBlocks, RequestTrace

    Tokens = NDArray[np.int32]

PER_OCTAVE: Final = 2
"""Cells of the heat map per doubling of a length."""


def profile_trace(trace: RequestTrace, file: str) -> TraceProfile:
    """Measure a trace.

    Args:
        trace: The requests.
        file: Its name, for the document.
    """
    arrivals = None
    if trace.time_s is not None and trace.span_s > 0:
        arrivals = profile_arrivals(trace.spread_s(), trace.span_s, trace.time_s, trace.tick_s)
    return TraceProfile(
        planner_version=version(),
        file=file,
        start=trace.start,
        requests=trace.prompt.size,
        failed=int(trace.failed.sum()),
        prompt=profile_length(trace.prompt),
        output=profile_length(trace.output),
        rank_correlation=rank_correlation(trace.prompt, trace.output),
        heat=heat_map(trace.prompt, trace.output),
        arrivals=arrivals,
        prefix=prefix_reuse(trace.prefix) if trace.prefix is not None else None,
        clients=concentration(trace.client) if trace.client is not None else None,
        notes=trace.notes,
    )


def profile_length(tokens: Tokens) -> LengthProfile:
    """Measure one length; quantiles are lengths that occur or lie between two that do."""
    mean = float(tokens.mean())
    p50, p90, p95, p99 = np.quantile(tokens, (0.5, 0.9, 0.95, 0.99)).tolist()
    return LengthProfile(
        mean=mean,
        cv=float(tokens.std()) / mean,
        p50=p50,
        p90=p90,
        p95=p95,
        p99=p99,
        max=int(tokens.max()),
    )


def rank_correlation(one: Tokens, two: Tokens) -> float:
    """Return Spearman's correlation, equal values sharing their ranks; 0 if one never varies."""
    ranks = [_ranks(tokens) for tokens in (one, two)]
    spread = [float(rank.std()) for rank in ranks]
    if min(spread) == 0:
        return 0.0
    product = (ranks[0] - ranks[0].mean()) * (ranks[1] - ranks[1].mean())
    return float(product.mean()) / (spread[0] * spread[1])


def _ranks(tokens: Tokens) -> NDArray[np.float64]:
    _, at, count = np.unique(tokens, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return np.asarray((last - (count - 1) / 2)[at], np.float64)


def length_edges(longest: int, per_octave: int) -> NDArray[np.int64]:
    """Return whole edges from 1 to above the longest, about evenly on a scale of powers."""
    octaves = np.log2(longest + 1)
    powers = 2.0 ** (np.arange(np.ceil(octaves * per_octave) + 1) / per_octave)
    return np.unique(np.ceil(powers - 1e-9)).astype(np.int64)


def heat_map(prompt: Tokens, output: Tokens, per_octave: int = PER_OCTAVE) -> HeatMap:
    """Count requests by both lengths, in cells that widen with the length."""
    edges = [length_edges(int(tokens.max()), per_octave) for tokens in (prompt, output)]
    at = [
        np.searchsorted(edge, tokens, side="right") - 1
        for edge, tokens in zip(edges, (prompt, output), strict=True)
    ]
    shape = edges[0].size - 1, edges[1].size - 1
    counts = np.bincount(at[0] * shape[1] + at[1], minlength=shape[0] * shape[1])
    return HeatMap(
        prompt_edges=tuple(edges[0].tolist()),
        output_edges=tuple(edges[1].tolist()),
        counts=tuple(map(tuple, counts.reshape(shape).tolist())),
    )


def prefix_reuse(prefix: PrefixBlocks) -> PrefixProfile:
    """Say what a cache that forgets nothing would find of the prompts' blocks."""
    name, start = prefix.name, prefix.start
    seen = np.ones(name.size, np.bool_)
    seen[np.unique(name, return_index=True)[1]] = False
    count = np.diff(start)
    some = count > 0
    first = name[start[:-1][some]]
    found = np.add.reduceat(seen, start[:-1][some]) > 0 if some.any() else np.zeros(0, np.bool_)
    requests = max(count.size, 1)
    return PrefixProfile(
        block_tokens=prefix.block_tokens,
        blocks=name.size,
        hit_share=float(seen.mean()) if name.size else 0.0,
        requests_with_hits=float(found.sum()) / requests,
        first_block_share=float(np.bincount(first).max()) / requests if first.size else 0.0,
    )


def concentration(client: NDArray[np.int32]) -> ClientProfile:
    """Say how the requests spread over clients."""
    counts = np.sort(np.bincount(client))[::-1]
    counts = counts[counts > 0]
    shares = np.cumsum(counts) / counts.sum()
    return ClientProfile(
        clients=counts.size,
        largest_share=float(shares[0]),
        ten_largest_share=float(shares[min(9, shares.size - 1)]),
        half_of_the_load=int(np.searchsorted(shares, 0.5 - 1e-12)) + 1,
    )
