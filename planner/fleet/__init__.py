"""The answer: what to run, what it costs, what it promises, and how good the proof is.

``plan.json`` is this document; minor versions of ``format_version`` only add fields.
Numbers carry their unit in the name: s, rps (requests per second), USD per hour, W.
"""

from planner.fleet.alternatives import Alternatives, Change, PriceRange, RunnerUp
from planner.fleet.bill import BillLine, SupplyLine
from planner.fleet.chances import (
    BearsPoint,
    KeptChance,
    OtherFleet,
    PromiseKept,
    RobustResult,
    StressResult,
)
from planner.fleet.evidence import (
    ArrivalPoint,
    BreakPoint,
    DemandPoint,
    Evidence,
    FailureResult,
    LengthPoint,
    OneLess,
    WithoutPrefixCache,
)
from planner.fleet.figures import Interval, Quantiles, Status, Verdict
from planner.fleet.placement import PlacedReplica
from planner.fleet.plan import (
    EffectiveScenario,
    FleetPlan,
    ObjectiveValue,
    SearchStep,
    Totals,
)
from planner.fleet.pools import (
    AdaptersNote,
    CurveNote,
    GroupLink,
    GroupWay,
    Pool,
    PoolPlace,
    PrefixHits,
    RoutingShare,
    SpeculationNote,
)
from planner.fleet.reading import read_plan
from planner.fleet.reasons import (
    TOGETHER,
    Decision,
    Infeasibility,
    LimitUse,
    Rejected,
    Relaxation,
    SplitByLength,
    SplitPart,
)
from planner.fleet.results import (
    DeferredPeriod,
    DeferredResult,
    Misses,
    PeriodResult,
    PeriodWorkload,
    ScenarioResult,
    WaitingUsers,
    WorkloadResult,
)
from planner.fleet.settings import BusyPoint, PoolSettings, SettingEffect, Settings
from planner.fleet.tables import TableBucket, TableFleet, TableShare, TableUnits

__all__ = [
    "TOGETHER",
    "AdaptersNote",
    "Alternatives",
    "ArrivalPoint",
    "BearsPoint",
    "BillLine",
    "BreakPoint",
    "BusyPoint",
    "Change",
    "CurveNote",
    "Decision",
    "DeferredPeriod",
    "DeferredResult",
    "DemandPoint",
    "EffectiveScenario",
    "Evidence",
    "FailureResult",
    "FleetPlan",
    "GroupLink",
    "GroupWay",
    "Infeasibility",
    "Interval",
    "KeptChance",
    "LengthPoint",
    "LimitUse",
    "Misses",
    "ObjectiveValue",
    "OneLess",
    "OtherFleet",
    "PeriodResult",
    "PeriodWorkload",
    "PlacedReplica",
    "Pool",
    "PoolPlace",
    "PoolSettings",
    "PrefixHits",
    "PriceRange",
    "PromiseKept",
    "Quantiles",
    "Rejected",
    "Relaxation",
    "RobustResult",
    "RoutingShare",
    "RunnerUp",
    "ScenarioResult",
    "SearchStep",
    "SettingEffect",
    "Settings",
    "SpeculationNote",
    "SplitByLength",
    "SplitPart",
    "Status",
    "StressResult",
    "SupplyLine",
    "TableBucket",
    "TableFleet",
    "TableShare",
    "TableUnits",
    "Totals",
    "Verdict",
    "WaitingUsers",
    "WithoutPrefixCache",
    "WorkloadResult",
    "read_plan",
]
