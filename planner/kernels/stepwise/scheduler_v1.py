"""The scheduler of vLLM V1: running requests first, then the head of the waiting queue.

There is no prefill and no decode phase: in every step each request's computed tokens catch
up with its prompt and outputs, as far as the token budget and the KV blocks reach.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.kernels.stepwise.state import EngineState, StepPlan
from planner.kernels.stepwise.waiting import importance

if TYPE_CHECKING:
    from planner.kernels.stepwise.request import Request


def schedule(state: EngineState, now: int) -> StepPlan:
    """Plan one step: the RUNNING pass, and the WAITING pass if nothing was preempted."""
    plan = StepPlan()
    budget = _running_pass(state, plan)
    if not plan.preempted:
        _waiting_pass(state, plan, budget, now)
    return plan


def _running_pass(state: EngineState, plan: StepPlan) -> int:
    """Serve running requests in order of admission; return the budget left."""
    pool, budget = state.pool, state.options.max_num_batched_tokens
    index = 0
    while index < len(state.running) and budget > 0:
        request = state.running[index]
        new = 0 if request.surely_done else min(_piece(state, request.missing), budget)
        if new == 0:  # all its tokens are in flight: skipped, not a stop
            index += 1
            continue
        after = request.computed + new
        if after > request.blocks * pool.block_size:
            while pool.needed(request, after, []) > pool.free:
                victim = _victim(state)
                taken_back = [item for item in plan.items if item.request is victim]
                if taken_back:  # only under a policy of ranks: it stood before this request
                    plan.items.remove(taken_back[0])
                    budget += taken_back[0].new
                    index -= 1
                state.preempt(plan, victim)
                if victim is request:
                    return budget
            pool.take(request, after, [])
        state.give(plan, request, new)
        budget -= new
        index += 1
    return budget


def _piece(state: EngineState, missing: int) -> int:
    """Cut the missing tokens of a request to the most that one step gives it."""
    threshold = state.options.long_prefill_token_threshold
    return min(missing, threshold) if threshold > 0 else missing


def _victim(state: EngineState) -> Request:
    """Choose whom to preempt: the last admitted, or the least important.

    Equals go by rank: were the first of them preempted, equals could take turns for ever, each
    losing its blocks before it is done. Real clocks do not tie, simulated ones do.
    """
    policy = state.options.policy
    if policy == "fcfs":
        return state.running[-1]
    return max(state.running, key=lambda r: (*importance(r, policy), r.rank))


def _waiting_pass(state: EngineState, plan: StepPlan, budget: int, now: int) -> None:
    """Admit waiting requests, strictly from the head, while budget, slots and blocks last."""
    while budget > 0 and len(state.running) < state.options.max_num_seqs:
        request = _next(state)
        if request is None or request.flying > 0:
            return
        if _is_hopeless(state, request, now):
            state.waiting.pop()
            plan.hopeless.append(request)
        elif request.remote:
            if not _start_load(state, plan, request):
                return
        else:
            given = _admit(state, plan, request, budget)
            if given is None:
                return
            budget -= given


def _next(state: EngineState) -> Request | None:
    """Return the request to look at: the first parked one whose KV is here, else the head."""
    for request in state.parked:
        if request.loaded:
            return request
    return state.waiting.head() if state.waiting else None


def _is_hopeless(state: EngineState, request: Request, now: int) -> bool:
    """Tell whether even an empty engine would miss the first-token deadline from now."""
    fresh = not (request.outputs or request.computed or request.remote or request.loaded)
    deadline = request.job.deadline
    if state.options.policy != "deadline" or deadline is None or not fresh:
        return False
    return now + state.alone(request.tokens) > deadline


def _start_load(state: EngineState, plan: StepPlan, request: Request) -> bool:
    """Take blocks for a remote prompt and park the request while its KV is read.

    It costs no budget. Blocks that prefills in progress will still need stay free: a load
    makes no progress of its own and cannot be preempted.
    """
    pool = state.pool
    hits = pool.lookup(request)
    reserved = sum(
        max(0, pool.blocks_of(other.tokens) - other.blocks)
        for other in state.running
        if not other.decoding
    )
    need = pool.needed(request, request.tokens, hits) + state.watermark()
    if need > pool.free - reserved:
        plan.short_of_blocks = True
        return False
    state.waiting.pop()
    pool.take(request, request.tokens, hits)
    request.cached_tokens = len(hits) * pool.block_size
    request.computed = request.tokens
    request.remote = False
    state.parked.append(request)
    plan.loads.append((request, request.tokens - request.cached_tokens))
    return True


def _admit(state: EngineState, plan: StepPlan, request: Request, budget: int) -> int | None:
    """Admit a request with its first piece; return the tokens given, ``None`` if it must wait.

    A request that no step can hold is dropped, and 0 returned.
    """
    pool, options = state.pool, state.options
    if request.loaded and not request.decoding:  # its KV has come: name it, redo one token
        pool.name(request, request.computed)
        request.computed = request.tokens - 1
        request.decoding = True
    hits = pool.lookup(request) if request.computed == 0 else []
    cached = request.computed + len(hits) * pool.block_size
    if request.computed == 0:
        cached = max(cached, request.job.cached)
    new = _piece(state, request.tokens - cached)
    if not options.enable_chunked_prefill and new > budget:
        if new <= options.max_num_batched_tokens:
            return None
        state.waiting.pop()
        plan.oversized.append(request)
        return 0
    new = min(new, budget)
    least = request.tokens if options.reserve_full_isl else cached + new
    if pool.needed(request, max(least, cached + new), hits) + state.watermark() > pool.free:
        plan.short_of_blocks = True
        return None
    if request.loaded:
        state.parked.remove(request)
        request.loaded = False
    else:
        state.waiting.pop()
    pool.take(request, cached + new, hits)
    request.computed = cached
    if request.cached_tokens < 0:
        request.cached_tokens = cached
    state.running.append(request)
    state.give(plan, request, new)
    return new
