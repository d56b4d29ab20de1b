"""From scrapes of metrics to a profile: marginals, and bounds on what they go together as."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.data import version
from planner.profiles.buckets import law_of, mean_product
from planner.profiles.marginal_document import (
    Between,
    BucketProfile,
    JointShare,
    MarginalProfile,
)
from planner.scenario.arrivals import Arrivals
from planner.scenario.lengths import Lengths, Marginal, MarginalPart, Uniform

if TYPE_CHECKING:
    from planner.measurements.scrapes import Scrape, TokenBuckets
    from planner.profiles.buckets import BucketLaw

TOLD: Final = (0.5, 0.1)
"""Shares above an edge, about, at which joint shares are told."""
LONGEST: Final = 1_000_000
"""Longest length of an even range in a scenario."""
NO_RATE: Final = (
    "nothing tells over what time the counters ran: name an earlier scrape by --since, and the time"
    " by --over where the scrapes carry no time stamps"
)
MARGINALS: Final = (
    "metrics count prompts and outputs apart: which prompt had which output is not known, and"
    " what depends on it lies between the bounds"
)


@dataclass(frozen=True, slots=True)
class MarginalWorkload:
    """A profile, and the laws behind it."""

    profile: MarginalProfile
    prompt: BucketLaw
    output: BucketLaw

    def arrivals(self) -> Arrivals:
        """Return arrivals at the counted rate; 1 req/s where it is not known."""
        return Arrivals(poisson=float(f"{self.profile.rate_rps or 1.0:.5g}"))

    def lengths(self) -> Lengths:
        """Return the two lengths, independent of each other."""
        return Lengths(prompt=_marginal(self.prompt), output=_marginal(self.output))


def profile_scrape(scrape: Scrape, file: str, since: str | None = None) -> MarginalWorkload:
    """Measure what a scrape, or two, tell of demand.

    Args:
        scrape: Counts of one model.
        file: Its name, for the document.
        since: That of the earlier scrape.

    Raises:
        InputError: Sums and buckets contradict each other.
    """
    prompt, of_prompt = law_of("prompt", scrape.prompt)
    output, of_output = law_of("output", scrape.output)
    product = _product(prompt, output)
    own = (output.mean_square + output.mean) / 2
    span_s = scrape.span_s
    profile = MarginalProfile(
        planner_version=version(),
        file=file,
        since=since,
        model=scrape.model,
        requests=scrape.asked,
        failed=scrape.unserved,
        span_s=span_s,
        rate_rps=scrape.asked / span_s if span_s else None,
        prompt=_buckets(scrape.prompt, prompt),
        output=_buckets(scrape.output, output),
        joint=_joint(scrape.prompt, scrape.output),
        correlation=_correlation(prompt, output, product),
        mean_product=product,
        kv_token_steps=Between(
            low=product.low + own, independent=product.independent + own, high=product.high + own
        ),
        notes=(MARGINALS, *_notes(scrape), *of_prompt, *of_output),
    )
    return MarginalWorkload(profile, prompt, output)


def _notes(scrape: Scrape) -> list[str]:
    notes = []
    if scrape.unserved:
        notes.append(
            f"{scrape.unserved:,.0f} of {scrape.asked:,.0f} requests failed, were cancelled or"
            " turned away; they stay in the demand, those turned away with the lengths of the rest"
        )
    if scrape.refused:
        notes.append(
            f"{scrape.refused:,.0f} answers of HTTP 4xx are left out: they do not tell a wrong"
            " request from one turned away"
        )
    if scrape.in_flight > 0.01 * scrape.asked:
        notes.append(f"{scrape.in_flight:,.0f} requests in flight are not counted yet")
    return notes if scrape.span_s else [*notes, NO_RATE]


def _buckets(buckets: TokenBuckets, law: BucketLaw) -> BucketProfile:
    return BucketProfile(
        mean=buckets.total / buckets.requests,
        cv=law.deviation / law.mean,
        edges=buckets.edge[:-1],
        counts=buckets.count,
        p50=_bucket_of(buckets, law, 0.5),
        p90=_bucket_of(buckets, law, 0.9),
        p95=_bucket_of(buckets, law, 0.95),
        p99=_bucket_of(buckets, law, 0.99),
    )


def _bucket_of(buckets: TokenBuckets, law: BucketLaw, share: float) -> tuple[float, float]:
    below = np.cumsum(buckets.count)
    at = int(np.searchsorted(below, share * below[-1] * (1 - 1e-12)))
    high = buckets.edge[at]
    return (
        buckets.edge[at - 1] if at else 0.0,
        float(law.high[-1]) if math.isinf(high) else high,
    )


def _joint(prompt: TokenBuckets, output: TokenBuckets) -> tuple[JointShare, ...]:
    found = []
    for x, a in _edges_at(prompt):
        for y, b in _edges_at(output):
            share = Between(low=max(a + b - 1, 0.0), independent=a * b, high=min(a, b))
            found.append(JointShare(prompt_above=x, output_above=y, share=share))
    return tuple(found)


def _edges_at(buckets: TokenBuckets) -> list[tuple[float, float]]:
    """Return edges with about the told shares above them, and those shares."""
    above = 1 - np.cumsum(buckets.count)[:-1] / buckets.requests
    inside = np.flatnonzero((above > 1e-9) & (above < 1 - 1e-9))
    if not inside.size:
        return []
    odds = np.log(above[inside] / (1 - above[inside]))
    chosen = {
        int(inside[np.argmin(np.abs(odds - math.log(share / (1 - share))))]) for share in TOLD
    }
    return [(buckets.edge[i], float(above[i])) for i in sorted(chosen)]


def _product(prompt: BucketLaw, output: BucketLaw) -> Between:
    return Between(
        low=mean_product(prompt, output, against=True),
        independent=prompt.mean * output.mean,
        high=mean_product(prompt, output, against=False),
    )


def _correlation(prompt: BucketLaw, output: BucketLaw, product: Between) -> Between:
    spread = prompt.deviation * output.deviation
    low, high = ((end - product.independent) / spread for end in (product.low, product.high))
    return Between(low=max(low, -1.0), independent=0.0, high=min(high, 1.0))


def _marginal(law: BucketLaw) -> Marginal:
    """Write a law as a mixture of even ranges."""
    parts = [
        MarginalPart(
            weight=float(f"{share:.6g}"),
            uniform=Uniform(minimum=min(int(low), LONGEST), maximum=min(int(high), LONGEST)),
        )
        for low, high, share in zip(law.low, law.high, law.share, strict=True)
    ]
    if len(parts) == 1:
        return Marginal(uniform=parts[0].uniform)
    return Marginal(mixture=tuple(parts))
