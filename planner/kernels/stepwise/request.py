"""What arrives (a job), and what one engine knows of it while it works on it (a request)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable


@dataclass(frozen=True, slots=True)
class Job:
    """One request as it arrives at the router.

    Attributes:
        arrival: Tick of arrival, >= 0.
        prompt: Prompt tokens, >= 1.
        output: Tokens that will be generated, >= 1. Nobody but the sampler looks at it.
        max_tokens: Output limit that the client declared; ``None`` means exactly ``output``.
        priority: Lower is served first under the priority policy.
        deadline: Tick by which the first token is wanted; ``None`` is never.
        prefix: Names of the leading full prompt blocks; equal names are equal contents *and*
            equal contents before them. Blocks without a name are the request's own.
        group: Class of traffic, for routers by class.
        cached: Prompt tokens, fewer than all, whose KV is at hand whenever it is admitted: not
            computed, but held in blocks of its own (v1).
    """

    arrival: int
    prompt: int
    output: int
    max_tokens: int | None = None
    priority: int = 0
    deadline: int | None = None
    prefix: tuple[Hashable, ...] = ()
    group: int = 0
    cached: int = 0

    @property
    def limit(self) -> int:
        """The most output tokens that an engine must be ready for."""
        return self.output if self.max_tokens is None else self.max_tokens


@dataclass(slots=True, eq=False)
class Request:
    """One job on one engine.

    Attributes:
        rank: Position of the job in order of arrival: its identity, and the last tie-break.
        job: What arrived.
        arrival: Tick at which this engine got it.
        target: Output tokens after which it leaves this engine.
        limit: Output tokens after which the engine *knows* that it leaves.
        outputs: Output tokens known so far.
        computed: Tokens whose KV is computed, or will be by steps in flight.
        unseen: Output tokens of steps in flight (vLLM: placeholders).
        decoding: Only the newest token is missing, because it was sampled just now.
        blocks: KV blocks held.
        block_ids: Which ones, where identity matters (prefix caching).
        named: How many of them carry a name in the prefix cache.
        remote: The prompt's KV lies elsewhere and must be read before the first step.
        loaded: Its KV has arrived (only looked at while parked).
        flying: Steps in flight that work on it.
        in_system: On this engine, neither finished nor dropped.
        preemptions: How often this engine preempted it.
        cached_tokens: Prompt tokens found in the prefix cache at first admission; -1 before.
        first_scheduled: Tick at which its first step was scheduled; -1 before.
    """

    rank: int
    job: Job
    arrival: int
    target: int
    limit: int
    outputs: int = 0
    computed: int = 0
    unseen: int = 0
    decoding: bool = False
    blocks: int = 0
    block_ids: list[int] = field(default_factory=list)
    named: int = 0
    remote: bool = False
    loaded: bool = False
    flying: int = 0
    in_system: bool = True
    preemptions: int = 0
    cached_tokens: int = -1
    first_scheduled: int = -1

    @property
    def tokens(self) -> int:
        """Prompt and known output tokens."""
        return self.job.prompt + self.outputs

    @property
    def missing(self) -> int:
        """Tokens still to be computed, the unseen ones included."""
        return self.job.prompt + self.outputs + self.unseen - self.computed

    @property
    def surely_done(self) -> bool:
        """Whether steps in flight already bring the last token that it may have."""
        return self.unseen > 0 and self.outputs + self.unseen >= self.limit

    def block_name(self, index: int, block_size: int) -> Hashable:
        """Name the contents of its block ``index``: the given name, or one of its own."""
        if index < len(self.job.prefix) and (index + 1) * block_size <= self.job.prompt:
            return ("shared", self.job.prefix[index])
        return ("own", self.rank, index)
