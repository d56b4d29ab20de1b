"""One engine in time: steps are scheduled, run, and completed in the order scheduled."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from planner.kernels.stepwise import scheduler_sarathi, scheduler_v0, scheduler_v1
from planner.kernels.stepwise.blocks import ceil_div
from planner.kernels.stepwise.law import StepWork
from planner.kernels.stepwise.state import EngineState, Scheduled, StepPlan

if TYPE_CHECKING:
    from planner.kernels.stepwise.law import StepLaw
    from planner.kernels.stepwise.options import EngineOptions
    from planner.kernels.stepwise.request import Job, Request

SCHEDULERS: Final = {
    "v1": scheduler_v1.schedule,
    "v0": scheduler_v0.schedule,
    "sarathi": scheduler_sarathi.schedule,
}


@dataclass(frozen=True, slots=True)
class Step:
    """One step that has been scheduled.

    Attributes:
        scheduled_at: Tick of the scheduler's call.
        start: Tick at which it begins to run, >= ``scheduled_at``.
        end: Tick at which its tokens are known.
        items: What it computes.
        preempted: Ranks of the requests preempted for it.
    """

    scheduled_at: int
    start: int
    end: int
    items: tuple[Scheduled, ...]
    preempted: tuple[int, ...]


class Engine:
    """One engine, with up to ``depth`` steps in flight.

    A depth of 1 schedules a step when the one before it is complete. With asynchronous
    scheduling (depth 2) step j is scheduled when step j - 2 completes, and begins when step
    j - 1 ends. With p pipeline stages p steps are in flight, and one begins when the first
    stage is free. A call that finds nothing to compute while steps are in flight is not
    repeated before the next of them completes: the engine waits for it, as vLLM's does.
    """

    def __init__(self, options: EngineOptions, law: StepLaw) -> None:
        self.options = options
        self.law = law
        self.state = EngineState(options, law)
        self.in_flight: deque[Step] = deque()
        self.steps = 0
        self._stage_free = [0] * options.pp_degree
        self._stalled = False
        self._preempted: tuple[int, ...] = ()

    @property
    def outstanding(self) -> int:
        """Requests on this engine, neither finished nor dropped."""
        state = self.state
        return len(state.waiting) + len(state.parked) + len(state.running)

    @property
    def can_schedule(self) -> bool:
        """Whether the scheduler may be called now."""
        return len(self.in_flight) < self.options.depth and not self._stalled

    def can_hold(self, job: Job, outputs: int) -> bool:
        """Tell whether the KV of ``job`` with ``outputs`` output tokens fits an empty engine.

        The KV of the last token is never computed, so it needs no place.
        """
        pool = self.state.pool
        return pool.blocks_of(job.prompt + outputs - 1) <= pool.usable

    def can_prefill(self, job: Job) -> bool:
        """Tell whether the first piece of a prompt fits a step, if it must not be cut."""
        options = self.options
        if options.kind == "sarathi" or (options.kind == "v1" and options.enable_chunked_prefill):
            return True
        threshold = options.long_prefill_token_threshold if options.kind == "v1" else 0
        first = min(job.prompt, threshold) if threshold > 0 else job.prompt
        return first <= options.max_num_batched_tokens

    def schedule(self, now: int) -> tuple[Step | None, StepPlan]:
        """Call the scheduler once; return the step, if there is one, and the plan behind it."""
        plan = SCHEDULERS[self.options.kind](self.state, now)
        self.state.settle(plan, now)
        for request in (*plan.hopeless, *plan.oversized):
            request.in_system = False
        self._preempted += tuple(request.rank for request in plan.preempted)
        if not plan.items:
            self._stalled = bool(self.in_flight)
            return None, plan
        start, end = self._run(plan, now)
        step = Step(now, start, end, tuple(plan.items), self._preempted)
        self._preempted = ()
        self.in_flight.append(step)
        self.steps += 1
        return step, plan

    def complete(self) -> list[Request]:
        """Apply the outputs of the oldest step; return the requests with a new token.

        The slots of those that end with it are free from now on; their blocks are not until
        the caller releases them.
        """
        self._stalled = False
        options, sampled = self.options, []
        for item in self.in_flight.popleft().items:
            request = item.request
            request.flying -= 1
            if not (item.samples and request.in_system):
                continue
            sampled.append(request)
            request.unseen -= options.async_scheduling
            request.outputs += 1
            if request.outputs >= request.target:
                request.in_system = False
                self._take_out(request)
            elif options.prefix_caching and request.blocks:
                # a block may have been filled by tokens that were unseen till now
                self.state.pool.name(request, request.computed - request.unseen)
        return sampled

    def stretch(self, end: int) -> Step:
        """Let the step just scheduled end at ``end`` instead, not earlier; return it."""
        step = replace(self.in_flight[-1], end=end)
        self.in_flight[-1] = step
        self._stage_free[-1] = end
        return step

    def release(self, request: Request) -> None:
        """Free the blocks of a request that has left."""
        self.state.pool.release(request)

    def _take_out(self, request: Request) -> None:
        if request in self.state.running:
            self.state.running.remove(request)
        else:  # preempted while its last token was in flight
            self.state.waiting.remove(request)

    def _run(self, plan: StepPlan, now: int) -> tuple[int, int]:
        """Place a step on the stages, each of which takes an equal share; return start, end."""
        decodes = [item.before + 1 for item in plan.items if item.decode]
        work = StepWork(len(decodes), len(decodes), sum(decodes))
        for item in plan.items:
            if not item.decode:
                work.add_chunk(item.new, item.before)
        stages = self._stage_free
        share = ceil_div(self.law.ticks(work), len(stages))
        start = end = max(now, stages[0])
        for k, free in enumerate(stages):
            end = max(end, free) + share
            stages[k] = end
        return start, end
