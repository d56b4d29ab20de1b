"""The document classes of engine cases: what a case file may say."""

from __future__ import annotations

import itertools
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, model_validator

from planner.kernels.stepwise import (
    Colocated,
    Disaggregated,
    EngineOptions,
    LinkOptions,
    RouterOptions,
    StepLaw,
    affine,
)
from planner.spec import Spec

MAX_REQUESTS: Final = 100_000
MAX_ENGINES: Final = 256
MAX_TOKENS: Final = 2_000_000
"""Prompt tokens, and output tokens, of one request."""

Count = Annotated[int, Field(strict=True, ge=1, le=10**9)]
Length = Annotated[int, Field(strict=True, ge=1, le=MAX_TOKENS)]
Whole = Annotated[int, Field(strict=True, ge=0, le=10**9)]
Ticks = Annotated[int, Field(strict=True, ge=0, le=2**62)]
Coefficient = Ticks
"""Of a step law: no work takes time away."""
Replicas = Annotated[int, Field(strict=True, ge=1, le=MAX_ENGINES)]
Word = Annotated[str, Field(max_length=256)]
Name = Annotated[int, Field(strict=True, ge=-(2**62), le=2**62)] | Word
Flag = Annotated[bool, Field(strict=True)]

RouterName = Literal[
    "round_robin", "least_outstanding", "least_kv", "prefix_affinity", "by_length", "by_class"
]
_ROUTER_WORDS: Final = {
    "rr": "round_robin",
    "jsq": "least_outstanding",
    "join_shortest_queue": "least_outstanding",
    "shortest_queue": "least_outstanding",
    "least_requests": "least_outstanding",
    "least_loaded": "least_outstanding",
    "least_load": "least_outstanding",
    "least_connections": "least_outstanding",
    "least_outstanding_requests": "least_outstanding",
    "least_kv_blocks": "least_kv",
    "least_kv_usage": "least_kv",
    "prefix_aware": "prefix_affinity",
    "cache_aware": "prefix_affinity",
    "length": "by_length",
    "slo_class": "by_class",
    "by_slo_class": "by_class",
}
_LINK_WORDS: Final = {
    "ps": "fair",
    "processor_sharing": "fair",
    "fair_share": "fair",
    "shared": "fair",
}


_ENGINE_WORDS: Final = {
    "scheduler_reserve_full_isl": "reserve_full_isl",
    "enable_prefix_caching": "prefix_caching",
    "scheduling_policy": "policy",
}


def _router_word(value: object) -> object:
    return _ROUTER_WORDS.get(value, value) if isinstance(value, str) else value


def _link_word(value: object) -> object:
    return _LINK_WORDS.get(value, value) if isinstance(value, str) else value


Router = Annotated[RouterName, BeforeValidator(_router_word)]
Sharing = Annotated[Literal["fifo", "fair"], BeforeValidator(_link_word)]


class LawSpec(Spec):
    """A step law: ``a + b T + c N + d K``, or knots of L(n) and the coefficients of design 3."""

    a: Coefficient | None = None
    """Ticks per step."""
    b: Coefficient = 0
    """Ticks per token scheduled."""
    c: Coefficient = 0
    """Ticks per request scheduled."""
    d: Coefficient = 0
    """Ticks per token of context, of decodes and chunks alike."""
    knots: tuple[tuple[Ticks, Coefficient], ...] = Field(default=(), max_length=10_000)
    """Pairs (n, L(n)), n ascending."""
    c_x: Coefficient = 0
    """Per token² of 2X, times 2**shift."""
    c_k: Coefficient = 0
    """Per token of decode context."""
    c_n: Coefficient = 0
    """Per request."""
    c_c: Coefficient = 0
    """Per token of chunk context."""
    shift: Annotated[int, Field(strict=True, ge=0, le=60)] = 0
    """Binary digits after the point of ``c_x``."""

    @model_validator(mode="after")
    def _one_of_both(self) -> LawSpec:
        if (self.a is None) == (not self.knots):
            raise ValueError("give either a, b, c, d or knots with c_x, c_k, c_n, c_c")
        n = [knot[0] for knot in self.knots]
        if any(left >= right for left, right in itertools.pairwise(n)):
            raise ValueError("the n of knots must ascend")
        return self

    def law(self) -> StepLaw:
        """Return the engine's form of the law."""
        if self.a is not None:
            return affine(self.a, self.b, self.c, self.d)
        return StepLaw(self.knots, self.c_x, self.c_k, self.c_n, self.c_c, self.shift)


class EngineSpec(Spec):
    """An engine's options, by their names in vLLM."""

    kind: Literal["v1", "v0", "sarathi"] = "v1"
    max_num_seqs: Count
    max_num_batched_tokens: Count
    block_size: Count = 16
    usable_blocks: Count | None = None
    """KV blocks without the null block; ``null`` is unlimited."""
    num_gpu_blocks: Count | None = None
    """The same with the null block."""
    enable_chunked_prefill: Flag = True
    long_prefill_token_threshold: Whole = 0
    reserve_full_isl: Flag = True
    watermark: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] = 0
    """Below 1: share of all blocks; from 1 on: blocks."""
    watermark_blocks: Whole | None = None
    policy: Literal["fcfs", "priority", "deadline"] = "fcfs"
    prefix_caching: Flag = False
    async_scheduling: Flag = False
    pp_degree: Annotated[int, Field(strict=True, ge=1, le=64)] = 1

    @model_validator(mode="before")
    @classmethod
    def _other_names(cls, data: object) -> object:
        """Take the engine's own flag names for three options, unless both are given."""
        if not isinstance(data, dict):
            return data
        renamed = {key: new for key, new in _ENGINE_WORDS.items() if new not in data}
        return {renamed.get(key, key): value for key, value in data.items()}

    @model_validator(mode="after")
    def _options_go_together(self) -> EngineSpec:
        if self.kind != "v1":
            for option in ("prefix_caching", "async_scheduling"):
                if getattr(self, option):
                    raise ValueError(f"{option} is an option of kind v1, not of {self.kind}")
            if self.pp_degree > 1:
                raise ValueError(f"pp_degree is an option of kind v1, not of {self.kind}")
        if self.usable_blocks is not None and self.num_gpu_blocks is not None:
            raise ValueError("usable_blocks and num_gpu_blocks say the same; keep one")
        if self.num_gpu_blocks == 1:
            raise ValueError("num_gpu_blocks 1 leaves no usable block beside the null block")
        return self

    def options(self) -> EngineOptions:
        """Return the engine's form of the options."""
        usable = self.usable_blocks
        if self.num_gpu_blocks is not None:
            usable = self.num_gpu_blocks - 1
        share = self.watermark * (usable + 1) if usable is not None else 0
        watermark = int(self.watermark if self.watermark >= 1 else share)
        return EngineOptions(
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens,
            kind=self.kind,
            block_size=self.block_size,
            usable_blocks=usable,
            enable_chunked_prefill=self.enable_chunked_prefill,
            long_prefill_token_threshold=self.long_prefill_token_threshold,
            reserve_full_isl=self.reserve_full_isl,
            watermark_blocks=watermark if self.watermark_blocks is None else self.watermark_blocks,
            policy=self.policy,
            prefix_caching=self.prefix_caching,
            async_scheduling=self.async_scheduling,
            pp_degree=self.pp_degree,
        )


class RequestSpec(Spec):
    """One request of the traffic."""

    id: Name
    arrival: Ticks
    prompt: Length
    output: Length
    max_tokens: Length | None = None
    """Declared output limit, at least ``output``; by default equal to it."""
    priority: Annotated[int, Field(strict=True, ge=-(10**9), le=10**9)] = 0
    deadline: Ticks | None = None
    """Time by which the first token is wanted (policy deadline)."""
    prefix: tuple[Name, ...] = Field(default=(), max_length=1_000_000)
    """Names of the leading prompt blocks; equal names, equal contents up to there."""
    group: Whole = 0
    """Class of traffic (router by_class)."""

    @model_validator(mode="after")
    def _limit_is_not_passed(self) -> RequestSpec:
        if self.max_tokens is not None and self.max_tokens < self.output:
            raise ValueError(f"max_tokens {self.max_tokens} is below output {self.output}")
        return self


class LinkSpec(Spec):
    """The link between prefill and decode."""

    ns_per_token: Ticks
    latency: Ticks = 0
    mode: Sharing = "fifo"


class _CaseBase(Spec):
    name: Word = "case"
    description: Annotated[str, Field(max_length=10_000)] = ""
    unit: Word = "ns"
    requests: tuple[RequestSpec, ...] = Field(max_length=MAX_REQUESTS)
    expected: dict[str, Any] | None = None
    emit_steps: Flag = True
    emit_token_times: Flag = True
    notes: Any = None
    source: Any = None
    length_boundaries: tuple[Count, ...] = ()
    """Router by_length: a prompt of at most boundary i goes to group i, longer ones to the last."""
    replica_groups: tuple[tuple[Whole, ...], ...] = ()
    """Routers by_length and by_class: replica indices per band or class."""

    @model_validator(mode="after")
    def _ids_are_unique(self) -> _CaseBase:
        seen: set[int | str] = set()
        for i, request in enumerate(self.requests):
            if request.id in seen:
                raise ValueError(f"requests.{i}.id: {request.id!r} is used twice")
            seen.add(request.id)
        return self

    def _router(self, route: RouterName) -> RouterOptions:
        return RouterOptions(route, self.length_boundaries, self.replica_groups)

    def _check_groups(self, route: RouterName, replicas: int) -> None:
        if route not in ("by_length", "by_class"):
            return
        if not self.replica_groups or not all(self.replica_groups):
            raise ValueError(f"router {route} needs replica_groups, none of them empty")
        if any(index >= replicas for group in self.replica_groups for index in group):
            raise ValueError(f"replica_groups names a replica beyond the {replicas} there are")
        if route == "by_length" and len(self.replica_groups) != len(self.length_boundaries) + 1:
            raise ValueError("router by_length needs one more replica group than boundaries")
        if list(self.length_boundaries) != sorted(self.length_boundaries):
            raise ValueError("length_boundaries must ascend")


class SingleCase(_CaseBase):
    """One engine."""

    topology: Literal["single"]
    law: LawSpec
    engine: EngineSpec

    def setup(self) -> Colocated:
        """Return the engine's form of the arrangement."""
        return Colocated(self.engine.options(), self.law.law())

    def engines(self) -> dict[str, EngineSpec]:
        """Return the engines by the names that results use, in index order."""
        return {"e0": self.engine}


class MultiCase(_CaseBase):
    """Equal replicas behind a router."""

    topology: Literal["multi"]
    law: LawSpec
    engine: EngineSpec
    replicas: Replicas
    router: Router = "round_robin"
    lock_step: Flag = False
    """Attention-DP ranks, which begin every step together."""

    @model_validator(mode="after")
    def _parts_go_together(self) -> MultiCase:
        self._check_groups(self.router, self.replicas)
        if self.lock_step and self.engine.options().depth > 1:
            raise ValueError("lock_step needs one step at a time: no async_scheduling, no PP")
        return self

    def setup(self) -> Colocated:
        """Return the engine's form of the arrangement."""
        router = self._router(self.router)
        law = self.law.law()
        return Colocated(self.engine.options(), law, self.replicas, router, self.lock_step)

    def engines(self) -> dict[str, EngineSpec]:
        """Return the engines by the names that results use, in index order."""
        return {f"e{i}": self.engine for i in range(self.replicas)}


class DisaggregatedCase(_CaseBase):
    """Prefill and decode engines with a link between them."""

    topology: Literal["disagg"]
    mode: Literal["nixl_pull", "distserve_push"]
    prefill_law: LawSpec
    decode_law: LawSpec
    prefill_engine: EngineSpec
    decode_engine: EngineSpec
    link: LinkSpec
    hop: Ticks = 0
    n_prefill: Replicas = 1
    n_decode: Replicas = 1
    prefill_router: Router = "round_robin"
    decode_router: Router = "round_robin"

    @model_validator(mode="after")
    def _parts_go_together(self) -> DisaggregatedCase:
        if self.decode_engine.kind != "v1":
            raise ValueError(f"decode_engine.kind: {self.decode_engine.kind} cannot receive KV")
        self._check_groups(self.prefill_router, self.n_prefill)
        self._check_groups(self.decode_router, self.n_decode)
        return self

    def setup(self) -> Disaggregated:
        """Return the engine's form of the arrangement."""
        return Disaggregated(
            prefill=self.prefill_engine.options(),
            prefill_law=self.prefill_law.law(),
            decode=self.decode_engine.options(),
            decode_law=self.decode_law.law(),
            link=LinkOptions(self.link.ns_per_token, self.link.latency, self.link.mode),
            n_prefill=self.n_prefill,
            n_decode=self.n_decode,
            mode=self.mode,
            hop=self.hop,
            prefill_router=self._router(self.prefill_router),
            decode_router=self._router(self.decode_router),
        )

    def engines(self) -> dict[str, EngineSpec]:
        """Return the engines by the names that results use, in index order."""
        prefill = {f"p{i}": self.prefill_engine for i in range(self.n_prefill)}
        return prefill | {f"d{i}": self.decode_engine for i in range(self.n_decode)}


Case = SingleCase | MultiCase | DisaggregatedCase
CASES: Final[dict[str, type[SingleCase] | type[MultiCase] | type[DisaggregatedCase]]] = {
    "single": SingleCase,
    "multi": MultiCase,
    "disagg": DisaggregatedCase,
}
