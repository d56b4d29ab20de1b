"""What a workload is promised."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, model_validator

from planner.spec import Spec, mistake
from planner.units import Seconds, Share, Tokens


class PromptBucket(Spec):
    """A TTFT deadline for prompts of some lengths."""

    up_to: Tokens
    """Longest prompt that it is for; shorter buckets go first."""
    ttft: Seconds
    """Deadline of the first token of such prompts."""


class Slo(Spec):
    """A latency promise: at least ``attainment`` of requests meet *all* deadlines.

    Judged per request, on the joint distribution: a request that is rejected, fails or misses
    any deadline is not compliant.
    """

    ttft: Seconds
    """Time to first token: arrival at the router to the first output token, queueing included."""

    tpot: Seconds
    """Time per output token: (last token - first token) / (output tokens - 1), per request."""

    e2e: Seconds | None = None
    """End to end: arrival at the router to the last token; no such deadline where left out."""

    max_itl: Seconds | None = None
    """The longest time between two tokens of a request; no such deadline where left out."""

    ttft_by_prompt: tuple[PromptBucket, ...] = ()
    """TTFT deadlines that grow with the prompt, by ascending length; ``ttft`` is for prompts
    longer than the last."""

    attainment: Annotated[Share, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.95
    """Share of the offered requests that must meet all deadlines, such as 0.95 or 95 %."""

    attainment_over: Literal["period", "worst_hour"] | None = None
    """Over what the share is taken where ``traffic`` has the load change: ``worst_hour``, in each
    hour by itself; ``period``, over all requests of the whole period, so that busy hours may be
    worse than quiet ones are better. Left out, at the load that ``traffic.plan_for`` names."""

    @model_validator(mode="after")
    def _first_token_is_not_faster_than_the_rest(self) -> Slo:
        if self.ttft < self.tpot:
            raise mistake(
                f"{self.ttft:g} s is shorter than tpot ({self.tpot:g} s); are they swapped?",
                "ttft",
            )
        return self

    @model_validator(mode="after")
    def _the_whole_is_not_faster_than_its_beginning(self) -> Slo:
        if self.e2e is not None and self.e2e < self.ttft:
            raise mistake(f"{self.e2e:g} s is shorter than ttft ({self.ttft:g} s)", "e2e")
        return self

    @model_validator(mode="after")
    def _the_longest_gap_is_not_below_the_mean(self) -> Slo:
        if self.max_itl is not None and self.max_itl < self.tpot:
            raise mistake(
                f"{self.max_itl:g} s is shorter than tpot ({self.tpot:g} s), which is the mean of"
                " the gaps whose longest this bounds; are they swapped?",
                "max_itl",
            )
        return self

    @model_validator(mode="after")
    def _buckets_ascend(self) -> Slo:
        edges = [bucket.up_to for bucket in self.ttft_by_prompt]
        for i, (shorter, longer) in enumerate(pairwise(edges), start=1):
            if longer <= shorter:
                raise mistake(
                    f"must be above that of the bucket before ({shorter:g} tokens)",
                    *("ttft_by_prompt", i, "up_to"),
                )
        return self
