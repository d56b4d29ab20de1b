"""The profile of metrics that hold marginals only, and the fit to it, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.reporting.format import NONE, amount, rate, seconds, share, significant
from planner.reporting.layout import grid, heading, lines, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType

    from planner.profiles.marginal_document import Between, BucketProfile, MarginalProfile


def marginal_table(profile: MarginalProfile) -> tuple[RenderableType, ...]:
    """Lay out a profile of marginals, readable at 100 columns."""
    return tuple(_profile(profile))


def _profile(profile: MarginalProfile) -> Iterator[RenderableType]:
    title = profile.file + (f" since {profile.since}" if profile.since else "")
    yield plain(f"{title}: {profile.model or 'no model named'}", style="bold")
    yield lines(f"{name}: {value}" for name, value in _facts(profile))
    yield heading("Lengths, in tokens; quantiles by the bucket that holds them")
    headers = ("", ">mean", ">CV, about", ">p50", ">p90", ">p95", ">p99")
    named = (("prompt", profile.prompt), ("output", profile.output))
    yield grid(headers, [_length(name, length) for name, length in named])
    yield heading("Prompt and output together: not known, between these bounds")
    yield grid(
        ("", ">one against the other", ">independent", ">both together"), list(_bounds(profile))
    )
    yield heading("Notes")
    yield lines(profile.notes)


def _facts(profile: MarginalProfile) -> Iterator[tuple[str, str]]:
    yield "requests", f"{profile.requests:,.0f}"
    if profile.failed:
        failed = share(profile.failed / profile.requests)
        yield "failed", f"{profile.failed:,.0f} ({failed}), kept in the demand"
    yield "span", seconds(profile.span_s) if profile.span_s else "not known"
    yield "mean rate", rate(profile.rate_rps) if profile.rate_rps else "not known"


def _length(name: str, length: BucketProfile) -> tuple[str, ...]:
    quantiles = (length.p50, length.p90, length.p95, length.p99)
    return (
        name,
        significant(length.mean),
        significant(length.cv, 2),
        *(f"{amount(low)}–{amount(high)}" for low, high in quantiles),
    )


def _bounds(profile: MarginalProfile) -> Iterator[tuple[str, ...]]:
    for one in profile.joint:
        above = f"prompt > {amount(one.prompt_above)} and output > {amount(one.output_above)}"
        yield above, *_three(one.share, share)
    yield "correlation (Pearson's)", *_three(profile.correlation, lambda x: f"{x:.2f}")
    yield "mean prompt × output, tokens²", *_three(profile.mean_product, significant)
    yield "KV token-steps of a request", *_three(profile.kv_token_steps, significant)


def _three(bounds: Between, write: Callable[[float], str]) -> tuple[str, str, str]:
    return write(bounds.low), write(bounds.independent), write(bounds.high)


def marginal_statements(profile: MarginalProfile) -> tuple[str, ...]:
    """Say what a workload fitted to marginals assumes, and what else it could be."""
    kv = profile.kv_token_steps
    counted = rate(profile.rate_rps) if profile.rate_rps else NONE
    arrivals = (
        f"arrivals: Poisson at the counted {counted}; metrics tell nothing of bursts"
        if profile.rate_rps
        else "arrivals: the time over which was counted is not known; 1 req/s stands for yours"
    )
    return (
        arrivals,
        "lengths: the counted buckets, their means exact; within a bucket even over a part of it",
        "prompt and output: independent, which metrics can neither confirm nor deny; KV token-steps"
        f" of a request are {significant(kv.independent)}, and {significant(kv.low)} to"
        f" {significant(kv.high)} under any coupling",
        "for the heaviest (comonotone) coupling write correlation: 1 beside prompt and output, for"
        " the lightest correlation: -1",
    )
