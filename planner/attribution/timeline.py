"""The course of each request in time, from the steps that served it: which stage, and when.

The pieces of a request follow each other without a gap from its arrival to its last token, and
sum by stage to what the engine accounts for (SIM-22).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from planner.kernels.engine import FATES
from planner.kernels.stepwise import Colocated
from planner.kernels.stepwise.law import StepWork

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planner.kernels.engine import FleetRecords, Traffic
    from planner.kernels.engine.records import TracedStep
    from planner.kernels.stepwise import Disaggregated, StepLaw

Stage = Literal["queue", "prefill", "kv_transfer", "handoff", "decode", "gap", "preempted"]
FINISHED = FATES.index("finished")


class Piece(NamedTuple):
    """A stretch of a request's time, in ticks."""

    stage: Stage
    start: int
    end: int
    engine: int
    """Prefill engines first; where it waits, the engine that it waits for."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a step did for one request.

    Attributes:
        engine: Which engine took the step.
        scheduled_at: When it was decided on.
        start: When it began.
        end: When its tokens came.
        decode: Whether it was a decode of the request.
        samples: Whether it brought a token.
        unstalled: How long it would have lasted with the decodes in it alone.
    """

    engine: int
    scheduled_at: int
    start: int
    end: int
    decode: bool
    samples: bool
    unstalled: int


class Loss(NamedTuple):
    """A request lost its blocks."""

    engine: int
    at: int


def law_of(setup: Colocated | Disaggregated, engine: int) -> StepLaw:
    """Return the step law of an engine; prefill engines come first."""
    if isinstance(setup, Colocated):
        return setup.law
    return setup.prefill_law if engine < setup.prefill_engines else setup.decode_law


def decode_ticks(step: TracedStep, law: StepLaw) -> int:
    """Return how long a step would have lasted with its decodes alone."""
    work = StepWork()
    for _, _, before, decode, _ in step.items:
        if decode:
            work.add_decode(before)
    return law.ticks(work)


def timelines(
    traffic: Traffic,
    setup: Colocated | Disaggregated,
    records: FleetRecords,
    chosen: Sequence[int],
) -> dict[int, tuple[Piece, ...]]:
    """Lay out the time of finished requests.

    ``gap`` is what chunks of others, and waiting between its own steps, added to a decode;
    ``preempted`` runs from losing its blocks to the next token. Where several steps are in
    flight, a preemption may be told a step later than it happened.

    Args:
        traffic: What arrived.
        setup: What served it.
        records: With steps and stages.
        chosen: Requests to lay out; those that did not finish are left out.

    Returns:
        The pieces of each request, by its index, in the order of time; ticks.
    """
    assert records.steps is not None  # the caller asked for both
    assert records.stages is not None
    wanted = {int(rank) for rank in chosen if records.fate[rank] == FINISHED}
    parts: dict[int, list[Part | Loss]] = defaultdict(list)
    for engine, steps in enumerate(records.steps):
        law, rested = law_of(setup, engine), 0
        for step in steps:
            # A schedule that took all blocks away and had nothing to run is told with the next.
            at, rested = min(step.scheduled_at, rested), step.end
            for rank in step.preempted:
                if rank in wanted and at < records.finish[rank]:
                    parts[rank].append(Loss(engine, at))
            mine = [item for item in step.items if item[0] in wanted]
            if not mine:
                continue
            unstalled = decode_ticks(step, law)
            for rank, _, _, decode, samples in mine:
                if step.end <= records.finish[rank]:
                    parts[rank].append(
                        Part(
                            engine,
                            step.scheduled_at,
                            step.start,
                            step.end,
                            decode,
                            samples,
                            unstalled,
                        )
                    )
    return {
        rank: _Course(int(traffic.arrival[rank]), int(records.replica[rank])).of(
            parts[rank], _crossing(setup, records, rank)
        )
        for rank in sorted(wanted)
    }


class _Crossing(NamedTuple):
    """The way from prefill to decode: what comes when, in order, and on which engine."""

    pieces: tuple[tuple[Stage, int], ...]
    """Stage and its end."""
    engine: int
    first_decode_engine: int


def _crossing(
    setup: Colocated | Disaggregated, records: FleetRecords, rank: int
) -> _Crossing | None:
    if isinstance(setup, Colocated):
        return None
    assert records.decode_replica is not None
    assert records.decode_arrival is not None
    assert records.kv_end is not None
    assert records.stages is not None
    if records.decode_arrival[rank] < 0:
        return None
    arrival, landed = int(records.decode_arrival[rank]), int(records.kv_end[rank])
    first = setup.prefill_engines
    engine = first + int(records.decode_replica[rank])
    if setup.mode == "distserve_push":
        return _Crossing((("kv_transfer", landed), ("handoff", arrival)), engine, first)
    if landed < 0:  # nothing had to be read
        return _Crossing((("handoff", arrival),), engine, first)
    on_link = int(records.stages.transfer[rank] + records.stages.transfer_wait[rank])
    allocated = landed - on_link
    pieces: tuple[tuple[Stage, int], ...] = (
        ("handoff", arrival),
        ("queue", allocated),
        ("kv_transfer", landed),
    )
    return _Crossing(pieces, engine, first)


class _Course:
    """A request's cursor, and the pieces behind it."""

    def __init__(self, arrival: int, engine: int) -> None:
        self.cursor = arrival
        self.engine = engine
        self.pieces: list[Piece] = []
        self.waits = True
        self.landed = self.begun = False
        self.preempted = self.has_token = False

    def of(self, parts: Iterable[Part | Loss], crossing: _Crossing | None) -> tuple[Piece, ...]:
        """Return all pieces, given the request's steps, and when it lost its blocks, in order."""
        for part in parts:
            if crossing is not None and part.engine >= crossing.first_decode_engine:
                self._cross(crossing)
                crossing = None
            if isinstance(part, Loss):
                self._rest(part.at, decoding=self.has_token)
                self.preempted = True
                continue
            if self.waits:
                self._move("queue", part.scheduled_at)
                self.waits = False
            self._step(part)
        return tuple(self.pieces)

    def _cross(self, crossing: _Crossing) -> None:
        self.engine = crossing.engine
        for stage, end in crossing.pieces:
            self._move(stage, end)
        self.landed = any(stage == "kv_transfer" for stage, _ in crossing.pieces)
        self.waits = crossing.pieces[-1][0] == "handoff"
        self.begun = True
        self.has_token = crossing.pieces[0][0] == "kv_transfer"  # pushed with its first token
        self.preempted = False

    def _step(self, part: Part) -> None:
        self.engine = part.engine
        if self.cursor <= part.start:
            self._rest(part.start, decoding=part.decode)
        if self.preempted:
            self._move("preempted", part.end)
            self.preempted = not part.samples
        elif part.decode:
            ticks = max(0, part.end - self.cursor)
            self._move("decode", self.cursor + min(part.unstalled, ticks))
            self._move("gap", part.end)
        else:
            self._move("prefill", part.end)
            self.begun = True
        self.has_token = self.has_token or part.samples

    def _rest(self, until: int, *, decoding: bool) -> None:
        """Account for time in which it was admitted and in no step."""
        if self.preempted:
            stage: Stage = "preempted"
        elif self.landed:
            stage = "handoff"
        elif decoding:
            stage = "gap"
        else:
            stage = "prefill" if self.begun else "queue"
        self._move(stage, until)
        self.landed = False

    def _move(self, stage: Stage, until: int) -> None:
        if until <= self.cursor:
            return
        last = self.pieces[-1] if self.pieces else None
        if last is not None and (last.stage, last.engine) == (stage, self.engine):
            self.pieces[-1] = last._replace(end=until)
        else:
            self.pieces.append(Piece(stage, self.cursor, until, self.engine))
        self.cursor = until
