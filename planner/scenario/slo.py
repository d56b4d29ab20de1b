"""What a workload is promised."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from planner.spec import Spec, mistake
from planner.units import Seconds, Share


class Slo(Spec):
    """A latency promise: at least ``attainment`` of requests meet *both* deadlines.

    Judged per request, on the joint distribution: a request that is rejected, fails or misses
    either deadline is not compliant.
    """

    ttft: Seconds
    """Time to first token: arrival at the router to the first output token, queueing included."""

    tpot: Seconds
    """Time per output token: (last token - first token) / (output tokens - 1), per request."""

    attainment: Annotated[Share, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.95
    """Share of the offered requests that must meet both deadlines, such as 0.95 or 95 %."""

    @model_validator(mode="after")
    def _first_token_is_not_faster_than_the_rest(self) -> Slo:
        if self.ttft < self.tpot:
            raise mistake(
                f"{self.ttft:g} s is shorter than tpot ({self.tpot:g} s); are they swapped?",
                "ttft",
            )
        return self
