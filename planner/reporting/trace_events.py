"""Simulated requests as a trace-event file, which Perfetto and chrome://tracing open.

A process is a replica. A request is an async span on the replica that gave its last token, with
its stages as spans inside; what it did on another replica of a P/D group stands there. Counters
tell how many run and wait, the KV held, and transfers on the link.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from planner.attribution.timeline import Piece
from planner.kernels.engine.records import NEVER
from planner.kernels.stepwise import Colocated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from planner.attribution.traced import TracedRun

    Event = dict[str, Any]

MOST_COUNTS: Final = 20_000
"""Values of the counters of one replica; of more, every so-manieth is told."""
STEPS, REQUESTS = 1, 0
"""Threads of a process."""


def trace_document(runs: Iterable[tuple[TracedRun, Sequence[int]]]) -> dict[str, Any]:
    """Return the trace of chosen requests as a JSON object.

    Args:
        runs: Each pool with the requests of it to be told.
    """
    events: list[Event] = []
    pid = 1
    notes = {}
    for run, chosen in runs:
        events += _Pool(run, chosen, pid).events()
        pid += len(run.engines)
        notes[run.name] = f"{len(chosen)} of {run.counted.size} counted requests"
    return {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"format": "planner trace", "requests": notes},
    }


class _Pool:
    """Writes the events of one pool."""

    def __init__(self, run: TracedRun, chosen: Sequence[int], first_pid: int) -> None:
        self.run, self.first_pid = run, first_pid
        self.lines = run.timelines(chosen)
        self.chosen = [rank for rank in chosen if rank in self.lines]
        starts = [self.lines[rank][0].start for rank in self.chosen]
        ends = [self.lines[rank][-1].end for rank in self.chosen]
        self.zero = min(starts, default=0)
        self.spans = _joined(sorted(zip(starts, ends, strict=True)))

    def us(self, tick: int) -> float:
        """Return a tick in microseconds after the first request."""
        return round((tick - self.zero) * self.run.tick_s * 1e6, 6)

    def told(self, tick: int) -> bool:
        """Tell whether any chosen request is there at a tick."""
        at = bisect_right(self.spans, (tick, NEVER)) - 1
        return at >= 0 and self.spans[at][0] <= tick <= self.spans[at][1]

    def events(self) -> Iterator[Event]:
        """Yield everything: names, requests, counters, steps."""
        for engine, name in enumerate(self.run.engines):
            pid = self.first_pid + engine
            yield _name(pid, "process_name", f"{self.run.name} {name}")
            yield {**_name(pid, "process_sort_index", ""), "args": {"sort_index": pid}}
            yield _name(pid, "thread_name", "requests", REQUESTS)
            yield _name(pid, "thread_name", "steps", STEPS)
        for rank in self.chosen:
            yield from self._request(rank)
        yield from self._counters()
        yield from self._link()
        yield from self._steps()

    def _request(self, rank: int) -> Iterator[Event]:
        run, pieces = self.run, self.lines[rank]
        home = pieces[-1].engine
        name = f"{run.workloads[run.workload[rank]]} {rank}"
        yield self._event("b", name, rank, home, pieces[0].start, args=self._about(rank))
        for piece, inner in phases(pieces):
            yield self._event("b", piece.stage, rank, piece.engine, piece.start)
            for gap in inner:
                yield self._event("b", "gap", rank, gap.engine, gap.start)
                yield self._event("e", "gap", rank, gap.engine, gap.end)
            yield self._event("e", piece.stage, rank, piece.engine, piece.end)
        yield from self._deadlines(rank, home)
        yield self._event("e", name, rank, home, pieces[-1].end)

    def _about(self, rank: int) -> dict[str, Any]:
        run, scale = self.run, self.run.tick_s
        told = {
            "workload": run.workloads[run.workload[rank]],
            "prompt_tokens": int(run.traffic.prompt[rank]),
            "output_tokens": int(run.traffic.output[rank]),
            "ttft_s": int(run.ttft[rank]) * scale,
            "preemptions": int(run.records.preemptions[rank]),
            "compliant": bool(run.met[rank]),
        }
        stages = run.records.stages
        assert stages is not None
        accounts = {n: int(c[rank]) * scale for n, c in stages._asdict().items() if c[rank]}
        return told | {"stages_s": accounts}

    def _deadlines(self, rank: int, engine: int) -> Iterator[Event]:
        run = self.run
        arrived, first = int(run.traffic.arrival[rank]), int(run.records.first_token[rank])
        due = (
            ("TTFT deadline", arrived - run.path, run.first_by, first),
            ("TPOT deadline", first, run.rest_by, int(run.records.finish[rank])),
        )
        for name, since, allowed, came in due:
            by = int(allowed[rank])
            if 0 <= by < NEVER // 2:
                missed = came > since + by
                at = min(since + by, int(run.records.finish[rank]))  # within the span
                yield self._event(
                    "n",
                    f"{name} {'missed' if missed else 'kept'}",
                    rank,
                    engine,
                    at,
                    args={"allowed_s": by * run.tick_s, "late_s": (came - since - by) * run.tick_s},
                )

    def _event(
        self,
        phase: str,
        name: str,
        rank: int,
        engine: int,
        at: int,
        args: dict[str, Any] | None = None,
    ) -> Event:
        event: Event = {
            "ph": phase,
            "cat": "request",
            "name": name,
            "id2": {"local": f"0x{rank:x}"},
            "pid": self.first_pid + engine,
            "tid": REQUESTS,
            "ts": self.us(at),
        }
        return event if args is None else event | {"args": args}

    def _counters(self) -> Iterator[Event]:
        changes = [_changes(self.run, engine) for engine in range(len(self.run.engines))]
        for engine, steps in enumerate(changes):
            inside = [s for s in steps if self.told(s[0])]
            for at, running, waiting, kv in inside[:: max(1, -(-len(inside) // MOST_COUNTS))]:
                pid, ts = self.first_pid + engine, self.us(at)
                yield _count(pid, "running", ts, running)
                yield _count(pid, "waiting", ts, waiting)
                yield _count(pid, "KV tokens", ts, kv)

    def _link(self) -> Iterator[Event]:
        records = self.run.records
        if records.kv_start is None or records.kv_end is None:
            return
        moved = [
            (int(start), int(end))
            for start, end in zip(records.kv_start, records.kv_end, strict=True)
            if start >= 0 and end >= 0
        ]
        edges = sorted([(start, 1) for start, _ in moved] + [(end, -1) for _, end in moved])
        running = 0
        for at, change in edges:
            running += change
            if self.told(at):
                yield _count(self.first_pid, "transfers on the link", self.us(at), running)

    def _steps(self) -> Iterator[Event]:
        assert self.run.records.steps is not None
        for engine, steps in enumerate(self.run.records.steps):
            inside = [s for s in steps if self.told(s.start) and self.told(s.end)]
            for step in inside[:MOST_COUNTS]:
                chunks = [item[1] for item in step.items if not item[3]]
                yield {
                    "ph": "X",
                    "cat": "step",
                    "name": _kind(len(chunks), len(step.items)),
                    "pid": self.first_pid + engine,
                    "tid": STEPS,
                    "ts": self.us(step.start),
                    "dur": round((step.end - step.start) * self.run.tick_s * 1e6, 6),
                    "args": {
                        "prefill_tokens": sum(chunks),
                        "decodes": len(step.items) - len(chunks),
                        "preempted": len(step.preempted),
                    },
                }


def phases(pieces: Sequence[Piece]) -> Iterator[tuple[Piece, tuple[Piece, ...]]]:
    """Yield the stages of a request with the gaps inside its decode; stages tile its time."""
    at = 0
    while at < len(pieces):
        first = pieces[at]
        if first.stage not in ("decode", "gap"):
            yield first, ()
            at += 1
            continue
        run = []
        while (
            at < len(pieces)
            and pieces[at].stage in ("decode", "gap")
            and pieces[at].engine == first.engine
        ):
            run.append(pieces[at])
            at += 1
        whole = Piece("decode", first.start, run[-1].end, first.engine)
        yield whole, tuple(piece for piece in run if piece.stage == "gap")


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join spans that touch; ascending."""
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


def _changes(run: TracedRun, engine: int) -> list[tuple[int, int, int, int]]:
    """Return what an engine holds at the end of each of its steps: tick, running, waiting, KV.

    Waiting are those that have come to it and are in no seat; KV tokens are those that requests
    hold, each counted for itself.
    """
    assert run.records.steps is not None
    records, split = run.records, not isinstance(run.setup, Colocated)
    prefill = not split or engine < getattr(run.setup, "prefill_engines", 0)
    held: dict[int, int] = {}
    entered = _entries(run, engine, prefill=prefill)
    leaves = records.prefill_done if split and prefill else records.finish
    assert leaves is not None
    came = at = 0
    gone: dict[int, bool] = defaultdict(bool)
    found = []
    total = left = 0
    for step in run.records.steps[engine]:
        while at < len(entered) and entered[at] <= step.end:
            at += 1
        came = at
        for rank in step.preempted:
            total -= held.pop(rank, 0)
        for rank, new, before, _, _ in step.items:
            total += before + new - held.get(rank, 0)
            held[rank] = before + new
            if 0 <= leaves[rank] <= step.end and not gone[rank]:
                gone[rank] = True
                total -= held.pop(rank)
                left += 1
        found.append((step.end, len(held), max(0, came - left - len(held)), total))
    return found


def _entries(run: TracedRun, engine: int, *, prefill: bool) -> list[int]:
    records = run.records
    if prefill:
        mine = (records.replica == engine) & run.finished
        return [int(x) for x in sorted(run.traffic.arrival[mine])]
    assert records.decode_replica is not None
    assert records.decode_arrival is not None
    first = getattr(run.setup, "prefill_engines", 0)
    mine = (records.decode_replica == engine - first) & run.finished
    return [int(x) for x in sorted(records.decode_arrival[mine])]


def _kind(chunks: int, items: int) -> str:
    if not chunks:
        return "decode"
    return "prefill" if chunks == items else "mixed"


def _name(pid: int, what: str, name: str, tid: int = REQUESTS) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "ts": 0, "args": {"name": name}}


def _count(pid: int, name: str, ts: float, value: int) -> Event:
    return {"ph": "C", "name": name, "pid": pid, "tid": 0, "ts": ts, "args": {name: value}}
