"""What may be wrong with a measurement before anything is fitted to it.

Every check is a generator of findings; none drops data. Checks of one measurement need nothing
but itself, and :func:`findings_together` compares those of one file or study.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.measurements.books import books, mean_e2e_s, mean_in_flight
from planner.measurements.findings import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from planner.measurements.measurement import Measurement

HIT_RATE_MATTERS: Final = 0.05
BELOW_COLD: Final = 0.8
"""TTFT over a cold prefill's time, below which the prompt cannot have been computed whole."""
MANY_FAILED: Final = 0.05
OFFERED_AGREE: Final = 0.03
OFFERED_AGREE_BLIND: Final = 0.1
"""The same where the number of requests is not known, and so not how much the last one weighs."""
LEAST_RATE_REQUESTS: Final = 20
NEAR_CAP: Final = 0.8
TREND_BLOCKS: Final = 10
TREND_RISE: Final = 1.5
TREND_RANK: Final = 0.8
LEAST_TREND_REQUESTS: Final = 60
FEW_REQUESTS: Final = 100
FEW_ROUNDS: Final = 3
REPEAT_FASTER: Final = 0.7
REPEATED: Final = 0.2


def findings(
    m: Measurement, *, cold_prefill_s: Callable[[float], float] | None = None
) -> tuple[Finding, ...]:
    """Check one measurement.

    Args:
        m: The measurement.
        cold_prefill_s: Seconds of an isolated prefill, by prompt tokens, with an empty cache;
            of the same deployment, if a step law of it is known.
    """
    found: list[Finding] = []
    for check in (_prefix_cache, _failures, _stability, _client, _sample, _speculation, books):
        found += check(m)
    if cold_prefill_s is not None:
        found += _cold_prefill(m, cold_prefill_s)
    return tuple(found)


def hit_rate_mismatch(m: Measurement, workload_hit_rate: float) -> Finding | None:
    """Say why a measurement must not stand for a workload of another prefix hit rate.

    Args:
        m: The measurement.
        workload_hit_rate: Share of the workload's prompt tokens that the prefix cache serves.

    Returns:
        An error where both rates are known and differ, a warning where the measurement states
        none, ``None`` where they agree.
    """
    if m.prefix_hit_rate is None:
        return _unstated()
    if abs(m.prefix_hit_rate - workload_hit_rate) <= HIT_RATE_MATTERS:
        return None
    return Finding(
        "hit_rate_mismatch",
        "error",
        f"measured with {m.prefix_hit_rate:.0%} of the prompt from the prefix cache; the"
        f" workload has {workload_hit_rate:.0%}: the two are not comparable",
        (("measured_hit_rate", m.prefix_hit_rate), ("workload_hit_rate", workload_hit_rate)),
    )


def _unstated() -> Finding:
    return Finding(
        "prefix_hit_rate_unstated",
        "warning",
        "the prefix hit rate is not stated: with repeated prompts the run overstates capacity",
    )


def _prefix_cache(m: Measurement) -> Iterator[Finding]:
    rate = m.prefix_hit_rate
    if rate is None:
        yield _unstated()
    elif rate > HIT_RATE_MATTERS:
        yield Finding(
            "served_from_prefix_cache",
            "warning",
            f"{rate:.0%} of the prompt tokens came from the prefix cache: comparable only with"
            " workloads of the same hit rate",
            (("prefix_hit_rate", rate),),
        )
    if m.shared_prompts:
        yield Finding(
            "shared_prompts",
            "warning" if rate is None else "note",
            f"{m.shared_prompts}: the prefix cache can serve them",
        )
    if m.repeated_outputs is not None and m.repeated_outputs >= REPEATED:
        yield Finding(
            "repeated_prompts",
            "warning",
            f"{m.repeated_outputs:.0%} of the outputs have the text of another: prompts were"
            " probably repeated, and served from the prefix cache",
            (("repeated_outputs", m.repeated_outputs),),
        )


def _cold_prefill(m: Measurement, cold_prefill_s: Callable[[float], float]) -> Iterator[Finding]:
    if m.prompt is None or m.prompt.mean is None or m.ttft is None:
        return
    seen = m.ttft.p50 if m.ttft.p50 is not None else m.ttft.mean
    cold = cold_prefill_s(m.prompt.mean)
    if seen is not None and seen < BELOW_COLD * cold:
        yield Finding(
            "ttft_below_cold_prefill",
            "error",
            f"TTFT of {seen * 1e3:.1f} ms is below the {cold * 1e3:.1f} ms that a cold prefill of"
            f" {m.prompt.mean:.0f} tokens takes: at least {1 - seen / cold:.0%} of its time was"
            " saved by the prefix cache, or the law is of another deployment",
            (("ttft_s", seen), ("cold_prefill_s", cold)),
        )


def _failures(m: Measurement) -> Iterator[Finding]:
    if m.failed is None:
        yield Finding("failures_unstated", "note", "the file does not say how many requests failed")
    elif m.failed:
        sent = m.sent or (m.failed + m.completed if m.completed is not None else None)
        share = m.failed / sent if sent else None
        told = f"{m.failed} of {sent} requests failed" if sent else f"{m.failed} requests failed"
        yield Finding(
            "requests_failed",
            "error" if share is not None and share > MANY_FAILED else "warning",
            f"{told}: latencies are those of the rest",
            (("failed", float(m.failed)),) + ((("share", share),) if share is not None else ()),
        )
    if m.records is not None:
        silent = int((~m.records.completed).sum()) - (m.failed or 0)
        if silent > 0 and len(m.records) >= (m.completed or 0):
            yield Finding(
                "silent_failures",
                "error" if silent / len(m.records) > MANY_FAILED else "warning",
                f"{silent} requests brought no token but are counted as completed: rates and"
                " mean lengths of the file count them",
                (("requests", float(silent)), ("share", silent / len(m.records))),
            )
    for latency in m.latencies:
        if latency.metric == "ttft" and latency.statistics.mean == 0:
            yield Finding("ttft_not_measured", "error", f"{latency.field}: {latency.why}")


def _stability(m: Measurement) -> Iterator[Finding]:
    yield from _ttft_trend(m)
    if not m.offered_rps or not m.completed_rps:
        return
    sent = m.sent or m.completed
    if sent is None:
        yield from _served(m, m.offered_rps, OFFERED_AGREE_BLIND, "warning")
    elif sent >= LEAST_RATE_REQUESTS:
        # A stable run ends about one E2E after the last arrival.
        tail = m.e2e.p99 if m.e2e is not None else None
        after = tail if tail is not None else (mean_e2e_s(m) or 0.0)
        expected = sent / (sent / m.offered_rps + after)
        allowed = max(OFFERED_AGREE, 3 / sent**0.5) if _random(m) else OFFERED_AGREE
        yield from _served(m, expected, allowed, "error")


def _served(
    m: Measurement, expected: float, allowed: float, severity: Severity
) -> Iterator[Finding]:
    served, offered = m.completed_rps or 0.0, m.offered_rps or 0.0
    if served >= (1 - allowed) * expected:
        return
    doubt = ", unless the run was short" if severity == "warning" else ""
    yield Finding(
        "served_below_offered",
        severity,
        f"unstable{doubt}: {served:.4g} req/s served of {offered:.4g} offered; the queue grew,"
        " and a mean over a fixed number of requests forecasts nothing",
        (
            ("offered_rps", offered),
            ("completed_rps", served),
            ("expected_if_stable_rps", expected),
        ),
    )


def _random(m: Measurement) -> bool:
    return m.arrivals is None or m.arrivals.mode != "constant"


def _ttft_trend(m: Measurement) -> Iterator[Finding]:
    """Compare blocks of the run, its first tenth left out as warm-up."""
    if m.records is None:
        return
    starts, ttft = m.records.start_s, m.records.ttft_s
    known = np.isfinite(ttft)
    order = np.argsort(np.where(np.isfinite(starts), starts, 0.0)[known], kind="stable")
    values = ttft[known][order]
    values = values[len(values) // 10 :]
    if len(values) < LEAST_TREND_REQUESTS:
        return
    blocks = np.array([block.mean() for block in np.array_split(values, TREND_BLOCKS)])
    ranks = np.argsort(np.argsort(blocks))
    rank = float(np.corrcoef(ranks, np.arange(TREND_BLOCKS))[0, 1])
    first, last = float(blocks[:3].mean()), float(blocks[-3:].mean())
    if rank > TREND_RANK and last > TREND_RISE * first:
        half = float(values[: len(values) // 2].mean())
        growth = float(values.mean()) / half if half else float("inf")
        yield Finding(
            "ttft_rises",
            "error",
            f"unstable: TTFT rises from {first * 1e3:.0f} ms to {last * 1e3:.0f} ms over the run;"
            f" a run twice as long has a {growth:.2f} times higher mean",
            (("first_ttft_s", first), ("last_ttft_s", last), ("growth_when_doubled", growth)),
        )


def _client(m: Measurement) -> Iterator[Finding]:
    sent, offered = m.sent_rps, m.offered_rps
    if sent is not None and offered and sent < (1 - OFFERED_AGREE) * offered:
        yield Finding(
            "client_below_offered",
            "error",
            f"the client sent {sent:.4g} req/s of the {offered:.4g} asked for: above saturation"
            " it is a closed loop",
            (("sent_rps", sent), ("offered_rps", offered)),
        )
    arrivals = m.arrivals
    if arrivals is None or arrivals.concurrency is None:
        return
    flying = m.mean_concurrency if m.mean_concurrency is not None else mean_in_flight(m)
    if not arrivals.closed and flying is not None and flying > NEAR_CAP * arrivals.concurrency:
        yield Finding(
            "client_capped",
            "error",
            f"{flying:.4g} requests in flight on average under a client's cap of"
            f" {arrivals.concurrency:g}: a client-side concurrency cap hides part of the queue",
            (("in_flight", flying), ("cap", arrivals.concurrency)),
        )
    if arrivals.mode == "unlimited" and arrivals.concurrency > 1:
        yield Finding(
            "first_burst",
            "note",
            f"all {arrivals.concurrency:g} users start at once: TTFT carries that burst",
        )


def _sample(m: Measurement) -> Iterator[Finding]:
    done = m.completed
    if done is None:
        return
    if done < FEW_REQUESTS:
        yield Finding(
            "few_requests",
            "note",
            f"{done} requests: a 99th percentile of fewer than {FEW_REQUESTS} is a maximum",
            (("completed", float(done)),),
        )
    users = m.arrivals.concurrency if m.arrivals is not None and m.arrivals.closed else None
    if users and done < FEW_ROUNDS * users:
        yield Finding(
            "few_rounds",
            "warning",
            f"{done} requests of {users:g} users: under {FEW_ROUNDS} rounds, start and end weigh",
            (("completed", float(done)), ("concurrency", users)),
        )


def _speculation(m: Measurement) -> Iterator[Finding]:
    for name, value in m.settings:
        if name.startswith("spec"):
            yield Finding(
                "speculative_decoding",
                "warning",
                f"{name} is {value}: TPOT holds for its acceptance only",
            )


def findings_together(measurements: Sequence[Measurement]) -> tuple[Finding, ...]:
    """Compare measurements: copies of one run, and repeats that the prefix cache made faster."""
    return (*_copies(measurements), *_faster_repeats(measurements))


def _setting(m: Measurement) -> Hashable:
    lengths = tuple(side.mean if side else None for side in (m.prompt, m.output))
    served = (m.engine, m.engine_version, m.model, m.accelerator, m.accelerators, m.tp_degree)
    return (*served, m.precision, m.layout, m.arrivals, m.settings, lengths, m.prefix_hit_rate)


def _copies(measurements: Sequence[Measurement]) -> Iterator[Finding]:
    groups: dict[Hashable, int] = defaultdict(int)
    for m in measurements:
        values = tuple((latency.field, latency.statistics) for latency in m.latencies)
        if values:
            place = m.location if m.format == "dynamo profile" else None
            groups[(_setting(m), m.mean_context_tokens, values, place)] += 1
    copies = sum(count - 1 for count in groups.values())
    if copies:
        yield Finding(
            "copies",
            "warning",
            f"{copies} of {len(measurements)} load levels are copies of another, to the digit:"
            " a fit would count them twice, a random split would leak",
            (("copies", float(copies)),),
        )


def _faster_repeats(measurements: Sequence[Measurement]) -> Iterator[Finding]:
    """Find settings that were run again, and had a much lower TTFT the second time."""
    first: dict[Hashable, float] = {}
    for m in measurements:
        ttft = m.ttft.p50 if m.ttft is not None else None
        if ttft is None:
            continue
        before = first.setdefault(_setting(m), ttft)
        if ttft < REPEAT_FASTER * before:
            yield Finding(
                "repeat_is_faster",
                "warning",
                f"{m.path.name} {m.location}: median TTFT fell from {before * 1e3:.1f} ms to"
                f" {ttft * 1e3:.1f} ms on repeating the setting: the same prompts may have come"
                " from the prefix cache",
                (("first_ttft_s", before), ("repeat_ttft_s", ttft)),
            )
