"""The same, served by the step-wise engine in plain Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planner.kernels.engine.records import (
    FATES,
    NARROW,
    NARROW_SPLIT,
    NEVER,
    WIDE,
    WIDE_SPLIT,
    FleetGaps,
    FleetRecords,
    FleetStages,
    TracedStep,
)
from planner.kernels.stepwise import Colocated, Job, Record, simulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from planner.kernels.engine.records import Traffic
    from planner.kernels.stepwise import Disaggregated, Stages
    from planner.kernels.stepwise.engine import Step
    from planner.kernels.stepwise.stages import Gaps

_LAST_TICK: Final = 2**63 - 1
"""The latest time of a record."""


def run(
    traffic: Traffic,
    setup: Colocated | Disaggregated,
    *,
    token_times: bool,
    keep_steps: bool,
    max_steps: int,
    stages: bool = False,
) -> FleetRecords:
    """Serve checked traffic one loop iteration per step.

    Raises:
        StepLimitError: More than ``max_steps`` steps were scheduled.
        OverflowError: Time passed what a record can hold.
    """
    outcome = simulate(
        jobs(traffic),
        setup,
        keep_steps=keep_steps,
        stages=stages,
        max_steps=max_steps,
        last_tick=_LAST_TICK,
    )
    records = outcome.records
    columns: dict[str, Any] = {
        "fate": np.array([FATES.index(record.fate) for record in records], np.uint8)
    }
    there = isinstance(setup, Colocated)
    for names, dtype, left_out in (
        (WIDE, np.int64, False),
        (NARROW, np.int32, False),
        (WIDE_SPLIT, np.int64, there),
        (NARROW_SPLIT, np.int32, there),
    ):
        for name in names:
            values = [_value(record, name) for record in records]
            columns[name] = None if left_out else np.array(values, dtype)
    return FleetRecords(
        **columns,
        token_times=_token_times(traffic, records) if token_times else None,
        steps=tuple(tuple(map(_traced, engine)) for engine in outcome.steps)
        if keep_steps
        else None,
        n_steps=outcome.n_steps,
        makespan=outcome.makespan,
        stages=FleetStages(*_columns(FleetStages, [r.stages for r in records])) if stages else None,
        gaps=FleetGaps(*_columns(FleetGaps, [r.gaps for r in records])) if stages else None,
    )


def jobs(traffic: Traffic) -> list[Job]:
    """Return the requests in the form of the step-wise engine."""
    starts, names, counts = traffic.prefix_start, traffic.prefix_name, traffic.prefix_count
    found = []
    for i in range(len(traffic.arrival)):
        prefix: list[int] = []
        if starts is not None and names is not None:
            end = starts[i + 1] if counts is None else starts[i] + counts[i]
            prefix = names[starts[i] : end].tolist()
        deadline = None if traffic.deadline is None else int(traffic.deadline[i])
        found.append(
            Job(
                arrival=int(traffic.arrival[i]),
                prompt=int(traffic.prompt[i]),
                output=int(traffic.output[i]),
                max_tokens=None if traffic.limit is None else int(traffic.limit[i]),
                priority=0 if traffic.priority is None else int(traffic.priority[i]),
                deadline=None if deadline == NEVER else deadline,
                prefix=tuple(prefix),
                group=0 if traffic.group is None else int(traffic.group[i]),
                cached=0 if traffic.cached is None else int(traffic.cached[i]),
            )
        )
    return found


def _value(record: Record, name: str) -> int:
    if name == "tokens":
        return len(record.token_times)
    return int(getattr(record, name))


def _columns(
    of: type[FleetStages] | type[FleetGaps], accounts: Sequence[Stages | Gaps | None]
) -> list[NDArray[np.int64]]:
    """Return a column for each name; zeros of requests without an account."""
    return [
        np.array([0 if it is None else getattr(it, name) for it in accounts], np.int64)
        for name in of._fields
    ]


def _token_times(traffic: Traffic, records: tuple[Record, ...]) -> np.ndarray:
    times = np.full(int(traffic.output.sum(dtype=np.int64)), -1, np.int64)
    start = 0
    for output, record in zip(traffic.output.tolist(), records, strict=True):
        times[start : start + len(record.token_times)] = record.token_times
        start += output
    return times


def _traced(step: Step) -> TracedStep:
    items = tuple((i.request.rank, i.new, i.before, i.decode, i.samples) for i in step.items)
    return TracedStep(step.scheduled_at, step.start, step.end, items, step.preempted)
