"""Do a measurement's books close? Identities that hold for any run, whatever was measured."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.measurements.build import TIMES_AGREE, adds_up
from planner.measurements.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.measurements.measurement import Measurement, Statistics

AGREE: Final = 0.02
"""Relative difference up to which two accounts of one rate agree."""
LITTLE_AGREE: Final = 0.05
ORDER: Final = ("min", "p50", "p75", "p90", "p95", "p99", "p999", "max")


def books(m: Measurement) -> Iterator[Finding]:
    """Yield a finding for every identity that does not hold."""
    yield from _rate(m)
    yield from _tokens(m)
    yield from _little(m)
    yield from _times(m)
    yield from _order(m)
    yield from _records(m)


def mean_e2e_s(m: Measurement) -> float | None:
    """Return the mean end-to-end time in seconds; from TTFT and TPOT where the file has none."""
    if m.e2e is not None and m.e2e.mean is not None:
        return m.e2e.mean
    ttft, tpot = m.ttft, m.tpot
    if ttft is None or tpot is None or m.output is None:
        return None
    if ttft.mean is None or tpot.mean is None or m.output.mean is None:
        return None
    return ttft.mean + tpot.mean * max(m.output.mean - 1, 0)


def mean_in_flight(m: Measurement) -> float | None:
    """Return the mean number of requests in flight, by Little's law."""
    e2e = mean_e2e_s(m)
    return m.completed_rps * e2e if e2e is not None and m.completed_rps is not None else None


def _off(told: float, follows: float) -> float:
    """Return the relative difference of two accounts of one number."""
    return abs(told - follows) / max(abs(told), abs(follows), 1e-300)


def _rate(m: Measurement) -> Iterator[Finding]:
    if not m.completed or not m.duration_s or m.completed_rps is None:
        return
    follows = m.completed / m.duration_s
    if _off(m.completed_rps, follows) > AGREE:
        yield Finding(
            "duration_is_not_requests_over_rate",
            "warning",
            f"{m.completed_rps:.4g} req/s is told, but {m.completed} requests in"
            f" {m.duration_s:.4g} s are {follows:.4g} req/s",
            (("completed_rps", m.completed_rps), ("requests_over_duration_rps", follows)),
        )


def _tokens(m: Measurement) -> Iterator[Finding]:
    sides = (
        ("output", m.output, m.output_tokens_per_s),
        ("prompt", m.prompt, m.input_tokens_per_s),
    )
    for name, lengths, told in sides:
        if lengths is None or lengths.mean is None or told is None or not m.completed_rps:
            continue
        follows = m.completed_rps * lengths.mean
        # Lengths that were only asked for may differ by the tokens of a template.
        allowed = AGREE if lengths.source == "observed" else 0.1
        if _off(told, follows) > allowed:
            yield Finding(
                "tokens_are_not_rate_times_length",
                "warning",
                f"{told:.4g} {name} tokens/s are told, but {m.completed_rps:.4g} req/s of"
                f" {lengths.mean:.4g} tokens are {follows:.4g}",
                ((f"{name}_tokens_per_s", told), ("rate_times_length_per_s", follows)),
            )


def _little(m: Measurement) -> Iterator[Finding]:
    follows = mean_in_flight(m)
    if follows is None:
        return
    numbers: tuple[tuple[str, float], ...] = (("rate_times_e2e", follows),)
    if m.mean_concurrency is not None:
        if (
            _off(m.mean_concurrency, follows) > LITTLE_AGREE
            and max(m.mean_concurrency, follows) > 1
        ):
            yield Finding(
                "littles_law_fails",
                "warning",
                f"{m.mean_concurrency:.4g} requests in flight are told, but rate x mean E2E is"
                f" {follows:.4g}",
                (*numbers, ("mean_concurrency", m.mean_concurrency)),
            )
        return
    if m.arrivals is None or not m.arrivals.concurrency:
        return
    users = m.arrivals.concurrency
    numbers = (*numbers, ("concurrency", users))
    if follows > users * (1 + LITTLE_AGREE):
        yield Finding(
            "littles_law_fails",
            "error",
            f"rate x mean E2E is {follows:.4g} requests in flight, more than the {users:g}"
            " that the client allows",
            numbers,
        )
    elif m.arrivals.closed and follows < users * _least_share(m):
        yield Finding(
            "littles_law_fails",
            "warning",
            f"rate x mean E2E is {follows:.4g} requests in flight, fewer than the {users:g}"
            " of the closed loop: it idled, or a part of the run is not counted",
            numbers,
        )


def _least_share(m: Measurement) -> float:
    """Return the share of its users that a closed loop keeps in flight while it drains."""
    e2e = mean_e2e_s(m)
    drain = e2e / m.duration_s if e2e and m.duration_s else 0.2
    return max(1 - drain - 2 * LITTLE_AGREE, 0)


def _times(m: Measurement) -> Iterator[Finding]:
    tpot = m.best("tpot")
    if tpot is None or tpot.field in ("derived", "requests"):
        return
    ratio = adds_up(m, tpot.statistics)
    if ratio is None or 1 / TIMES_AGREE <= ratio <= TIMES_AGREE:
        return
    equal = m.output is not None and m.output.statistics.constant
    yield Finding(
        "times_do_not_add_up",
        "error" if equal else "warning",
        f"mean TPOT x (output - 1) is {ratio:.2f} of mean E2E - TTFT: "
        + (
            "all outputs are equally long, so one of them is wrong"
            if equal
            else "either TPOT is not per token, or short outputs were much slower than long ones"
        ),
        (("tpot_times_gaps_over_decode_time", ratio),),
    )


def _order(m: Measurement) -> Iterator[Finding]:
    for latency in m.latencies:
        s: Statistics = latency.statistics
        values = [v for name in ORDER if (v := getattr(s, name)) is not None]
        fall = any(b < a * (1 - 1e-9) for a, b in itertools.pairwise(values))
        outside = s.mean is not None and (
            (s.max is not None and s.mean > s.max * (1 + 1e-9))
            or (s.min is not None and s.mean < s.min * (1 - 1e-9))
        )
        if fall or outside:
            yield Finding(
                "quantiles_out_of_order",
                "error",
                f"{latency.field}: its quantiles fall, or its mean lies outside min and max",
            )


def _records(m: Measurement) -> Iterator[Finding]:
    if m.records is None:
        return
    if m.completed and len(m.records) < m.completed:
        yield Finding(
            "records_are_cut",
            "warning",
            f"{len(m.records)} of {m.completed} completed requests are in the file: their"
            " statistics are not used",
            (("records", float(len(m.records))), ("completed", float(m.completed))),
        )
        return
    ttft, each = m.ttft, m.records.ttft_s[m.records.completed]
    if ttft is None or ttft.mean is None or not np.isfinite(each).any():
        return
    follows = float(np.nanmean(each))
    if _off(ttft.mean, follows) > LITTLE_AGREE:
        yield Finding(
            "records_contradict_summary",
            "warning",
            f"mean TTFT is {ttft.mean:.4g} s in the summary, {follows:.4g} s over the requests",
            (("summary_ttft_s", ttft.mean), ("records_ttft_s", follows)),
        )
