"""The whole plan."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from planner.fleet.alternatives import Alternatives, Change
from planner.fleet.bill import BillLine, SupplyLine
from planner.fleet.evidence import Evidence
from planner.fleet.figures import Count, Seed, Status
from planner.fleet.placement import PlacedReplica, require_places
from planner.fleet.pools import Pool
from planner.fleet.reasons import (
    Decision,
    Infeasibility,
    LimitUse,
    Rejected,
    Relaxation,
    SplitByLength,
)
from planner.fleet.results import DeferredResult, PeriodResult, ScenarioResult, WorkloadResult
from planner.fleet.settings import Settings
from planner.fleet.tables import TableFleet
from planner.spec import Spec
from planner.topology import Topology


class EffectiveScenario(Spec):
    """The question as it was answered."""

    document: dict[str, Any]
    """The scenario with its defaults filled in; reads back as a scenario."""
    origins: dict[str, Literal["file", "set", "default"]]
    """Where each value came from, by dotted path."""


class SearchStep(Spec):
    """One solve on the way to the best fleet, by the program's operating points."""

    theta: float
    """What was asked of a dollar, in compliant requests per dollar; 0 at the first solve, and for
    other objectives than their ratio."""
    goodput_rps: float
    """Weighted by value, of the fleet that was found."""
    cost_usd_per_hour: float
    bound: float | None
    """Best bound of the objective after this step."""


class ObjectiveValue(Spec):
    """What was optimised, how well it came out, and what cannot be beaten."""

    name: str
    value: float | None
    bound: float | None
    """No fleet of the candidate set does better than this, by the points of the program."""
    gap: float | None
    """Relative distance of value and bound."""
    steps: tuple[SearchStep, ...] = ()
    """The solves of the program that led to the plan, in their order."""


class Totals(Spec):
    """The fleet as a whole."""

    offered_rps: float
    goodput_rps: float
    """Compliant requests per second, simulated on the whole fleet."""
    weighted_goodput_rps: float | None = None
    """The same, each workload's weighted by its value: what the goodput objectives count."""
    attainment: float
    cost_usd_per_hour: float
    usd_per_thousand_compliant: float | None
    compliant_requests_per_usd: float | None
    accelerators: Count
    nodes: Count | None
    power_w: float | None
    """Board power of the accelerators at full load; no host, network or cooling."""
    mfu: float | None


class FleetPlan(Spec):
    """One fleet, with everything that is known of it."""

    format_version: Literal["1.0"] = "1.0"
    planner_version: str
    seed: Seed
    created: str | None
    """When, as told by the caller; never read from a clock."""
    scenario: EffectiveScenario
    status: Status
    objective: ObjectiveValue
    totals: Totals | None
    pools: tuple[Pool, ...]
    workloads: tuple[WorkloadResult, ...]
    periods: tuple[PeriodResult, ...] = ()
    planned_multiples: dict[str, float] = Field(default_factory=dict)
    """What the demand of each workload was multiplied by to plan for scenarios of it."""
    planned_deviations: float = Field(0.0, ge=-5, le=5)
    """Standard deviations by which step times were planned to be above their curves."""
    demand_scenarios: tuple[ScenarioResult, ...] = ()
    """The fleet in every scenario of the demand."""
    deferred: tuple[DeferredResult, ...] = ()
    """Work that waits for periods in which units are free; of all totals only in the bill."""
    placement: tuple[PlacedReplica, ...] = ()
    """Which devices run every replica, where the scenario has a topology."""
    topology: Topology | None = None
    """The nodes, by their places, and the links between them."""
    supply: tuple[SupplyLine, ...]
    bill: tuple[BillLine, ...]
    decisions: tuple[Decision, ...]
    splits: tuple[SplitByLength, ...] = ()
    """Routing by prompt length; its promise stays that of the whole workload."""
    rejected: tuple[Rejected, ...]
    limits: tuple[LimitUse, ...]
    alternatives: Alternatives | None = None
    """Fleets next to this one, and the prices at which they take its place."""
    evidence: Evidence
    settings: Settings | None = None
    """What scheduler settings are worth, where replicas were simulated."""
    changes: tuple[Change, ...] = ()
    """What of the current plan changes, where one was given: pools that differ."""
    infeasibility: tuple[Infeasibility, ...] = ()
    relaxations: tuple[Relaxation, ...] = ()
    """Where there is no fleet: what would make one possible, each change alone."""
    capacity_table: TableFleet | None = None
    """The fleet where capacities were measured per request size; then there are no pools."""

    @model_validator(mode="after")
    def _stands_on_its_nodes(self) -> FleetPlan:
        require_places(self.placement, self.topology, {pool.id for pool in self.pools})
        return self
