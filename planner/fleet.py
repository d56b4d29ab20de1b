"""The answer: what to run, what it costs, what it promises, and how good the proof is.

``plan.json`` is this document; minor versions of ``format_version`` only add fields.
Numbers carry their unit in the name: s, rps (requests per second), USD per hour, W.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from planner.errors import InputError
from planner.source import read_text, whole
from planner.spec import Spec

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES: Final = 256 * 2**20
"""Longest plan that is read."""

Status = Literal["optimal", "feasible", "infeasible", "unknown"]
Verdict = Literal["kept", "broken", "undecided"]


class Interval(Spec):
    """An estimate with its 95 % confidence interval."""

    value: float
    low: float
    high: float


class Quantiles(Spec):
    """Quantiles over requests, in seconds."""

    p50: float
    p90: float
    p95: float
    p99: float


class EffectiveScenario(Spec):
    """The question as it was answered."""

    document: dict[str, Any]
    """The scenario with its defaults filled in; reads back as a scenario."""
    origins: dict[str, Literal["file", "set", "default"]]
    """Where each value came from, by dotted path."""


class ObjectiveValue(Spec):
    """What was optimised, how well it came out, and what cannot be beaten."""

    name: str
    value: float | None
    bound: float | None
    """No fleet of the candidate set does better than this, by the points of the program."""
    gap: float | None
    """Relative distance of value and bound."""


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
    accelerators: int
    nodes: int | None
    power_w: float | None
    """Board power of the accelerators at full load; no host, network or cooling."""
    mfu: float | None


class CurveNote(Spec):
    """Where a pool's step times come from, and how wrong they may be."""

    id: str
    source: str
    extrapolated: bool
    relative_error: float | None
    """Mean relative error of the law: on its own step tables, or of TPOT on benchmark runs that
    were held out of its fit."""
    caveat: str = ""
    """What the error does not cover."""
    measured_in: str | None = None
    """The file of your own measurements that it was fitted to, if it was."""
    replaces: str | None = None
    """The catalogue's curve of the same configuration, whose place it takes."""
    path_s: float = 0.0
    """From client to engine and back, without load; counted in every TTFT."""


class PrefixHits(Spec):
    """What of a workload's prompts is found in prefix caches."""

    workload: str
    hit_rate: float
    """Of the prompt tokens, those whose KV a replica held when the request was first admitted."""
    source: Literal["simulated", "assumed constant"]
    """Whether it follows from router, cache size and traffic, or was given."""


class Pool(Spec):
    """All replicas of one template."""

    id: str
    model: str
    role: Literal["colocated", "prefill", "decode"]
    group: str | None
    accelerator: str
    tp_degree: int
    pp_degree: int
    ep_degree: int
    dp_degree: int
    replicas: Annotated[int, Field(ge=1)]
    domain: str | None
    link_class: str | None
    precision: str
    kv_dtype: str
    engine: str
    max_model_len: int
    """Longest request, prompt and output, that the workloads send here."""
    memory_utilisation: float
    block_size: int
    prefix_caching: bool
    """Whether replicas keep prefixes that requests of its workloads could find."""
    chunked_prefill: bool
    max_num_seqs: int
    max_num_batched_tokens: int
    scheduling_policy: str
    admission_limit_rps: float | None
    router: str
    kv_tokens: int
    """KV cache of one replica, in tokens."""
    offered_rps: float
    """Load of the whole pool; users who wait count as their workload's ``user_rps``."""
    capacity_rps: Interval
    """Largest load of one replica, in a pool of about this size, that keeps every promise."""
    busy_share: float | None
    """Share of time in which a replica executes a step."""
    mfu: float | None
    curve: CurveNote
    prefix_hits: tuple[PrefixHits, ...] = ()
    """By workload of whose prefixes something is known."""
    prefix_block_tokens: int | None = None
    """Tokens of the blocks in which prefixes were kept in the simulation."""


class RoutingShare(Spec):
    """How much of a workload a pool serves."""

    pool: str
    share: float


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

    users: int
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
    tpot_s: Quantiles
    max_itl_s: Quantiles | None = None
    """Longest time between two tokens of a request; where that has a deadline."""
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
    """A span of like load, and the fixed fleet in it."""

    id: str
    share: float
    """Of all time."""
    workloads: tuple[PeriodWorkload, ...]


class DeferredPeriod(Spec):
    """A period in which deferred work is done."""

    id: str
    served_rps: float
    """Mean over the period."""
    busiest_rps: float
    """In the window of the period in which most is done; simulated at this rate."""
    units: dict[str, int]
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


class SupplyLine(Spec):
    """Accelerators to rent or use."""

    accelerator: str
    domain: str | None
    term: str
    count: int
    usd_per_hour: float
    """Of all of them."""
    price_source: str


class BillLine(Spec):
    """One cost; the lines sum to the total."""

    item: str
    usd_per_hour: float


class SplitPart(Spec):
    """Short or long prompts of a workload."""

    id: str
    """Appears in the ids of the pools that serve it."""
    share: float
    """Of the workload's requests."""
    promise: float
    """Attainment that the search promised to this part so that the whole keeps its own."""


class SplitByLength(Spec):
    """A workload whose long prompts are routed to pools of their own."""

    workload: str
    up_to: int
    """Longest prompt, in tokens, that goes to the pools of the first part."""
    parts: tuple[SplitPart, ...]
    """Short prompts, then long ones."""


class Decision(Spec):
    """A question that the plan answers, and why so."""

    question: str
    answer: str
    because: str
    numbers: dict[str, float]


class Rejected(Spec):
    """A template that is not in the plan, and why."""

    template: str
    reason: str
    numbers: dict[str, float]


class LimitUse(Spec):
    """How much of a limit the plan uses, and what one more would be worth."""

    name: str
    used: float
    limit: float | None
    shadow_price_usd_per_hour: float | None


class OneLess(Spec):
    """The plan with one unit less of a pool."""

    pool: str
    attainment: dict[str, Interval]
    """By workload."""
    verdict: Verdict


class DemandPoint(Spec):
    """Attainment of the fixed fleet at a multiple of the demand."""

    multiple: float
    attainment: dict[str, Interval]


class ArrivalPoint(Spec):
    """Attainment of the fixed fleet if the same mean load came otherwise."""

    arrivals: str
    """Such as ``poisson``, or ``gamma, CV 3``."""
    attainment: dict[str, Interval]
    ttft_p99_s: dict[str, float]
    accelerators: int | None = None
    """Fewest that keep every promise under these arrivals, with the pools of the plan."""


class WithoutPrefixCache(Spec):
    """The plan at a hit rate of 0: every prompt computed whole."""

    attainment: dict[str, Interval]
    """Of the same fleet, by workload."""
    unstable: bool
    """The same fleet's backlog then grows without end; its attainment is what the span gave."""
    usd_per_hour: float | None
    """Of the fleet that would be planned; None if none was found."""
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
    seeds: tuple[int, ...]
    requests: int
    """Simulated for this plan, all runs together."""
    one_less: tuple[OneLess, ...]
    demand_sweep: tuple[DemandPoint, ...]
    arrival_sweep: tuple[ArrivalPoint, ...] = ()
    """The fleet under evener and burstier arrivals at the same mean rate."""
    promise_kept_in: float | None = None
    """P(promise kept): weight of the scenarios of the demand in which every promise is kept; null
    where there are none."""
    without_prefix_cache: WithoutPrefixCache | None = None
    """Where a pool keeps prefixes."""
    candidates: int
    proof_covers: str
    notes: tuple[str, ...] = ()


class TableUnits(Spec):
    """Units of one template of a capacity table."""

    template: str
    accelerator: str
    devices: int
    """Accelerators in one unit."""
    units: Annotated[int, Field(ge=1)]
    busy_units: float
    """How many of them the load takes: the sum of rate / capacity over buckets."""
    usd_per_hour: float
    """Of all of them, busy or idle."""


class TableShare(Spec):
    """How much of a bucket a template serves."""

    template: str
    accelerator: str
    share: float
    """Of the bucket's requests."""
    rate_rps: float
    capacity_rps: float
    """Of one unit that serves nothing else, as the table has it."""
    busy_units: float
    """rate / capacity."""


class TableBucket(Spec):
    """What becomes of the requests of one size."""

    id: str
    input_tokens: float | None
    output_tokens: float | None
    offered_rps: float
    served_rps: float
    routing: tuple[TableShare, ...]


class TableFleet(Spec):
    """A fleet by measured capacities: loads add, whole units are paid, nothing is simulated."""

    provenance: Literal["measured capacity table; not simulated"]
    source: str
    """The file or scenario that holds the table."""
    units: tuple[TableUnits, ...]
    buckets: tuple[TableBucket, ...]


class Infeasibility(Spec):
    """A limit or deadline that stands in the way.

    Read as ``limit: has ..., needs ...: fastest_reachable``, then the remedy.
    """

    limit: str
    has: str
    """A noun: what there is."""
    needs: str
    """A noun: what there would have to be."""
    fastest_reachable: str
    """The physical reason or another, where there is one."""
    remedy: str
    """What would mend it, alone."""


class FleetPlan(Spec):
    """One fleet, with everything that is known of it."""

    format_version: Literal["1.0"] = "1.0"
    planner_version: str
    seed: int
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
    demand_scenarios: tuple[ScenarioResult, ...] = ()
    """The fleet in every scenario of the demand."""
    deferred: tuple[DeferredResult, ...] = ()
    """Work that waits for periods in which units are free; of all totals only in the bill."""
    placement: tuple[dict[str, Any], ...] = ()
    supply: tuple[SupplyLine, ...]
    bill: tuple[BillLine, ...]
    decisions: tuple[Decision, ...]
    splits: tuple[SplitByLength, ...] = ()
    """Routing by prompt length; its promise stays that of the whole workload."""
    rejected: tuple[Rejected, ...]
    limits: tuple[LimitUse, ...]
    evidence: Evidence
    infeasibility: tuple[Infeasibility, ...] = ()
    capacity_table: TableFleet | None = None
    """The fleet where capacities were measured per request size; then there are no pools."""


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is no number")


def read_plan(path: Path) -> FleetPlan:
    """Read ``plan.json``.

    Raises:
        InputError: The file cannot be read, is no JSON, or is no plan.
    """
    text = read_text(path, MAX_BYTES)
    try:
        data = json.loads(text, parse_constant=_refuse_constant, parse_int=whole)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON: {error}") from error
    try:
        return FleetPlan.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "document"
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise InputError(f"{path}: {where}: {first['msg']}{more}; is this a plan?") from error
