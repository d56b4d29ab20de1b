"""Late requests of a traced run, stretch by stretch, for pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.spec import Spec

if TYPE_CHECKING:
    from planner.attribution.timeline import Piece
    from planner.attribution.traced import TracedRun


class Stretch(Spec):
    """A stretch of a request's time at one stage."""

    stage: str
    start_s: float
    """Since its arrival."""
    end_s: float


class LateStory(Spec):
    """One late request from arrival to its last token."""

    request: int
    workload: str
    prompt_tokens: int
    output_tokens: int
    ttft_s: float
    first_by_s: float | None
    """Deadline of the first token; null where there is none."""
    cause: str
    """What most of its miss is charged to."""
    stretches: tuple[Stretch, ...]


def late_stories(run: TracedRun, most: int) -> tuple[LateStory, ...]:
    """Tell of late requests that finished: one of each cause first, the worst of each.

    Args:
        run: A traced run.
        most: Of all.
    """
    late = [int(r) for r in run.counted if run.finished[r] and not run.met[r]]
    if not late:
        return ()
    charges = run.charges(run.counted)
    row = {int(rank): i for i, rank in enumerate(run.counted)}
    cause = {r: max(charges, key=lambda name: charges[name][row[r]]) for r in late}
    took = run.records.finish - run.traffic.arrival
    order = sorted(late, key=lambda r: (-int(took[r]), r))
    first = {cause[r]: r for r in reversed(order)}
    chosen = sorted(first.values(), key=order.index)
    chosen += [r for r in order if r not in first.values()]
    pieces = run.timelines(chosen[:most])
    return tuple(
        LateStory(
            request=r,
            workload=run.workloads[int(run.workload[r])],
            prompt_tokens=int(run.traffic.prompt[r]),
            output_tokens=int(run.traffic.output[r]),
            ttft_s=float(run.ttft[r]) * run.tick_s,
            first_by_s=_deadline(run, r),
            cause=cause[r],
            stretches=_stretches(run, pieces[r]),
        )
        for r in chosen[:most]
        if r in pieces
    )


def _deadline(run: TracedRun, rank: int) -> float | None:
    seconds = float(run.first_by[rank]) * run.tick_s
    return seconds if seconds < 1e6 else None


def _stretches(run: TracedRun, pieces: tuple[Piece, ...]) -> tuple[Stretch, ...]:
    """Join neighbours of one stage, in seconds since the first."""
    joined: list[list[float | str]] = []
    for piece in pieces:
        if joined and joined[-1][0] == piece.stage and joined[-1][2] == piece.start:
            joined[-1][2] = piece.end
        else:
            joined.append([piece.stage, piece.start, piece.end])
    begin = pieces[0].start if pieces else 0
    return tuple(
        Stretch(
            stage=str(stage),
            start_s=(float(start) - begin) * run.tick_s,
            end_s=(float(end) - begin) * run.tick_s,
        )
        for stage, start, end in joined
    )
