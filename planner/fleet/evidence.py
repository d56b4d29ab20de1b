"""What a plan was tried by."""

from __future__ import annotations

from planner.fleet.chances import PromiseKept, RobustResult, StressResult
from planner.fleet.figures import Count, Interval, Seed, Verdict
from planner.spec import Spec


class OneLess(Spec):
    """The plan with one unit less of a pool."""

    pool: str
    attainment: dict[str, Interval]
    """By workload; empty where some workload would then be served by nobody."""
    verdict: Verdict
    unstable: bool = False
    """A backlog grows without end; attainment is what the simulated span gave."""


class FailureResult(Spec):
    """What is left of the plan after a failure, its traffic routed anew."""

    lost: str
    """The racks, zones or regions that are lost, joined by ``:``; or ``node.`` and where."""
    units_lost: dict[str, Count]
    """Replicas by pool."""
    turned_away: dict[str, float]
    """Share of each workload's requests that is turned away; those without are left out."""
    attainment: dict[str, Interval]
    """By workload, of all requests: those that are turned away miss. Empty where nothing is left
    that serves a workload."""
    floor: dict[str, float]
    """What it must be at least."""
    verdict: Verdict


class DemandPoint(Spec):
    """Attainment of the fixed fleet at a multiple of the demand."""

    multiple: float
    attainment: dict[str, Interval]


class BreakPoint(Spec):
    """How much of the demand a workload's promise bears, all workloads growing alike."""

    workload: str
    kept_at: float | None
    """Highest multiple of the demand at which the promise was seen kept, by the mean of the runs;
    null where it is not kept at the least that was tried, a quarter."""
    broken_at: float | None
    """A hundredth above it, where it was seen broken; null where three times the demand is
    borne."""
    attainment: Interval | None = None
    """There."""
    cause: str | None = None
    """What most of the misses there are charged to; as in ``misses`` of a workload."""


class ArrivalPoint(Spec):
    """Attainment of the fixed fleet if the same mean load came otherwise."""

    arrivals: str
    """Such as ``poisson``, or ``gamma, CV 3``."""
    attainment: dict[str, Interval]
    ttft_p99_s: dict[str, float]
    accelerators: Count | None = None
    """Fewest that keep every promise under these arrivals, with the pools of the plan."""


class LengthPoint(Spec):
    """Attainment of the fixed fleet if all prompts, or all outputs, were longer or shorter."""

    prompt_multiple: float
    output_multiple: float
    attainment: dict[str, Interval]
    unstable: bool
    """A backlog grows without end; attainment is what the simulated span gave."""
    goodput_lost: float | None = None
    """Share of the compliant goodput that the fleet loses against the lengths planned for;
    negative where it gains."""
    goodput_lost_together: float | None = None
    """The same of the cheapest fleet whose replicas do both: what is lost without a ratio that is
    off. Null where there is none."""


class WithoutPrefixCache(Spec):
    """The plan at a hit rate of 0: every prompt computed whole."""

    attainment: dict[str, Interval]
    """Of the same fleet, by workload."""
    unstable: bool
    """The same fleet's backlog then grows without end; its attainment is what the span gave."""
    usd_per_hour: float | None
    """Of the fleet that would be planned, without units for work that waits; None if none was
    found."""
    goodput_rps: float | None
    pools: tuple[str, ...]
    """Of that fleet, such as ``12 x TEMPLATE``."""
    reason: str | None
    """Why none was found."""


class Evidence(Spec):
    """What the plan rests on."""

    verified: bool
    """Every promise was kept in a simulation of the whole fleet."""
    unproven: str = ""
    """Why this fleet is not proven best; empty where it is, or where there is none."""
    seeds: tuple[Seed, ...]
    requests: Count
    """Simulated for this plan, all runs together."""
    one_less: tuple[OneLess, ...]
    demand_sweep: tuple[DemandPoint, ...]
    breaks_at: tuple[BreakPoint, ...] = ()
    """Where growing demand breaks each promise; empty where the time did not allow to look."""
    promise_kept: PromiseKept | None = None
    """How sure the promises are if curves and demand are not exact; null where the time did not
    allow to look."""
    robust: RobustResult | None = None
    """Where a scenario asks for promises that are kept in most cases (``uncertainty.robust``)."""
    stress: tuple[StressResult, ...] = ()
    """The fleet under the presets that a scenario names (``uncertainty.stress``)."""
    arrival_sweep: tuple[ArrivalPoint, ...] = ()
    """The fleet under evener and burstier arrivals at the same mean rate."""
    length_sweep: tuple[LengthPoint, ...] = ()
    """The fleet under other lengths, where a pool has groups whose ratio is then off."""
    promise_kept_in: float | None = None
    """P(promise kept): weight of the scenarios of the demand in which every promise is kept; null
    where there are none."""
    without_prefix_cache: WithoutPrefixCache | None = None
    """Where a pool keeps prefixes."""
    failures: tuple[FailureResult, ...] = ()
    """Failures that the fleet must survive, those that leave the least first; such as lose no
    more of any pool than another are left out."""
    candidates: Count
    proof_covers: str
    notes: tuple[str, ...] = ()
