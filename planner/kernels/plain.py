"""The simulator of ``native/`` in plain Python: same algorithm, same numbers to the bit.

For machines without a compiler, and as a second opinion on the compiled one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from planner.kernels.plain_gaps import GapColumns
from planner.kernels.plain_pool import PlainPool
from planner.kernels.plain_replica import Columns, Totals, Traffic, drain, replica
from planner.kernels.records import LAST_PS, Gaps, Records, Stages

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from planner.kernels.records import Law, Limits


def run(
    law: Law,
    limits: Limits,
    arrival_ps: NDArray[np.int64],
    prompt_tokens: NDArray[np.int32],
    output_tokens: NDArray[np.int32],
    replicas: int,
    router: int,
    *,
    stages: bool = False,
    gaps: bool = False,
) -> Records:
    """Simulate one pool; arguments as :func:`planner.kernels.simulate_pool`, already checked.

    Args:
        law: Time of a step.
        limits: Limits of each replica.
        arrival_ps: Shape ``(n,)``, ascending.
        prompt_tokens: Shape ``(n,)``.
        output_tokens: Shape ``(n,)``.
        replicas: Number of replicas.
        router: 0 round robin, 1 least outstanding.
        stages: Record all stages of each request.
        gaps: Record the longest times between tokens of each request.

    Raises:
        OverflowError: Simulated time passed ``LAST_PS``.
    """
    traffic, columns = lists(arrival_ps, prompt_tokens, output_tokens)
    rows = gap_columns(len(arrival_ps)) if gaps else None
    served: NDArray[np.int32]
    if router == 0:
        served, totals = _run_by_turns(law, limits, traffic, columns, replicas, rows)
    else:
        pool = PlainPool(law, limits, traffic, columns, replicas, router, LAST_PS, rows)
        served = np.array([pool.push(request) for request in range(len(arrival_ps))], np.int32)
        totals = pool.drain()
    return records(law, traffic, columns, served, totals, stages=stages, gaps=rows)


def lists(
    arrival_ps: NDArray[np.int64],
    prompt_tokens: NDArray[np.int32],
    output_tokens: NDArray[np.int32],
) -> tuple[Traffic, Columns]:
    """Return requests, and room for their records, as plain lists."""
    n = len(arrival_ps)
    final = prompt_tokens.astype(np.int64) + output_tokens - 1
    traffic = Traffic(
        arrival=arrival_ps.tolist(),
        prompt=prompt_tokens.tolist(),
        output=output_tokens.tolist(),
        final=final.tolist(),
        generated=[0] * n,
    )
    return traffic, Columns(*([start] * n for start in (-1, -1, -1, 0, 0, 0, 0, 0, 0, 0)))


def gap_columns(n: int) -> GapColumns:
    """Return room for the longest gaps of requests."""
    return GapColumns(*([0] * n for _ in GapColumns._fields))


def _gaps(rows: GapColumns, served: NDArray[np.int32]) -> Gaps:
    columns = (np.asarray(values, np.int64) for values in rows)
    return Gaps(*(np.where(served >= 0, column, np.int64(-1)) for column in columns))


def _run_by_turns(
    law: Law,
    limits: Limits,
    traffic: Traffic,
    columns: Columns,
    replicas: int,
    gaps: GapColumns | None,
) -> tuple[NDArray[np.int32], list[Totals]]:
    """Deal requests in turn: replicas do not depend on each other and run one by one."""
    fits = np.array(traffic.final, np.int64) <= limits.kv_blocks * limits.block_size
    served = np.where(fits, np.arange(len(fits)) % replicas, -1).astype(np.int32)
    level = law.tokens_ps.tolist()
    totals = []
    for index in range(replicas):
        inbox = np.flatnonzero(served == index).tolist()
        member = replica(law, level, limits, traffic, columns, inbox, [], set(), LAST_PS, gaps)
        next(member)
        totals.append(drain(member))
    return served, totals


def records(
    law: Law,
    traffic: Traffic,
    columns: Columns,
    served: NDArray[np.int32],
    totals: list[Totals],
    *,
    stages: bool,
    gaps: GapColumns | None = None,
) -> Records:
    """Return records from what the replicas wrote.

    Args:
        law: Time of a step.
        traffic: All requests.
        columns: Their columns.
        served: Replica of each, -1 where rejected; shape ``(n,)``.
        totals: Of each replica.
        stages: With all stages.
        gaps: Their longest gaps, if those were kept.
    """
    column = [
        np.where(served >= 0, np.asarray(values, np.int64), np.int64(-1)) for values in columns
    ]
    return Records(
        first_scheduled_ps=column[0],
        first_token_ps=column[1],
        finish_ps=column[2],
        decode_stall_ps=column[3],
        preempted_ps=column[4],
        preemptions=column[5].astype(np.int32),
        replica=served,
        steps=sum(t.steps for t in totals),
        events=sum(t.events for t in totals),
        busy_ps=sum(t.busy_ps for t in totals),
        peak_kv_blocks=max(t.peak_kv_blocks for t in totals),
        stages=_stages(law, traffic, column, served) if stages else None,
        gaps=None if gaps is None else _gaps(gaps, served),
    )


def _stages(
    law: Law, traffic: Traffic, column: list[NDArray[np.int64]], served: NDArray[np.int32]
) -> Stages:
    arrival, prompt, output = (np.array(row, np.int64) for row in traffic[:3])
    rows = stages_of(law, arrival, prompt, output, column)[:6]
    return Stages(*(np.where(served >= 0, row, np.int64(-1)) for row in rows))


def stages_of(
    law: Law, arrival: Any, prompt: Any, output: Any, columns: Iterable[Any]
) -> tuple[Any, ...]:
    """Return all eight stages: those of ``Stages``, then stall and preempted.

    Args:
        law: Time of a step.
        arrival: Of one request, an int, or of many, a row of int64.
        prompt: In the same shape.
        output: In the same shape.
        columns: What ``Columns`` holds for it or them, in the same shape and in its order.
    """
    scheduled, first, finish, stall, preempted, _, blocked, own, early, lost = columns
    steps = output - 1
    solo = (
        steps * (int(law.tokens_ps[1]) + law.sequence_ps)
        + law.context_ps * (steps * prompt + steps * (steps + 1) // 2)
        - lost
    )
    return (
        scheduled - arrival - blocked,
        blocked,
        own,
        first - scheduled - early - own,
        solo,
        finish - first - (preempted - early) - solo - stall,
        stall,
        preempted,
    )
