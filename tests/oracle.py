"""The engine's scheduler as its rules read, one step and one request at a time.

A second route to the results of ``planner.kernels``: nothing is aggregated, nothing skipped,
and it shares no line with the simulators it judges. O(running requests) per step.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(eq=False)
class Request:
    id: int
    arrival: int
    prompt: int
    output: int
    computed: int = 0
    generated: int = 0
    blocks: int = 0
    decoding: bool = False
    first_scheduled: int | None = None
    first_token: int | None = None
    finish: int | None = None
    queue: int = 0
    kv_block_wait: int = 0
    prefill_own: int = 0
    prefill_stretch: int = 0
    decode_solo: int = 0
    decode_batch: int = 0
    stall: int = 0
    preemptions: int = 0
    preempted: int = 0
    preempted_at: int | None = None
    last_token: int | None = None
    gap_decode: int = 0
    gap_unstalled: int = 0
    gap_stall: int = 0
    gap_solo: int = 0
    gap_preempted: int = 0
    replica: int = -1

    @property
    def tokens(self) -> int:
        return self.prompt + self.generated


class Engine:
    """One replica. ``schedule`` starts a step and returns its length, ``complete`` ends it."""

    def __init__(self, law: Any, limits: Any) -> None:
        self.law, self.limits = law, limits
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.free = limits.kv_blocks
        self.step: list[tuple[Request, int]] = []
        self.started = 0
        self.alone = self.whole = 0
        self.blocked: Request | None = None
        self.steps = self.busy = self.peak = 0
        self.admitted: list[int] = []

    @property
    def outstanding(self) -> int:
        return len(self.running) + len(self.waiting)

    def take_blocks(self, request: Request, new: int) -> bool:
        need = ceil_div(request.computed + new, self.limits.block_size) - request.blocks
        if need > self.free:
            return False
        self.free -= need
        request.blocks += need
        return True

    def release(self, request: Request) -> None:
        self.free += request.blocks
        request.blocks = 0

    def preempt_last(self, now: int) -> Request:
        victim = self.running.pop()
        self.release(victim)
        victim.computed = 0
        victim.decoding = False
        victim.preemptions += 1
        if victim.preempted_at is None:
            victim.preempted_at = now
        self.waiting.appendleft(victim)
        return victim

    def schedule(self, now: int) -> int | None:
        """Rules 1 to 6."""
        if not self.running and not self.waiting:
            return None
        self.step = []
        self.started = now
        self.blocked = None
        budget, preempted = self.serve_running(now)
        if not preempted:
            self.admit(now, budget)
        self.peak = max(self.peak, self.limits.kv_blocks - self.free)
        assert self.free >= 0
        assert self.limits.kv_blocks - self.free == sum(r.blocks for r in self.running)
        return self.duration()

    def serve_running(self, now: int) -> tuple[int, bool]:
        """Rules 2 to 4; returns what is left of the budget, and whether any was preempted."""
        budget = self.limits.max_num_batched_tokens
        preempted = False
        index = 0
        while index < len(self.running):
            request = self.running[index]
            new = min(request.tokens - request.computed, budget)
            index += 1
            if new == 0:
                continue
            while not (got := self.take_blocks(request, new)):
                preempted = True
                if self.preempt_last(now) is request:
                    break
            if not got:
                break
            self.step.append((request, new))
            budget -= new
        return budget, preempted

    def admit(self, now: int, budget: int) -> None:
        """Rules 5 and 6."""
        limits = self.limits
        while self.waiting and budget > 0 and len(self.running) < limits.max_num_seqs:
            request = self.waiting[0]
            new = min(request.tokens, budget)
            must_fit = request.tokens if limits.reserve_full_prompt else new
            gate = ceil_div(must_fit, limits.block_size)
            if self.running:
                gate += limits.watermark_blocks
            if gate > self.free:
                self.blocked = request
                return
            assert self.take_blocks(request, new)
            self.waiting.popleft()
            self.running.append(request)
            if request.first_scheduled is None:
                request.first_scheduled = now
                self.admitted.append(request.id)
            self.step.append((request, new))
            budget -= new

    def duration(self) -> int:
        decodes = [r for r, _ in self.step if r.decoding]
        chunks = [(r.computed, new) for r, new in self.step if not r.decoding]
        alone = self.time(len(decodes), [], decodes)
        whole = self.time(sum(new for _, new in self.step), chunks, decodes)
        assert self.step
        self.alone, self.whole = alone, whole
        self.steps += 1
        self.busy += whole
        return whole

    def time(self, tokens: int, chunks: list[tuple[int, int]], decodes: list[Request]) -> int:
        """L(n) + c_X X + c_K K + c_N N + c_C C."""
        law = self.law
        twice_x = sum(new * (2 * before + new) for before, new in chunks)
        return (
            int(law.tokens_ps[tokens])
            + law.square_ps_2p15 * twice_x // 2**16
            + law.context_ps * sum(r.computed + 1 for r in decodes)
            + law.sequence_ps * (len(decodes) + len(chunks))
            + law.chunk_context_ps * sum(before + new for before, new in chunks)
        )

    def complete(self, now: int) -> None:
        """Rule 8: tokens appear, and blocks of the finished free, at the end of the step."""
        self.account_for_waiting(now)
        for request, new in self.step:
            self.account_for_step(request, new)
            request.computed += new
            if request.computed < request.tokens:
                continue
            request.generated += 1
            request.decoding = True
            if request.first_token is None:
                request.first_token = now
            self.account_for_gap(request, now)
            if request.preempted_at is not None:
                request.preempted += now - request.preempted_at
                request.preempted_at = None
            if request.generated == request.output:
                request.finish = now
                self.release(request)
                self.running.remove(request)
        self.step = []
        self.started = now  # all time up to now is accounted for

    def account_for_waiting(self, now: int) -> None:
        """A step's time of all that wait for their first step; the rest is preemption's."""
        for request in self.waiting:
            if request.first_scheduled is None:
                waited = now - max(request.arrival, self.started)
                if request is self.blocked:
                    request.kv_block_wait += waited
                else:
                    request.queue += waited

    def account_for_gap(self, request: Request, now: int) -> None:
        """The time since the token before, by whether blocks were lost in it."""
        if request.last_token is not None:
            gap = now - request.last_token
            if request.preempted_at is None:
                request.gap_decode = max(request.gap_decode, gap)
            else:
                request.gap_preempted = max(request.gap_preempted, gap)
        request.last_token = now

    def account_for_step(self, request: Request, new: int) -> None:
        """A step's time by cause, for one of those it served."""
        if request.decoding:
            solo = self.time(1, [], [request])
            request.decode_solo += solo
            request.decode_batch += self.alone - solo
            request.stall += self.whole - self.alone
            request.gap_unstalled = max(request.gap_unstalled, self.alone)
            request.gap_stall = max(request.gap_stall, self.whole - self.alone)
            request.gap_solo = max(request.gap_solo, solo)
        elif request.preempted_at is None:
            own = self.time(new, [(request.computed, new)], [])
            request.prefill_own += own
            request.prefill_stretch += self.whole - own


class Fleet:
    """Identical replicas behind a router.

    At t: steps that end then are complete, pushes are routed and queued, steps are scheduled.
    """

    def __init__(self, law: Any, limits: Any, replicas: int, router: str) -> None:
        self.limits = limits
        self.router = router
        self.engines = [Engine(law, limits) for _ in range(replicas)]
        self.boundary: list[int | None] = [None] * replicas

    def advance(self, index: int, until: int | None) -> None:
        engine = self.engines[index]
        while (now := self.boundary[index]) is not None and (until is None or now < until):
            engine.complete(now)
            duration = engine.schedule(now)
            self.boundary[index] = None if duration is None else now + duration

    def push(self, request: Request) -> None:
        count = len(self.engines)
        for index in range(count):
            self.advance(index, request.arrival)
            if self.boundary[index] == request.arrival:
                self.engines[index].complete(request.arrival)
        if self.router == "round_robin":
            index = request.id % count
        else:
            index = min(range(count), key=lambda i: (self.engines[i].outstanding, i))
        if request.prompt + request.output - 1 > self.limits.kv_blocks * self.limits.block_size:
            return
        request.replica = index
        self.engines[index].waiting.append(request)
        if self.boundary[index] is None:
            self.boundary[index] = request.arrival


def simulate(
    law: Any,
    limits: Any,
    arrival: list[int],
    prompt: list[int],
    output: list[int],
    replicas: int = 1,
    router: str = "round_robin",
) -> tuple[list[Request], Fleet]:
    """Serve all requests; returns them, and the fleet with its counters."""
    fleet = Fleet(law, limits, replicas, router)
    requests = [
        Request(i, int(a), int(p), int(o))
        for i, (a, p, o) in enumerate(zip(arrival, prompt, output, strict=True))
    ]
    for request in requests:
        fleet.push(request)
    for index in range(replicas):
        fleet.advance(index, None)
    return requests, fleet


def simulate_clients(
    law: Any,
    limits: Any,
    arrival: list[int],
    prompt: list[int],
    output: list[int],
    think: list[int],
    permits: list[int],
    replicas: int = 1,
    router: str = "round_robin",
) -> tuple[list[Request], Fleet]:
    """Send requests in order, each when it is there and a permit is free; arrival is sending.

    Permits come back ``think`` after a finish. What is known to be sent at t is pushed
    before steps are scheduled at t; what a finish at t itself releases, after all of them.
    """
    fleet = Fleet(law, limits, replicas, router)
    permits = list(permits)
    sent: list[Request] = []
    running: list[Request] = []
    while True:
        times = [t for t in fleet.boundary if t is not None]
        if len(sent) < len(prompt) and permits:
            times.append(max(arrival[len(sent)], min(permits)))
        if not times:
            return sent, fleet
        now = min(times)
        push_all_due(fleet, now, arrival, prompt, output, think, permits, sent, running)
        for index in range(replicas):
            fleet.advance(index, now + 1)
        for request in [r for r in running if r.finish is not None]:
            running.remove(request)
            permits.append(request.finish + think[request.id])
        push_all_due(fleet, now, arrival, prompt, output, think, permits, sent, running)


def push_all_due(
    fleet: Fleet,
    now: int,
    arrival: list[int],
    prompt: list[int],
    output: list[int],
    think: list[int],
    permits: list[int],
    sent: list[Request],
    running: list[Request],
) -> None:
    while (i := len(sent)) < len(prompt) and permits and max(arrival[i], min(permits)) == now:
        permits.remove(min(permits))
        request = Request(i, now, prompt[i], output[i])
        fleet.push(request)
        sent.append(request)
        if request.replica < 0:
            permits.append(now + think[i])
        else:
            running.append(request)
