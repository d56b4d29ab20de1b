"""What the schedulers of one engine share: its queues, and the plan of a step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from planner.kernels.stepwise.blocks import BlockPool, CachingPool
from planner.kernels.stepwise.waiting import WaitingQueue

if TYPE_CHECKING:
    from planner.kernels.stepwise.law import StepLaw
    from planner.kernels.stepwise.options import EngineOptions
    from planner.kernels.stepwise.request import Request


class Scheduled(NamedTuple):
    """A request's part of one step.

    Attributes:
        request: Whose.
        new: Tokens computed in the step, >= 1.
        before: Tokens computed before it.
        decode: One token against the context, not a prefill chunk.
        samples: The step brings an output token.
    """

    request: Request
    new: int
    before: int
    decode: bool
    samples: bool


@dataclass(slots=True)
class StepPlan:
    """What one call of a scheduler decided.

    Attributes:
        items: The step, in the order scheduled; empty if there is nothing to compute.
        preempted: Requests preempted on the way.
        loads: Requests whose remote KV is read from now on, with the tokens to read.
        hopeless: Requests refused because their deadline can no longer be met.
        oversized: Requests dropped because no step of this engine can hold them any more.
        short_of_blocks: Blocks were missing, for a running request or for the head of the queue.
    """

    items: list[Scheduled] = field(default_factory=list)
    preempted: list[Request] = field(default_factory=list)
    loads: list[tuple[Request, int]] = field(default_factory=list)
    hopeless: list[Request] = field(default_factory=list)
    oversized: list[Request] = field(default_factory=list)
    short_of_blocks: bool = False


class EngineState:
    """The queues and blocks of one engine.

    A request is in exactly one of ``waiting`` (not admitted, or preempted), ``parked`` (holds
    blocks into which its KV is read) and ``running`` (admitted; in order of admission).
    """

    def __init__(self, options: EngineOptions, law: StepLaw) -> None:
        pool = CachingPool if options.prefix_caching else BlockPool
        self.options = options
        self.law = law
        self.pool: BlockPool = pool(options.block_size, options.usable_blocks)
        self.waiting = WaitingQueue(options.policy)
        self.parked: list[Request] = []
        self.running: list[Request] = []
        self._alone: dict[int, int] = {}

    def alone(self, tokens: int) -> int:
        """Return the ticks that an empty engine takes to prefill ``tokens``."""
        if tokens not in self._alone:
            self._alone[tokens] = self.law.alone(tokens, self.options.max_num_batched_tokens)
        return self._alone[tokens]

    def watermark(self) -> int:
        """Return the blocks that an admission must leave free now."""
        return self.options.watermark_blocks if self.running else 0

    def give(self, plan: StepPlan, request: Request, new: int) -> None:
        """Put ``new`` tokens of ``request``, whose blocks are taken, into the step.

        Full blocks can be hit from here on, even within this step.
        """
        before = request.computed
        if self.options.prefix_caching:
            self.pool.name(request, min(before + new, request.tokens))
        samples = new == request.missing
        plan.items.append(Scheduled(request, new, before, request.decoding, samples))

    def preempt(self, plan: StepPlan, request: Request) -> None:
        """Send a running request back to wait: blocks freed, outputs kept, all recomputed."""
        self.running.remove(request)
        self.pool.release(request)
        request.computed = 0
        request.decoding = False
        request.preemptions += 1
        self.waiting.put_back(request)
        plan.preempted.append(request)
        plan.short_of_blocks = True

    def settle(self, plan: StepPlan, now: int) -> None:
        """Move the requests of a step on, as if it were computed (vLLM does so, too)."""
        for item in plan.items:
            request = item.request
            request.computed += item.new
            request.flying += 1
            if item.samples:
                request.decoding = True
                request.unseen += self.options.async_scheduling
            if request.first_scheduled < 0:
                request.first_scheduled = now
