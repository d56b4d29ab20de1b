"""Pools of a plan, and the curves that they rest on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from planner.fleet.figures import Count, Interval, Quantiles, Whole
from planner.spec import Spec

Units = Annotated[int, Field(ge=1, le=1_000_000_000_000)]
"""Replicas or groups: whole numbers that a float tells apart."""


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


class SpeculationNote(Spec):
    """How a pool's replicas draft and verify tokens, as the scenario states it."""

    method: str
    draft_tokens: Count
    acceptance: float | None
    """Of a drafted token after those before it; null where tokens per step were stated."""
    tokens_per_step: float
    """Mean tokens of a sequence in a verification; latencies take it for certain."""
    draft_cost: float
    """Time to draft a token, as a share of a decode step."""
    draft_memory_bytes: float
    """Of each device."""
    draft_kv: float
    """The draft's KV cache of a token, as a share of the model's."""
    added_ttft_s: float
    """In every TTFT: waiting for, and prefilling in, whole verifications."""
    token_time_ratio: dict[str, float]
    """By the number of sequences that decode: time of a token over that without drafts, without
    context. Above 1, drafts cost more than they bring."""


class AdaptersNote(Spec):
    """Low-rank adapters that every replica of a pool keeps."""

    workloads: tuple[str, ...]
    """Whose they are."""
    count: Count
    rank: Count
    """The largest."""
    overhead: float
    """Share by which every step takes longer, as the scenario states it."""
    bytes_per_device: float


class PrefixHits(Spec):
    """What of a workload's prompts is found in prefix caches."""

    workload: str
    hit_rate: float
    """Of the prompt tokens, those whose KV a replica held when the request was first admitted."""
    source: Literal["simulated", "assumed constant"]
    """Whether it follows from router, cache size and traffic, or was given."""


class PoolPlace(Spec):
    """Replicas of a pool in one domain."""

    domain: str
    """The ``id`` of the nodes."""
    replicas: Units


class GroupWay(Spec):
    """Between which nodes of a topology groups stand whose sides lie apart."""

    prefill: str
    """Domain of the prefill replicas."""
    decode: str
    """Domain of the decode replicas."""
    groups: Units
    share: float
    """Of the pool's load that comes to these groups."""
    links: tuple[str, ...]
    """That their KV goes over, by the names under which ``limits`` has them."""


class GroupLink(Spec):
    """What carries KV from the prefill to the decode replicas of each group."""

    transport: str
    bandwidth_bytes_per_s: float
    latency_s: float
    sharing: Literal["fifo", "fair"]
    hand_off_s: float
    """From the end of prefill to the queue of the decode side."""
    kv_bytes_per_token: float
    """That cross the link for a token of a prompt, to all ranks of a decode replica."""
    busy_share: float
    """Share of time in which KV was on its way, simulated."""
    kv_transfer_idle_s: Quantiles | None = None
    """What the KV of its requests takes on a link without other traffic."""
    kv_transfer_s: Quantiles | None = None
    """What it took under load, waiting for the link included; of the first draws of the
    verification."""
    ways: tuple[GroupWay, ...] = ()
    """Where groups stand, where the topology says what links their sides."""


class Pool(Spec):
    """All replicas of one template; of a template of groups, those of one side."""

    id: str
    model: str
    role: Literal["colocated", "prefill", "decode"]
    group: str | None
    accelerator: str
    tp_degree: Whole
    pp_degree: Whole
    ep_degree: Whole
    dp_degree: Whole
    replicas: Units
    domain: str | None
    """The nodes in which all of them stand; null where they stand in several or in none."""
    link_class: str | None
    precision: str
    kv_dtype: str
    engine: str
    max_model_len: Whole
    """Longest request, prompt and output, that the workloads send here."""
    memory_utilisation: float
    block_size: Whole
    prefix_caching: bool
    """Whether replicas keep prefixes that requests of its workloads could find."""
    chunked_prefill: bool
    max_num_seqs: Whole
    max_num_batched_tokens: Whole
    scheduling_policy: str
    admission_limit_rps: float | None
    router: str
    kv_tokens: Count
    """KV cache of one replica, in tokens."""
    offered_rps: float
    """Load of the whole pool; users who wait count as their workload's ``user_rps``."""
    capacity_rps: Interval
    """Largest load of one replica, in a pool of about this size, that keeps every promise."""
    busy_share: float | None
    """Share of time in which a replica executes a step."""
    mfu: float | None
    curve: CurveNote
    speculative_decoding: SpeculationNote | None = None
    """Null: none, replicas decode token by token."""
    adapters: AdaptersNote | None = None
    """Null: none."""
    places: tuple[PoolPlace, ...] = ()
    """Where its replicas stand, where nodes are bought whole; one router serves them all."""
    prefix_hits: tuple[PrefixHits, ...] = ()
    """By workload of whose prefixes something is known."""
    prefix_block_tokens: Whole | None = None
    """Tokens of the blocks in which prefixes were kept in the simulation."""
    groups: Units | None = None
    """Over how many groups the replicas of a side are spread evenly; ``capacity_rps`` is then that
    of a group."""
    link: GroupLink | None = None
    """Of a decode pool: how KV comes to it."""


class RoutingShare(Spec):
    """How much of a workload a pool serves."""

    pool: str
    share: float
