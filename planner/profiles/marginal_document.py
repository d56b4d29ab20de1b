"""The profile of metrics that hold marginals only, as a document; units in the names."""

from __future__ import annotations

from typing import Literal

from planner.spec import Spec


class Between(Spec):
    """A number that depends on how prompt and output go together, under every way they could."""

    low: float
    independent: float
    """If a prompt's length tells nothing of its output's: what a fitted workload uses."""
    high: float


class BucketProfile(Spec):
    """One length by buckets, in tokens."""

    mean: float
    """As counted; exact."""
    cv: float
    """Standard deviation / mean, of the fitted law."""
    edges: tuple[float, ...]
    """Upper edges of the buckets that have one; longer lengths are in one more bucket."""
    counts: tuple[float, ...]
    """Requests by bucket; one more than edges."""
    p50: tuple[float, float]
    """The bucket that holds the quantile: above the first, at most the second."""
    p90: tuple[float, float]
    p95: tuple[float, float]
    p99: tuple[float, float]


class JointShare(Spec):
    """The share of requests whose prompt and output are both above edges of their buckets."""

    prompt_above: float
    output_above: float
    share: Between
    """By Fréchet and Hoeffding; the edges are counted, so the bounds are exact."""


class MarginalProfile(Spec):
    """What metrics tell of a workload."""

    format_version: Literal["1.0"] = "1.0"
    planner_version: str
    knows: Literal["marginals"] = "marginals"
    """Prompt and output each for itself; nothing of which went with which."""
    file: str
    since: str | None
    """The earlier scrape, where there is one."""
    model: str
    requests: float
    """Asked for: finished, cancelled, failed and turned away."""
    failed: float
    """Cancelled, failed or turned away; they are counted in the rate."""
    span_s: float | None
    rate_rps: float | None
    """None where nothing tells over what time was counted."""
    prompt: BucketProfile
    output: BucketProfile
    joint: tuple[JointShare, ...]
    correlation: Between
    """Pearson's, of prompt and output tokens, for the fitted laws."""
    mean_product: Between
    """Mean of prompt × output, in tokens², for the fitted laws."""
    kv_token_steps: Between
    """Mean over requests of the context summed over the steps that decode it: prompt × output +
    output × (output + 1) / 2. Times the rate and TPOT it is the cache in use, in tokens."""
    coupling: Literal["independent"] = "independent"
    """What a fitted workload uses."""
    notes: tuple[str, ...]
