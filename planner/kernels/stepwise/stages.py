"""Where the time of each request went: from arrival to last token, without remainder.

Every request has a cursor: the tick up to which its time is accounted for. Each event moves
the cursor on and charges the time between to one stage, or splits it by the step law.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from planner.kernels.stepwise.law import StepWork

if TYPE_CHECKING:
    from planner.kernels.stepwise.engine import Engine, Step
    from planner.kernels.stepwise.law import StepLaw
    from planner.kernels.stepwise.state import Scheduled, StepPlan


@dataclass(slots=True)
class Stages:
    """Ticks per stage; for a finished request they add up to finish minus arrival.

    Attributes:
        queue: Not admitted, for want of budget or slots, or till the next schedule and step.
        kv_block_wait: Not admitted, on an engine whose last schedule lacked blocks.
        prefill: Its prefill chunks, as long as they would last alone.
        prefill_sharing: What other work in the same steps, and waiting between its chunks, added.
        transfer: Its KV on the link, as long as it would last alone, latency included.
        transfer_wait: The link served others.
        hand_off: Prefill to decode queue, and from the arrival of its KV to its next step.
        decode_solo: Its decode steps, as long as they would last alone.
        decode_batch: What the other decodes in the same steps added.
        decode_interference: What prefill chunks in the same steps, and waiting between its
            own steps, added.
        preemption: From losing its blocks to its next new token.
    """

    queue: int = 0
    kv_block_wait: int = 0
    prefill: int = 0
    prefill_sharing: int = 0
    transfer: int = 0
    transfer_wait: int = 0
    hand_off: int = 0
    decode_solo: int = 0
    decode_batch: int = 0
    decode_interference: int = 0
    preemption: int = 0

    @property
    def total(self) -> int:
        """All stages together, ticks."""
        return sum(getattr(self, stage.name) for stage in fields(self))


@dataclass(slots=True)
class Gaps:
    """The longest times between two tokens of a request, each by itself; ticks, 0 without one.

    The token that the prefill side of a pull drops counts as one.

    Attributes:
        decode: Between tokens of which the later came by a decode step.
        unstalled: Of such a step, as long as with the decodes in it alone.
        stall: What prefill chunks, and waiting between its own steps, added to such a time.
        solo: Of such a step, as long as it would last alone.
        preempted: Between tokens between which it lost its blocks.
    """

    decode: int = 0
    unstalled: int = 0
    stall: int = 0
    solo: int = 0
    preempted: int = 0

    def see(self, gap: int, unstalled: int, solo: int) -> None:
        """Note a time between tokens that ended with a decode step."""
        self.decode = max(self.decode, gap)
        self.unstalled = max(self.unstalled, unstalled)
        self.stall = max(self.stall, gap - unstalled)
        self.solo = max(self.solo, solo)


@dataclass(slots=True)
class _Account:
    """One request's cursor.

    Attributes:
        stages: What is accounted for.
        cursor: Up to when.
        short_at_start: The engine's clock of missing blocks when the request began to wait.
        waits: Not admitted yet, on the engine where it is now.
        landed: Its KV has come, and no step has followed.
        preempted: Lost its blocks, and no new token has followed.
        gaps: The longest times between its tokens.
        last_token: When it had one last; -1: never.
    """

    stages: Stages
    cursor: int
    short_at_start: int = 0
    waits: bool = True
    landed: bool = False
    preempted: bool = False
    gaps: Gaps = field(default_factory=Gaps)
    last_token: int = -1


class _ShortClock:
    """Runs while an engine's last schedule left someone waiting for blocks."""

    def __init__(self) -> None:
        self._total = 0
        self._since = 0
        self._runs = False

    def read(self, now: int) -> int:
        """Return how long it has run by ``now``."""
        return self._total + (now - self._since if self._runs else 0)

    def set(self, now: int, runs: bool) -> None:
        """Let it run, or stop it."""
        self._total = self.read(now)
        self._since, self._runs = now, runs


class StageLedger:
    """The accounts of all requests of a run, and one clock of missing blocks per engine."""

    def __init__(self, engines: int) -> None:
        self.stages: dict[int, Stages] = {}
        self._accounts: dict[int, _Account] = {}
        self._short = [_ShortClock() for _ in range(engines)]

    def gaps(self, rank: int) -> Gaps:
        """Return the longest times between the tokens of a request."""
        return self._accounts[rank].gaps

    def arrived(self, rank: int, index: int, now: int) -> None:
        """Open an account for a request that an engine queued."""
        self.stages[rank] = Stages()
        self._accounts[rank] = _Account(self.stages[rank], now, self._short[index].read(now))

    def handed_off(self, rank: int, index: int, now: int) -> None:
        """Note that the decode side queued it."""
        account = self._accounts[rank]
        account.stages.hand_off += self._move(account, now)
        account.short_at_start, account.waits = self._short[index].read(now), True

    def scheduled(self, engine: Engine, index: int, plan: StepPlan, now: int) -> None:
        """Note whom a schedule preempted or admitted, and whether it lacked blocks."""
        for request in plan.preempted:
            account = self._accounts[request.rank]
            self._charge_gap(account, decoding=request.outputs > 0, until=now)
            account.preempted = True
        admitted = [item.request.rank for item in plan.items]
        admitted += [request.rank for request, _ in plan.loads]
        for rank in admitted:
            account = self._accounts[rank]
            if account.waits:
                self._charge_wait(account, index, now)
        self._short[index].set(now, bool(engine.state.waiting) and plan.short_of_blocks)

    def transferred(self, rank: int, alone: int, now: int) -> None:
        """Note that its KV, which takes ``alone`` ticks on an idle link, has come."""
        account = self._accounts[rank]
        ticks = self._move(account, now)
        own = min(alone, ticks)
        account.stages.transfer += own
        account.stages.transfer_wait += ticks - own
        account.landed = True

    def completed(self, step: Step, law: StepLaw) -> None:
        """Charge a step that ends now to each of its requests that are still there."""
        decodes = StepWork()
        for item in step.items:
            if item.decode:
                decodes.add_decode(item.before)
        without_chunks = law.ticks(decodes)
        for item in step.items:
            if not item.request.in_system:  # a step too many, scheduled before the end was known
                continue
            account = self._accounts[item.request.rank]
            if account.cursor <= step.start:
                self._charge_gap(account, decoding=item.decode, until=step.start)
            ticks = self._move(account, step.end)
            preempted = account.preempted
            solo = self._charge_step(account, item, ticks, without_chunks, law)
            if item.samples:
                self._see_token(account, step.end, preempted, min(without_chunks, ticks), solo)

    def _see_token(
        self, account: _Account, now: int, preempted: bool, unstalled: int, solo: int
    ) -> None:
        """Note the time since its last token; ``solo`` < 0: no decode step brought this one."""
        if account.last_token >= 0:
            gap = now - account.last_token
            if preempted:
                account.gaps.preempted = max(account.gaps.preempted, gap)
            elif solo >= 0:
                account.gaps.see(gap, unstalled, solo)
        account.last_token = now

    def _charge_step(
        self, account: _Account, item: Scheduled, ticks: int, without_chunks: int, law: StepLaw
    ) -> int:
        """Split a request's time in a step; return that of a decode alone, -1 of other work.

        What it would need alone comes first.
        """
        stages = account.stages
        alone = StepWork()
        if account.preempted:
            stages.preemption += ticks
            account.preempted = not (item.samples and item.request.blocks)
        elif item.decode:
            alone.add_decode(item.before)
            batch = min(without_chunks, ticks)
            solo = min(law.ticks(alone), batch)
            stages.decode_solo += solo
            stages.decode_batch += batch - solo
            stages.decode_interference += ticks - batch
            return solo
        else:
            alone.add_chunk(item.new, item.before)
            own = min(law.ticks(alone), ticks)
            stages.prefill += own
            stages.prefill_sharing += ticks - own
        return -1

    def _charge_wait(self, account: _Account, index: int, now: int) -> None:
        """Charge the time until admission; how much of it blocks were missing, the clock says."""
        short = self._short[index].read(now) - account.short_at_start
        ticks = self._move(account, now)
        account.stages.kv_block_wait += short
        account.stages.queue += ticks - short
        account.waits = False

    def _charge_gap(self, account: _Account, decoding: bool, until: int) -> None:
        """Charge time in which an admitted request was in no step."""
        stages, ticks = account.stages, self._move(account, until)
        if account.preempted:
            stages.preemption += ticks
        elif account.landed:
            stages.hand_off += ticks
        elif decoding:
            stages.decode_interference += ticks
        elif stages.prefill or stages.transfer:
            stages.prefill_sharing += ticks
        else:
            stages.queue += ticks
        account.landed = False

    def _move(self, account: _Account, now: int) -> int:
        """Move the cursor on to ``now``; return by how much, 0 if it is there already."""
        ticks = max(0, now - account.cursor)
        account.cursor += ticks
        return ticks
