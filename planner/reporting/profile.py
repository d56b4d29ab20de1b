"""The profile of a trace, and the fit to it, as tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.reporting.format import amount, count, rate, seconds, share, significant
from planner.reporting.layout import grid, heading, lines, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from planner.profiles.document import LengthProfile, TraceProfile
    from planner.profiles.fit import WorkloadFit


def profile_table(profile: TraceProfile) -> tuple[RenderableType, ...]:
    """Lay out a profile, readable at 100 columns."""
    return tuple(_profile(profile))


def _profile(profile: TraceProfile) -> Iterator[RenderableType]:
    yield plain(profile.file, style="bold")
    yield lines(f"{name}: {value}" for name, value in facts(profile))
    yield heading("Lengths, in tokens")
    headers = ("", ">mean", ">CV", ">p50", ">p90", ">p95", ">p99", ">longest")
    named = (("prompt", profile.prompt), ("output", profile.output))
    yield grid(headers, [_length(name, length) for name, length in named])
    if profile.arrivals is not None and profile.arrivals.dispersion:
        yield heading("Burstiness by time scale (1: as even as Poisson)")
        yield grid(
            (">window", ">index of dispersion", ">95 % interval", ">busiest / mean"),
            [
                (
                    seconds(d.window_s),
                    significant(d.index),
                    f"{significant(d.low)}–{significant(d.high)}",
                    significant(d.peak),
                )
                for d in profile.arrivals.dispersion
            ],
        )
    if profile.notes:
        yield heading("Notes")
        yield lines(profile.notes)


def facts(profile: TraceProfile) -> list[tuple[str, str]]:
    """Return what is worth knowing at first, as names and values."""
    found = [("requests", count(profile.requests, "request"))]
    if profile.failed:
        share_failed = share(profile.failed / profile.requests)
        found.append(("failed", f"{profile.failed:,} ({share_failed}), kept in the demand"))
    arrivals = profile.arrivals
    if arrivals is not None:
        found += [
            ("first arrival", profile.start or "unknown"),
            ("span", seconds(arrivals.span_s)),
            ("mean rate", rate(arrivals.rate_rps)),
            ("CV of gaps", significant(arrivals.cv)),
        ]
        if arrivals.tick_s:
            found[-1] = (
                "CV of gaps",
                f"{significant(arrivals.cv)}, arrivals spread over the {seconds(arrivals.tick_s)}"
                f" ticks of their clock ({significant(arrivals.cv_as_stamped)} as stamped)",
            )
    found.append(("rank correlation of prompt and output", f"{profile.rank_correlation:.2f}"))
    if (prefix := profile.prefix) is not None:
        found.append(
            (
                "prefix reuse",
                f"{share(prefix.hit_share)} of {prefix.blocks:,} blocks of"
                f" {prefix.block_tokens} tokens are hits in a cache that forgets nothing;"
                f" {share(prefix.first_block_share)} of the requests begin alike",
            )
        )
    if (clients := profile.clients) is not None:
        found.append(
            (
                "clients",
                f"{clients.clients:,}; the largest sends {share(clients.largest_share)}, the ten"
                f" largest {share(clients.ten_largest_share)}; half of the load is"
                f" {count(clients.half_of_the_load, 'client')}",
            )
        )
    return found


def _length(name: str, length: LengthProfile) -> tuple[str, ...]:
    quantiles = (length.p50, length.p90, length.p95, length.p99)
    return (
        name,
        significant(length.mean),
        significant(length.cv),
        *(amount(round(x)) for x in quantiles),
        amount(length.max),
    )


def fit_statements(fit: WorkloadFit) -> tuple[str, ...]:
    """Say how well a fitted workload resembles its trace."""
    said = []
    best = fit.arrivals
    if best is None:
        said.append("arrivals: the file has no times; a rate of 1 req/s stands for yours")
    else:
        pairs = zip(fit.scales_s, fit.trace_index, best.index, strict=False)
        by_scale = "; ".join(
            f"{seconds(scale)}: {significant(ours)} for {significant(theirs)}"
            for scale, theirs, ours in pairs
        )
        said.append(f"arrivals: {best.name}; index of dispersion by window, {by_scale}")
        said.append(
            "within a factor of "
            f"{best.worst_factor:.2f} of the trace at every scale"
            + ("" if best.worst_factor <= 1.25 else ": not close; replay the trace instead")
        )
        if best.name == "bursts":
            said.append(
                "for k times the trace's rate, write sources: k beside it if the load grows by more"
                " independent users, as copies of a replayed trace are; else every burst grows"
                " k-fold"
            )
        others = [f for f in fit.candidates if f is not best]
        if others:
            tried = ", ".join(f"{f.name} (factor {f.worst_factor:.3g})" for f in others[:4])
            said.append(f"also tried: {tried}")
    said.append(
        "lengths: joint histogram; its marginals are within"
        f" {fit.histogram_distance:.3f} of the trace's (Kolmogorov-Smirnov), correlation kept"
    )
    for name, one in (("prompt", fit.prompt), ("output", fit.output)):
        tried = ", ".join(f"{other} {far:.3f}" for other, far in one.alternatives)
        said.append(
            f"{name} as a stated distribution: {one.name}, distance {one.distance:.3f}"
            + (f" ({tried})" if tried else "")
        )
    return tuple(said)
