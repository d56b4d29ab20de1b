"""The same run in plain Python: operation by operation what ``native/engine.hpp`` does."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING

from planner.kernels.closed_loop.records import Scheduler

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from planner.kernels.closed_loop.records import EngineTimes, RankLaw


def serve(
    law: RankLaw,
    engine: EngineTimes,
    users: int,
    prompt: NDArray[np.int32],
    output: NDArray[np.int32],
    sent: NDArray[np.float64],
    first: NDArray[np.float64],
    finish: NDArray[np.float64],
) -> tuple[int, int]:
    """Fill ``first`` and ``finish`` (and ``sent``, where there are users); return totals.

    Returns:
        Steps of the engine, and preemptions.

    Raises:
        ValueError: A number is out of range.
    """
    if not 1 <= engine.max_num_seqs <= engine.max_num_batched_tokens or engine.kv_tokens < 1:
        raise ValueError("arrays of unequal length, or a value out of range")
    rank = _Rank(law, engine, users, prompt.tolist(), output.tolist(), sent.tolist())
    rank.run()
    sent[:], first[:], finish[:] = rank.sent_s, rank.first_s, rank.finish_s
    return rank.steps, rank.preemptions


class _Rank:
    def __init__(
        self,
        law: RankLaw,
        engine: EngineTimes,
        users: int,
        prompt: list[int],
        output: list[int],
        sent_s: list[float],
    ) -> None:
        self.law, self.engine, self.users = law, engine, users
        self.knots: list[float] = law.knots.tolist()
        self.levels: list[float] = law.step_s.tolist()
        self.prompt, self.output, self.sent_s = prompt, output, sent_s
        n = len(prompt)
        self.count = n
        self.first_s, self.finish_s, self.ready = [0.0] * n, [0.0] * n, [0.0] * n
        self.due, self.made = [-1] * n, [0] * n
        self.calendar: dict[int, list[int]] = {}
        self.order: list[int] = []
        self.done: list[int] = []
        self.returned: deque[int] = deque()
        self.now = self.before = self.front_free = 0.0
        self.sent = self.visible = self.arrived = self.finished = 0
        self.counter = self.decoding = self.context = self.reserved = self.held = 0
        self.partial, self.computed, self.since_look = -1, 0, 0
        self.preempted = False
        self.steps = self.preemptions = 0

    def run(self) -> None:
        initial = min(self.users, self.count) if self.users > 0 else self.count
        for i in range(initial):
            if self.users > 0:
                self.sent_s[i] = 0.0
            self.send(i)
        while self.finished < self.count:
            self.step()

    def send(self, i: int) -> None:
        e = self.engine
        reached = max(self.front_free, self.sent_s[i] + e.path_in_s)
        self.front_free = reached + e.front_request_s + e.front_token_s * self.prompt[i]
        self.ready[i] = self.front_free
        self.sent += 1

    def waiting(self) -> bool:
        return bool(self.returned) or self.arrived < self.visible

    def head(self) -> int:
        return self.returned[0] if self.returned else self.arrived

    def running(self) -> int:
        return self.decoding + (self.partial >= 0) + len(self.done)

    def needed(self, i: int) -> int:
        return self.prompt[i] + self.made[i]

    def shared(self, i: int) -> int:
        return min(self.engine.cached_tokens, self.prompt[i] - 1)

    def own(self, i: int) -> int:
        return self.needed(i) - self.shared(i)

    def read(self) -> float:
        again = self.engine.cached_reread * (self.decoding - 1)
        return self.context + self.engine.cached_tokens * (1.0 + again)

    def reserve(self, i: int) -> int:
        output = int(self.engine.reserved_output * self.output[i])
        return self.prompt[i] - self.shared(i) + output

    def admissible(self) -> bool:
        if not self.waiting():
            return False
        running = self.running()
        if running == 0:
            return True
        need = max(self.reserve(self.head()), self.own(self.head()))
        room = self.engine.kv_tokens - max(self.reserved, self.held)
        return running < self.engine.max_num_seqs and need <= room

    def look(self) -> None:
        idle = self.running() == 0
        if idle:
            if not self.waiting() and self.ready[self.visible] > self.now:
                self.now = self.ready[self.visible]
            self.before = self.now
        elif self.since_look < self.engine.poll_steps:
            return
        horizon = self.now if self.engine.late_steps == 0 else self.before
        while self.visible < self.sent and self.ready[self.visible] <= horizon:
            self.visible += 1
        self.since_look = 0

    def step(self) -> None:
        e = self.engine
        self.look()
        self.preempted = False
        prefills = self.partial >= 0 or self.admissible()
        first = e.scheduler == Scheduler.PREFILL_FIRST
        decodes = self.decoding > 0 and not (first and prefills)
        if decodes and self.make_room():
            prefills = self.partial >= 0
        if not prefills:
            self.coast()
            return
        tokens, squares = (self.decoding if decodes else 0), 0.0
        if self.partial >= 0:
            tokens, squares = self.compute(tokens, squares)
        while (
            tokens < e.max_num_batched_tokens
            and self.partial < 0
            and not self.preempted
            and self.admissible()
        ):
            i = self.head()
            need = self.needed(i)
            room = e.max_num_batched_tokens - tokens
            whole = e.scheduler == Scheduler.MIXED_WHOLE and tokens > 0
            if whole and room < need <= e.max_num_batched_tokens:
                break
            if self.returned:
                self.returned.popleft()
            else:
                self.arrived += 1
            self.reserved += self.reserve(i)
            self.held += self.own(i)
            self.partial, self.computed = i, self.shared(i)
            tokens, squares = self.compute(tokens, squares)
        self.before = self.now
        self.now += (
            self.tokens_s(tokens)
            + self.law.square_s * squares
            + (self.law.context_s * e.mixed_context * self.read() if decodes else 0.0)
            + e.host_step_s
            + e.host_sequence_s * self.running()
            + e.host_prefill_s
        )
        self.steps += 1
        self.since_look = e.poll_steps
        if decodes:
            self.advance()
        for i in self.done:
            self.first_token(i)
        self.done.clear()

    def tokens_s(self, n: int) -> float:
        knots, levels = self.knots, self.levels
        if n <= knots[0]:
            return levels[0]
        if n >= knots[-1]:
            return levels[-1] + self.law.slope_beyond_s * (n - knots[-1])
        j = bisect_left(knots, n)
        share = (n - knots[j - 1]) / (knots[j] - knots[j - 1])
        return levels[j - 1] + (levels[j] - levels[j - 1]) * share

    def compute(self, tokens: int, squares: float) -> tuple[int, float]:
        i = self.partial
        chunk = min(self.engine.max_num_batched_tokens - tokens, self.needed(i) - self.computed)
        if chunk <= 0:
            return tokens, squares
        squares += chunk * (self.computed + 0.5 * chunk)
        self.computed += chunk
        if self.computed >= self.needed(i):
            self.done.append(i)
            self.partial = -1
        return tokens + chunk, squares

    def first_token(self, i: int) -> None:
        if self.made[i] == 0:
            self.first_s[i] = self.now
        self.made[i] += 1
        self.held += 1
        if self.made[i] >= self.output[i]:
            self.leave(i)
            return
        self.decoding += 1
        self.context += self.own(i)
        self.due[i] = self.counter + self.output[i] - self.made[i]
        self.calendar.setdefault(self.due[i], []).append(i)
        self.order.append(i)

    def coast(self) -> None:
        e = self.engine
        fixed = self.tokens_s(self.decoding) + e.host_step_s + e.host_sequence_s * self.decoding
        before = self.finished
        while True:
            self.before = self.now
            self.now += fixed + self.law.context_s * self.read()
            self.steps += 1
            self.since_look += 1
            self.advance()
            if self.finished != before or self.held + self.decoding > e.kv_tokens:
                return
            arrives = self.visible < self.sent and self.ready[self.visible] <= self.now
            if self.waiting() or arrives:
                return

    def advance(self) -> None:
        self.counter += 1
        self.context += self.decoding
        self.held += self.decoding
        for i in self.calendar.pop(self.counter, ()):
            if self.due[i] != self.counter:
                continue
            self.made[i] = self.output[i]
            self.due[i] = -1
            self.decoding -= 1
            self.context -= self.own(i)
            self.leave(i)

    def leave(self, i: int) -> None:
        self.finish_s[i] = self.now
        self.finished += 1
        self.reserved -= self.reserve(i)
        self.held -= self.own(i)
        if self.users > 0 and self.sent < self.count:
            self.sent_s[self.sent] = self.now + self.engine.path_out_s
            self.send(self.sent)

    def make_room(self) -> bool:
        while self.held + self.decoding > self.engine.kv_tokens and self.running() > 1:
            self.preempted = True
            self.preemptions += 1
            last = self.partial
            if last >= 0:
                self.partial = -1
            else:
                while self.due[self.order[-1]] < 0:
                    self.order.pop()
                last = self.order.pop()
                self.made[last] = self.output[last] - (self.due[last] - self.counter)
                self.due[last] = -1
                self.decoding -= 1
                self.context -= self.own(last)
            self.reserved -= self.reserve(last)
            self.held -= self.own(last)
            self.returned.appendleft(last)
        return self.preempted
