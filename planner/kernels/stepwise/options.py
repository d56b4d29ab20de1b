"""Everything that can be chosen about an engine, a link, a router and their arrangement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from planner.kernels.stepwise.law import StepLaw

Kind = Literal["v1", "v0", "sarathi"]
Policy = Literal["fcfs", "priority", "deadline"]
Route = Literal[
    "round_robin", "least_outstanding", "least_kv", "prefix_affinity", "by_length", "by_class"
]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """One engine: how it schedules, and what it has.

    Attributes:
        max_num_seqs: Most requests running at once.
        max_num_batched_tokens: Tokens computed per step, at most.
        kind: ``v1`` (vLLM V1), ``v0`` (prefill first, no chunks) or ``sarathi``.
        block_size: Tokens per KV block.
        usable_blocks: KV blocks, the engine's null block not counted; ``None`` is unlimited.
        enable_chunked_prefill: Whether a waiting prompt may be cut to the budget left.
        long_prefill_token_threshold: Most tokens of one request in one step; 0 is no limit.
        reserve_full_isl: Whether all current tokens must fit at admission, not one chunk.
        watermark_blocks: Blocks that admission leaves free while something runs.
        policy: Order of admission, and choice of the request to preempt.
        prefix_caching: Whether full blocks are shared and kept for later requests (v1).
        async_scheduling: Whether a step is scheduled while the one before it runs (v1).
        pp_degree: Pipeline stages; as many batches are in flight.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    kind: Kind = "v1"
    block_size: int = 16
    usable_blocks: int | None = None
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    reserve_full_isl: bool = True
    watermark_blocks: int = 0
    policy: Policy = "fcfs"
    prefix_caching: bool = False
    async_scheduling: bool = False
    pp_degree: int = 1

    @property
    def depth(self) -> int:
        """Steps that may be in flight at once."""
        return max(self.pp_degree, 2 if self.async_scheduling else 1)


@dataclass(frozen=True, slots=True)
class RouterOptions:
    """Which replica gets the next request.

    Attributes:
        route: The rule.
        boundaries: For ``by_length``: ascending prompt lengths; a prompt of at most
            ``boundaries[i]`` tokens goes to ``groups[i]``, a longer one to the last group.
        groups: For ``by_length`` and ``by_class``: replica indices per band or class; within
            a group round robin.
        slack: For ``prefix_affinity``: a replica with more requests than this above the fewest
            on any is passed over, however much it has cached; ``None`` passes over nobody.
    """

    route: Route = "round_robin"
    boundaries: tuple[int, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()
    slack: int | None = None


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """The link that carries KV from prefill to decode.

    Attributes:
        ticks_per_token: Time that a token's KV occupies the link.
        latency: Time added to each transfer, during which the link serves others.
        sharing: ``fifo``, in the order accepted, or ``fair``, equal shares.
        channels: Transfers that move at full rate at once. ``fifo``: as many at a time; ``fair``:
            where there are more, they share what so many channels carry.
    """

    ticks_per_token: int
    latency: int = 0
    sharing: Literal["fifo", "fair"] = "fifo"
    channels: int = 1


@dataclass(frozen=True, slots=True)
class Colocated:
    """Equal replicas, each of which prefills and decodes, behind one router.

    Attributes:
        lock_step: The replicas are attention-DP ranks: those of one engine begin each step
            together, and it lasts as long as the longest of theirs (no steps in flight
            besides it: needs a depth of 1).
        ranks: With ``lock_step``: how many of them, in order, are one engine; a divisor of
            ``replicas``. 0: all.
    """

    engine: EngineOptions
    law: StepLaw
    replicas: int = 1
    router: RouterOptions = RouterOptions()
    lock_step: bool = False
    ranks: int = 0


@dataclass(frozen=True, slots=True)
class Disaggregated:
    """Prefill replicas, decode replicas, and the link between them.

    Attributes:
        n_prefill: Prefill replicas of a group.
        n_decode: Decode replicas of a group.
        groups: Groups alike that share the link and nothing else: a request stays in the one that
            its class says, modulo their number. Prefill replicas of all groups come first.
        mode: ``nixl_pull``: the decode side allocates, reads, recomputes the last prompt
            token and sends the first token. ``distserve_push``: the prefill side sends the
            first token, the KV is pushed at once, decoding continues with the second.
        hop: Ticks from the end of prefill (pull) or transfer (push) to the decode queue.
    """

    prefill: EngineOptions
    prefill_law: StepLaw
    decode: EngineOptions
    decode_law: StepLaw
    link: LinkOptions
    n_prefill: int = 1
    n_decode: int = 1
    mode: Literal["nixl_pull", "distserve_push"] = "nixl_pull"
    hop: int = 0
    prefill_router: RouterOptions = RouterOptions()
    decode_router: RouterOptions = RouterOptions()
    groups: int = 1

    @property
    def prefill_engines(self) -> int:
        """Prefill replicas of all groups; they come first."""
        return self.groups * self.n_prefill

    @property
    def engines(self) -> int:
        """All replicas of all groups."""
        return self.groups * (self.n_prefill + self.n_decode)
