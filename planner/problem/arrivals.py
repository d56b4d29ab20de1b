"""Arrival laws as numbers: when the requests of one workload come.

Every law says its mean rate. A pool that serves a share of a workload sees its stream thinned
by that share, not stretched in time: bursts keep their length and lose their height.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from planner.measurements.request_trace import PrefixBlocks
    from planner.problem.lengths import SessionLengths


@dataclass(frozen=True, slots=True)
class PoissonArrivals:
    """Independent arrivals."""

    rate_rps: float


@dataclass(frozen=True, slots=True)
class RenewalArrivals:
    """Independent gaps of one distribution with this coefficient of variation at this rate.

    A share s of the stream has gaps with CV^2 = 1 + s (CV^2 - 1), exactly; they are drawn from
    the same family. More than the whole rate is the same process, faster.
    """

    rate_rps: float
    cv: float
    family: Literal["gamma", "weibull"]


@dataclass(frozen=True, slots=True)
class BurstArrivals:
    """Poisson arrivals whose rate switches: a Markov-modulated Poisson process of two states.

    Bursts and the quiet between them last exponential times. Another rate means more or fewer
    requests in the same bursts.
    """

    rate_rps: float
    """Mean over bursts and quiet."""
    burst_s: float
    quiet_s: float
    quiet_level: float
    """Rate between bursts as a share of the mean rate, below 1."""
    sources: int = 1
    """Independent such processes that make the rate together, each with its own bursts."""

    @property
    def burst_level(self) -> float:
        """Rate in a burst as a multiple of the mean rate."""
        share = self.burst_s / (self.burst_s + self.quiet_s)
        return (1 - (1 - share) * self.quiet_level) / share


@dataclass(frozen=True, slots=True)
class ReplayArrivals:
    """The requests of a trace at their own times, over and over.

    A lower rate than the trace's is made by thinning at random; a higher one by laying copies
    of the trace over each other, each shifted in time by a random amount, and thinning the last.
    ``squeeze`` divides the times instead.
    """

    rate_rps: float
    time_s: NDArray[np.float64]
    """Ascending from 0, shape ``(m,)``."""
    span_s: float
    """After this time the trace begins anew; above the last arrival."""
    lengths: tuple[NDArray[np.int32], NDArray[np.int32]] | None
    """Prompt and output tokens of each request, ``(m,)`` each; None: drawn from a length law."""
    squeeze: bool = False
    prefix: PrefixBlocks | None = None
    """Names of the prompts' blocks, where the trace tells them and gives the lengths."""

    @property
    def trace_rps(self) -> float:
        """The trace's own mean rate."""
        return self.time_s.size / self.span_s


@dataclass(frozen=True, slots=True)
class SessionArrivals:
    """Sessions that begin as a Poisson process; their turns follow at lognormal distances."""

    rate_rps: float
    """Of all turns together."""
    between_s: float
    """Mean time from one turn's arrival to the next's."""
    between_cv: float
    lengths: SessionLengths


@dataclass(frozen=True, slots=True)
class UserArrivals:
    """Users who each wait for an answer, think, and ask again.

    Load is counted in users. So that it can stand beside that of other workloads, a user counts
    as ``user_rps``: the rate at which one asks whose every answer takes all the time that its
    deadlines allow. Answers that are faster make users ask more often than that.
    """

    rate_rps: float
    """Users times ``user_rps``."""
    user_rps: float
    think_s: float
    """Mean."""
    think_cv: float
    """Of the times, which are gamma."""

    @property
    def users(self) -> float:
        """How many there are; whole where the load came by :func:`at_rate`."""
        return self.rate_rps / self.user_rps

    def pace(self, response_s: float) -> float:
        """Return how often users ask as a multiple of ``user_rps``, by Little's law.

        Args:
            response_s: Mean time from a request to the last token of its answer.
        """
        return 1 / (self.user_rps * (self.think_s + response_s))


def at_rate(law: ArrivalLaw, rate_rps: float) -> ArrivalLaw:
    """Return a law at another mean rate; users who wait stay whole, a part of one being one."""
    if isinstance(law, UserArrivals):
        rate_rps = math.ceil(rate_rps / law.user_rps - 1e-9) * law.user_rps
    return replace(law, rate_rps=rate_rps)


ArrivalLaw = (
    PoissonArrivals
    | RenewalArrivals
    | BurstArrivals
    | ReplayArrivals
    | SessionArrivals
    | UserArrivals
)
