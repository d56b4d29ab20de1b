"""The scheduler of Sarathi-Serve: decodes, then prefills in progress, then new prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.kernels.stepwise.state import EngineState, StepPlan
from planner.kernels.stepwise.waiting import importance

if TYPE_CHECKING:
    from planner.kernels.stepwise.request import Request


def schedule(state: EngineState, now: int) -> StepPlan:
    """Plan one step; only prefill chunks are cut to the token budget, decodes never wait."""
    del now
    plan = StepPlan()
    prefills = _decode(state, plan)
    budget = state.options.max_num_batched_tokens - len(plan.items)
    for request in prefills:  # they hold the blocks of their whole prompt already
        new = min(request.missing, budget)
        if new > 0:
            state.give(plan, request, new)
            budget -= new
    _admit(state, plan, budget)
    return plan


def _decode(state: EngineState, plan: StepPlan) -> list[Request]:
    """Give each decoding request one token, earliest first; return the prefills passed by.

    If blocks run out, the latest request not yet looked at is preempted, whatever it does.
    """
    policy, pool = state.options.policy, state.pool
    queue = sorted(state.running, key=lambda r: (*importance(r, policy), r.rank))
    prefills = []
    while queue:
        request = queue.pop(0)
        if not request.decoding:
            prefills.append(request)
            continue
        while pool.needed(request, request.computed + 1, []) > pool.free:
            victim = queue.pop() if queue else request
            state.preempt(plan, victim)
            if victim is request:
                return prefills
        pool.take(request, request.computed + 1, [])
        state.give(plan, request, 1)
    return prefills


def _admit(state: EngineState, plan: StepPlan, budget: int) -> None:
    """Admit from the head, with blocks for all its tokens and a chunk of what budget is left."""
    options, pool = state.options, state.pool
    while state.waiting and budget > 0 and len(state.running) < options.max_num_seqs:
        request = state.waiting.head()
        if pool.needed(request, request.tokens, []) + state.watermark() > pool.free:
            plan.short_of_blocks = True
            return
        new = min(request.tokens, budget)
        state.running.append(state.waiting.pop())
        pool.take(request, request.tokens, [])
        state.give(plan, request, new)
        budget -= new
