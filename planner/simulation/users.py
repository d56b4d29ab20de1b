"""Users who wait for their answers, simulated together with the pool that gives them.

Each user sends a request, waits for its last token, thinks, and asks again; requests of other
workloads come beside them by themselves. Load is counted in users, so twice the load is twice
the users, each as patient as before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from planner.kernels import Sources, simulate_users
from planner.simulation.arrivals import UserStream
from planner.simulation.draw import HORIZON_S, Traffic

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from planner.kernels import Records
    from planner.simulation.arrivals import Stream
    from planner.simulation.draw import Draw
    from planner.simulation.pool import PoolSetup

    Floats = NDArray[np.float64]

CYCLES: Final = 8
"""Requests of each user in a run, at least: fewer would not tell what waiting does to the rate."""
MOST_REQUESTS: Final = 4_000_000
"""Requests of a run at most; users who think so long that this is too short for ``CYCLES`` hardly
notice their waiting."""


def serve_users(
    setup: PoolSetup, draw: Draw, rate_rps: float, *, stages: bool, gaps: bool = False
) -> tuple[Traffic, Records]:
    """Run a pool of ``setup.simulated`` replicas for users, and others, at a total load.

    A draw with too few requests for its users is gone through again. A part of a user counts as
    a whole one.

    Args:
        setup: The pool.
        draw: Closed.
        rate_rps: Load of the replicas that are simulated, a user counting as its law says.
        stages: Record all stages.
        gaps: Record the longest times between tokens.

    Returns:
        The requests that were sent, in order of sending, and their records.
    """
    mine = [np.flatnonzero(draw.workload == w) for w, _, _ in draw.streams]
    users = [
        max(int(np.ceil(rate_rps * share / stream.law.user_rps - 1e-9)), 1)
        if isinstance(stream, UserStream)
        else 0
        for _, share, stream in draw.streams
    ]
    rounds = max(-(-CYCLES * u // own.size) for u, own in zip(users, mine, strict=True))
    rounds = int(np.clip(rounds, 1, max(MOST_REQUESTS // draw.workload.size, 1)))
    parts = [
        _part(draw, stream, rate_rps * share, own, rounds)
        for (_, share, stream), own in zip(draw.streams, mine, strict=True)
    ]
    starts = [_starts(part.think_s, u) for part, u in zip(parts, users, strict=True) if u > 0]
    source = np.repeat(np.arange(len(parts), dtype=np.int32), [p.row.size for p in parts])
    prompt = np.concatenate([part.prompt for part in parts])
    output = np.concatenate([part.output for part in parts])
    sent_ps, records = simulate_users(
        setup.law,
        setup.limits,
        _ps([part.ready_s for part in parts]),
        prompt,
        output,
        Sources(source, np.array(users, np.int64)),
        _ps(starts),
        _ps([part.think_s for part in parts]),
        replicas=setup.simulated,
        router=setup.router,
        stages=stages,
        gaps=gaps,
    )
    order = np.argsort(sent_ps, kind="stable")
    order = order[np.searchsorted(sent_ps[order], 0) :]
    workload = draw.workload[np.concatenate([part.row for part in parts])[order]]
    traffic = Traffic(sent_ps[order], workload, prompt[order], output[order])
    return traffic, _chosen(records, order)


class _Part(NamedTuple):
    """The requests of one stream; arrays of shape ``(n,)``."""

    ready_s: Floats
    """When each comes, or 0 where a user sends it."""
    think_s: Floats
    """What its user thinks after it."""
    row: NDArray[np.int64]
    """In the draw."""
    prompt: NDArray[np.int32]
    output: NDArray[np.int32]


def _part(
    draw: Draw, stream: Stream, load_rps: float, own: NDArray[np.int64], rounds: int
) -> _Part:
    """Return the requests of one stream, gone through several times."""
    if isinstance(stream, UserStream):
        pause = np.tile(_pauses(stream, load_rps, own.size * rounds), rounds)
        row = np.tile(own, rounds)
        return _Part(np.zeros(row.size), pause, row, draw.prompt[row], draw.output[row])
    arrived = stream.at(load_rps)
    time_s = arrived.time_s[: own.size]
    n = time_s.size
    prompt, output = arrived.lengths or (draw.prompt[own], draw.output[own])
    span_s = float(time_s[-1]) + 1 / load_rps
    at = np.tile(time_s, rounds) + np.repeat(np.arange(rounds), n) * span_s
    at *= min(HORIZON_S / 4 / at[-1], 1.0)
    row, prompt, output = own[:n], prompt[:n], output[:n]
    return _Part(
        at,
        np.zeros(at.size),
        np.tile(row, rounds),
        np.tile(prompt, rounds),
        np.tile(output, rounds),
    )


def _pauses(stream: UserStream, load_rps: float, n: int) -> Floats:
    """Return times to think; shorter where the run would pass the horizon, as they never meet."""
    whole = HORIZON_S / 4 * load_rps / n
    return stream.think_s * min(whole, 1.0)


def _starts(pause: Floats, users: int) -> Floats:
    """Return when users who are all thinking at time 0 ask first: what is left of their pauses."""
    ends = np.cumsum(pause)
    at = (np.arange(users) + 0.5) / users * ends[-1]
    return np.asarray(ends[np.minimum(np.searchsorted(ends, at), ends.size - 1)] - at)


def _ps(parts: list[Floats]) -> NDArray[np.int64]:
    return np.rint(np.concatenate(parts) * 1e12).astype(np.int64)


def _chosen(records: Records, order: NDArray[np.int64]) -> Records:
    """Return the records of some requests, in this order."""

    def rows(part: Any) -> Any:
        return part[order] if isinstance(part, np.ndarray) else part

    stages, gaps = records.stages, records.gaps
    chosen = records._replace(**{name: rows(part) for name, part in records._asdict().items()})
    if stages is not None:
        chosen = chosen._replace(stages=type(stages)(*(rows(part) for part in stages)))
    if gaps is not None:
        chosen = chosen._replace(gaps=type(gaps)(*(rows(part) for part in gaps)))
    return chosen
