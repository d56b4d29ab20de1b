"""Steps that readers share: definitions into latencies, columns into records, loose ends tied."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planner.measurements.measurement import (
    Arrivals,
    Fit,
    Latency,
    Lengths,
    Measurement,
    Metric,
    Over,
    Records,
    Statistics,
    statistics_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from planner.measurements.measurement import Histogram
    from planner.measurements.node import Node

TIMES_AGREE: Final = 1.25
"""TPOT × (output − 1) over E2E − TTFT, beyond which a TPOT is taken to be per chunk."""


@dataclass(frozen=True, slots=True)
class Definition:
    """What a tool means by the name of a latency.

    Attributes:
        metric: The quantity of ours that it is, or is closest to.
        over: What its statistics run over.
        fit: How far it serves as ours.
        words: The definition.
        why: What keeps it from ours, or what to keep in mind.
    """

    metric: Metric
    over: Over
    fit: Fit
    words: str
    why: str = ""

    def of(
        self, statistics: Statistics, field: str, histogram: Histogram | None = None
    ) -> tuple[Latency, ...]:
        """Make the latency of a field; nothing where no value is known."""
        if not statistics.known and histogram is None:
            return ()
        latency = Latency(
            self.metric,
            statistics,
            self.over,
            self.fit,
            self.words,
            field,
            self.why,
            histogram,
        )
        return (latency,)


CLIENT_TTFT: Final = Definition(
    "ttft", "requests", "same", "client: request sent to first streamed chunk"
)
CLIENT_E2E: Final = Definition(
    "e2e", "requests", "same", "client: request sent to last streamed chunk"
)
TOKEN_TPOT: Final = Definition(
    "tpot",
    "requests",
    "same",
    "per request: (E2E - TTFT) / (output tokens - 1)",
    "requests with one output token are left out; ours counts them as 0",
)
CHUNK_ITL: Final = Definition(
    "itl",
    "chunks",
    "close",
    "every gap between two streamed chunks",
    "a chunk may hold several tokens, which makes its gap longer",
)
FROM_RECORDS: Final = "of the single requests in the file"
SERVER_VIEW: Final = "measured in the server: no network, no client queue"


def keyed_statistics(
    node: Node, names: Mapping[str, str], *, scale: float = 1.0, low: float = 0.0
) -> Statistics:
    """Read statistics by field: ``{"mean": "mean_ttft_ms", …}``.

    Raises:
        InputError: A value is no number or below ``low``.
    """
    values: dict[str, Any] = {
        field: node.number(name, scale=scale, low=low)
        for field, name in names.items()
        if node.has(name)
    }
    return Statistics(**values)


def nominal(mean: float | None, *, low: float | None = None) -> Lengths | None:
    """Make the lengths that a client was told to send: fixed, or uniform from ``low`` × longest.

    Args:
        mean: The length, or the longest one if ``low`` is given, in tokens.
        low: Share of the longest at which the uniform range begins.
    """
    if mean is None:
        return None
    if low is None or low == 1:
        return Lengths(Statistics(mean=mean, std=0.0, min=mean, max=mean), "nominal")
    spread = mean * (1 - low) / 12**0.5
    middle = mean * (1 + low) / 2
    return Lengths(Statistics(mean=middle, std=spread, min=low * mean, max=mean), "nominal")


def observed_mean(total: float | None, count: float | None) -> Lengths | None:
    """Make observed lengths of a total over a count of requests."""
    if total is None or not count:
        return None
    return Lengths(Statistics(mean=total / count), "observed")


def arrivals_of(
    rate: float | None, cap: float | None, *, burstiness: float | None = None
) -> Arrivals | None:
    """Read the words of the usual client: a rate, infinite for all at once, and a cap."""
    if rate is None:
        return None if cap is None else Arrivals("closed_loop", concurrency=cap)
    if rate == float("inf"):
        return Arrivals("unlimited", concurrency=cap)
    if burstiness is not None and burstiness != 1:
        return Arrivals("gamma", rate_rps=rate, concurrency=cap, burstiness=burstiness)
    return Arrivals("poisson", rate_rps=rate, concurrency=cap, burstiness=1.0)


def records(size: int, **columns: NDArray[np.float64] | NDArray[np.bool_] | None) -> Records:
    """Make records of the columns that are known; the others are NaN, ``completed`` all true.

    What did not complete gets NaN for its latencies. Start times are made relative to the first.
    """
    known = {name: column for name, column in columns.items() if column is not None}
    completed = known.pop("completed", np.ones(size, np.bool_)).astype(np.bool_)
    blank = np.full(size, np.nan)
    table = {
        name: known.get(name, blank).astype(np.float64)
        for name in Records.__dataclass_fields__
        if name != "completed"
    }
    for name in ("ttft_s", "tpot_s", "e2e_s", "max_itl_s"):
        table[name] = np.where(completed, table[name], np.nan)
    if np.isfinite(table["start_s"]).any():
        table["start_s"] = table["start_s"] - np.nanmin(table["start_s"])
    for column in (completed, *table.values()):
        column.flags.writeable = False
    return Records(completed=completed, **table)


def tpot_of(
    e2e_s: NDArray[np.float64], ttft_s: NDArray[np.float64], output: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Compute TPOT per request, in seconds: 0 for one-token outputs; shape ``(requests,)``."""
    gaps = np.maximum(output - 1, 1)
    return np.where(output > 1, np.maximum(e2e_s - ttft_s, 0) / gaps, 0.0)


def finished(measurement: Measurement, *, may_count_chunks: bool = False) -> Measurement:
    """Tie the loose ends of a measurement. Nothing is filled in that does not follow.

    Args:
        measurement: As read.
        may_count_chunks: The tool is known to divide by chunks where it says tokens: then a
            TPOT that does not add up to E2E is marked unusable.
    """
    m = measurement
    latencies = tuple(map(_without_zeros, m.latencies))
    of = m.records
    if of is not None and len(of) >= (m.completed or 0):
        latencies += _latencies_of(m, of, latencies)
        prompt = m.prompt or _lengths_of(of.prompt_tokens, of)
        m = replace(m, prompt=prompt, output=m.output or _lengths_of(of.output_tokens, of))
    m = replace(m, latencies=latencies)
    if may_count_chunks:
        m = _without_chunk_counts(m)
    if m.tpot is None:
        m = replace(m, latencies=m.latencies + _tpot_of_means(m))
    if m.completed_rps is None and m.completed and m.duration_s:
        m = replace(m, completed_rps=m.completed / m.duration_s)
    if m.accelerators == 1:
        m = replace(m, tp_degree=1, pp_degree=1, ep_degree=1, dp_degree=1, replicas=1)
    return m


def _without_zeros(latency: Latency) -> Latency:
    """Mark a TTFT of 0 for every request, which some tools write by mistake."""
    s = latency.statistics
    if latency.metric == "ttft" and s.mean == 0 and not s.max:
        return replace(latency, fit="other", why="0 for every request: it was not measured")
    return latency


def _lengths_of(tokens: NDArray[np.float64], of: Records) -> Lengths | None:
    statistics = statistics_of(tokens[of.completed])
    return Lengths(statistics, "observed") if statistics.known else None


def _latencies_of(m: Measurement, of: Records, known: tuple[Latency, ...]) -> tuple[Latency, ...]:
    """Summarise records by our definitions where the file has no statistics of the same kind."""
    fit: Fit = "same" if m.view == "client" else "close"
    why = FROM_RECORDS if m.view == "client" else SERVER_VIEW
    columns: tuple[tuple[Metric, NDArray[np.float64]], ...] = (
        ("ttft", of.ttft_s),
        ("tpot", of.tpot_s),
        ("e2e", of.e2e_s),
    )
    there = {latency.metric for latency in known if latency.fit == fit}
    words = {
        "ttft": f"{m.view}: request received or sent to first token",
        "tpot": "per request: (E2E - TTFT) / (output tokens - 1), 0 for one token",
        "e2e": f"{m.view}: request received or sent to last token",
    }
    made: tuple[Latency, ...] = ()
    for metric, column in columns:
        statistics = statistics_of(column)
        if metric not in there and statistics.known and statistics.max:
            definition = Definition(metric, "requests", fit, words[metric], why)
            made += definition.of(statistics, "requests")
    return made


def adds_up(m: Measurement, tpot: Statistics) -> float | None:
    """Return TPOT × (output − 1) over E2E − TTFT, of the means.

    It is 1 where outputs are equally long, and near 1 where TPOT does not depend on length.
    """
    ttft, e2e = m.ttft, m.e2e
    if ttft is None or e2e is None or m.output is None or m.output.mean is None:
        return None
    if ttft.mean is None or tpot.mean is None or e2e.mean is None or e2e.mean <= ttft.mean:
        return None
    return tpot.mean * (m.output.mean - 1) / (e2e.mean - ttft.mean)


def _without_chunk_counts(m: Measurement) -> Measurement:
    tpot = m.best("tpot")
    ratio = adds_up(m, tpot.statistics) if tpot else None
    if tpot is None or ratio is None or 1 / TIMES_AGREE <= ratio <= TIMES_AGREE:
        return m
    why = (
        f"TPOT x (output - 1) is {ratio:.2f} of E2E - TTFT: it divides by streamed chunks,"
        " not by tokens"
    )
    other = replace(tpot, fit="other", why=why)
    return replace(m, latencies=tuple(other if it is tpot else it for it in m.latencies))


def _tpot_of_means(m: Measurement) -> tuple[Latency, ...]:
    """Derive the mean TPOT of mean E2E and TTFT: exact where all outputs are equally long."""
    ttft, e2e, output = m.ttft, m.e2e, m.output
    if ttft is None or e2e is None or output is None:
        return ()
    if ttft.mean is None or e2e.mean is None or output.mean is None or output.mean <= 1:
        return ()
    if e2e.mean <= ttft.mean:
        return ()
    exact = output.statistics.constant
    made = Definition(
        "tpot",
        "requests",
        "same" if exact else "close",
        "(mean E2E - mean TTFT) / (mean output tokens - 1)",
        "derived; exact, for all outputs are equally long"
        if exact
        else "derived: a ratio of means, which weighs long outputs more",
    )
    mean = (e2e.mean - ttft.mean) / (output.mean - 1)
    return made.of(Statistics(mean=mean), "derived")
