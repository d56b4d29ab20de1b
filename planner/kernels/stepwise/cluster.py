"""Engines that share a clock: how requests enter, and what follows a completed step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.kernels.stepwise.request import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.kernels.stepwise.engine import Engine, Step
    from planner.kernels.stepwise.records import Record
    from planner.kernels.stepwise.request import Job
    from planner.kernels.stepwise.router import GroupRouters, Router
    from planner.kernels.stepwise.stages import StageLedger


class Cluster:
    """Colocated replicas behind one router; a subclass adds the second leg."""

    def __init__(
        self, engines: Sequence[Engine], entry: Router | GroupRouters, records: list[Record]
    ) -> None:
        self.engines = engines
        self.entry = entry
        self.records = records
        self.requests: dict[int, Request] = {}
        self.touched: set[int] = set()
        self.ledger: StageLedger | None = None

    def arrive(self, rank: int, job: Job, now: int) -> None:
        """Route an arrival, or refuse it if it could never be served."""
        index = self.entry.choose(job)
        record = self.records[rank]
        record.replica = index
        engine = self.engines[index]
        if not (engine.can_hold(job, job.limit) and engine.can_prefill(job)):
            record.fate = "rejected"
            return
        request = Request(rank, job, now, target=job.output, limit=job.limit)
        self.requests[rank] = request
        engine.state.waiting.add(request)
        self.touched.add(index)
        if self.ledger:
            self.ledger.arrived(rank, index, now)

    def complete(self, index: int, now: int) -> None:
        """Apply the oldest step of an engine."""
        engine = self.engines[index]
        if self.ledger:
            self.ledger.completed(engine.in_flight[0], engine.law)
        self.touched.add(index)
        for request in engine.complete():
            self.sampled(request, index, now)
            if not request.in_system:
                self.ended(request, index, now)

    def sampled(self, request: Request, index: int, now: int) -> None:
        """Pass a token on to the client."""
        del index
        self.records[request.rank].add_token(now)

    def ended(self, request: Request, index: int, now: int) -> None:
        """Note the end of a request on an engine, and free its blocks."""
        self.engines[index].release(request)
        record = self.records[request.rank]
        record.fate, record.finish = "finished", now

    def schedule(self, now: int) -> list[tuple[int, Step]]:
        """Let every engine that something happened to plan steps; return them by engine."""
        touched, self.touched = sorted(self.touched), set()
        return [(index, step) for index in touched for step in self.schedule_one(index, now)]

    def schedule_one(self, index: int, now: int) -> list[Step]:
        """Call an engine's scheduler until as many steps are in flight as may be.

        A call that only preempted is repeated at once: the blocks it freed may admit someone.
        """
        engine = self.engines[index]
        steps = []
        while engine.can_schedule:
            step, plan = engine.schedule(now)
            for request in plan.hopeless:
                self.records[request.rank].fate = "rejected"
            for request in plan.oversized:
                self.records[request.rank].fate = "failed"
            self.started_loads(index, plan.loads, now)
            if self.ledger:
                self.ledger.scheduled(engine, index, plan, now)
            if step is not None:
                steps.append(step)
            elif engine.in_flight or not plan.preempted:
                break
        return steps

    def started_loads(self, index: int, loads: Sequence[tuple[Request, int]], now: int) -> None:
        """Begin the transfers that a scheduler asked for: none among colocated replicas."""

    def next_event(self) -> int | None:
        """Return the next tick at which something happens that no engine does."""
        return None

    def advance(self, now: int) -> None:
        """Let that happen."""

    def hand_off(self, now: int) -> None:
        """Queue on the decode side what is due there."""

    def close(self) -> None:
        """Copy what the engines know of each request into its record."""
        for rank, request in self.requests.items():
            record = self.records[rank]
            record.first_scheduled = request.first_scheduled
            record.preemptions = request.preemptions
            record.cached_tokens = max(0, request.cached_tokens)
            if self.ledger:
                record.stages, record.gaps = self.ledger.stages[rank], self.ledger.gaps(rank)


class LockStepCluster(Cluster):
    """Attention-DP ranks: those of a group begin a step together, and wait for the longest."""

    def __init__(
        self, engines: Sequence[Engine], entry: Router, records: list[Record], ranks: int
    ) -> None:
        super().__init__(engines, entry, records)
        self.ranks = ranks

    def schedule(self, now: int) -> list[tuple[int, Step]]:
        """Plan one step on every rank of the groups that something happened to and that rest."""
        groups = sorted({index // self.ranks for index in self.touched})
        self.touched = set()
        return [item for group in groups for item in self._schedule_group(group, now)]

    def _schedule_group(self, group: int, now: int) -> list[tuple[int, Step]]:
        mine = range(group * self.ranks, (group + 1) * self.ranks)
        if any(self.engines[i].in_flight for i in mine):
            return []
        planned = [i for i in mine if self.schedule_one(i, now)]
        end = max((self.engines[i].in_flight[-1].end for i in planned), default=now)
        return [(i, self.engines[i].stretch(end)) for i in planned]
