"""The scheduler of vLLM V0: a step of prompts whenever one can be admitted, else of decodes."""

from __future__ import annotations

from planner.kernels.stepwise.state import EngineState, StepPlan
from planner.kernels.stepwise.waiting import importance


def schedule(state: EngineState, now: int) -> StepPlan:
    """Plan one step: whole prompts only, or one token for every running request."""
    del now
    plan = StepPlan()
    _prefill(state, plan)
    if not plan.items:
        _decode(state, plan)
    return plan


def _prefill(state: EngineState, plan: StepPlan) -> None:
    """Admit whole prompts from the head, while budget, slots and blocks last."""
    options, pool = state.options, state.pool
    budget = options.max_num_batched_tokens
    while state.waiting and len(state.running) < options.max_num_seqs:
        request = state.waiting.head()
        if request.tokens > options.max_num_batched_tokens:
            plan.oversized.append(state.waiting.pop())
            continue
        if request.tokens > budget:
            return
        if pool.needed(request, request.tokens, []) + state.watermark() > pool.free:
            plan.short_of_blocks = True
            return
        state.running.append(state.waiting.pop())
        pool.take(request, request.tokens, [])
        state.give(plan, request, request.tokens)
        budget -= request.tokens


def _decode(state: EngineState, plan: StepPlan) -> None:
    """Give each running request one token; if blocks run out, preempt from the other end."""
    policy, pool = state.options.policy, state.pool
    queue = sorted(state.running, key=lambda r: (*importance(r, policy), r.rank))
    index = 0
    while index < len(queue):
        request = queue[index]
        while pool.needed(request, request.computed + 1, []) > pool.free:
            victim = queue.pop()
            state.preempt(plan, victim)
            if victim is request:
                return
        pool.take(request, request.computed + 1, [])
        state.give(plan, request, 1)
        index += 1
