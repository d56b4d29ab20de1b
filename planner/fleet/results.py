"""What becomes of each workload: in all, by period, and in scenarios of the demand."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from planner.fleet.figures import Count, Interval, Quantiles, Verdict
from planner.fleet.pools import PrefixHits, RoutingShare
from planner.spec import Spec


class Misses(Spec):
    """Missed deadlines by cause, as shares of the offered requests; they sum to all misses.

    A request that is late is charged to the parts of its time whose removal would bring it
    within its deadlines (Shapley shares); to its own prefill or decode if even alone it is late.
    """

    queue: float
    prefill: float
    prefill_interference: float
    kv_block_wait: float
    kv_transfer: float
    handoff: float
    decode_solo: float
    decode_batch: float
    decode_interference: float
    preemption: float
    admission: float
    failed: float


class WaitingUsers(Spec):
    """Users who wait for each answer before they ask again.

    Theirs is the offered rate: users / (thinking + answering).
    """

    users: Count
    think_s: float
    """Mean time from an answer to the next request."""
    response_s: float
    """Mean time from a request to the last token of its answer, simulated."""
    user_rps: float
    """What the loads of pools count a user as."""


class WorkloadResult(Spec):
    """What one workload gets of the fleet."""

    id: str
    offered_rps: float
    goodput_rps: float
    attainment: Interval
    promise: float
    """The attainment that the scenario asks for."""
    value: float = 1.0
    """Worth of a compliant request in the goodput objectives."""
    verdict: Verdict
    """On the promise; where that counts over time, on ``attainment_over_time``."""
    attainment_over: Literal["period", "worst_hour"] | None = None
    """Over what the promise counts; None: at the load planned for, as ``attainment`` says it."""
    attainment_over_time: Interval | None = None
    """Of all requests of all periods, or of the period in which it is least."""
    ttft_s: Quantiles
    """With the round trip to the users (``network_s``)."""
    network_s: float = 0.0
    """Round trip between users and the farthest region with nodes: the fleet must meet the
    deadlines of TTFT and end to end less this time."""
    tpot_s: Quantiles
    max_itl_s: Quantiles | None = None
    """Longest time between two tokens of a request; where that has a deadline."""
    kv_transfer_s: Quantiles | None = None
    """What the KV was on its way to the decode side, waiting for the link included, of requests
    that groups served: all of it is part of their TTFT."""
    misses: Misses | None
    """None where nothing was simulated."""
    routing: tuple[RoutingShare, ...]
    users: WaitingUsers | None = None
    """Where the workload is that of users who wait; routing shares are then of users."""
    prefix_hits: PrefixHits | None = None
    """In the whole fleet; None where nothing is known of its prefixes or no pool keeps any."""


class PeriodWorkload(Spec):
    """What one workload gets of the fixed fleet in one period."""

    id: str
    offered_rps: float
    goodput_rps: float
    attainment: Interval
    promise: float
    verdict: Verdict


class PeriodResult(Spec):
    """A span of like load, and the fleet in it."""

    id: str
    share: float
    """Of all time."""
    workloads: tuple[PeriodWorkload, ...]
    units: dict[str, Count] = Field(default_factory=dict)
    """Replicas by pool, and groups by the name of the group, where the fleet adapts; empty where it
    is the same always."""


class DeferredPeriod(Spec):
    """A period in which deferred work is done."""

    id: str
    served_rps: float
    """Mean over the period."""
    busiest_rps: float
    """In the window of the period in which most is done; simulated at this rate."""
    units: dict[str, Count]
    """Lent to it for the whole period, by pool."""
    attainment: Interval
    """From the time at which the planner lets a request go."""
    verdict: Verdict


class DeferredResult(Spec):
    """Work that may wait: when it is done, and by which units."""

    id: str
    window_s: float
    """Within which each request is done."""
    offered_rps: float
    """Mean over all time."""
    served_rps: float
    """The same of what is done."""
    most_waiting: float
    """Requests, at the worst end of a window of time."""
    promise: float
    periods: tuple[DeferredPeriod, ...]


class ScenarioResult(Spec):
    """The fleet in one scenario of the demand."""

    id: str
    weight: float
    """All weights sum to 1."""
    planned_for: bool
    """Whether the demand that was planned for covers it."""
    multiples: dict[str, float]
    """Demand by workload, as a multiple of what the scenario's arrivals say."""
    attainment: dict[str, Interval]
    verdicts: dict[str, Verdict]
