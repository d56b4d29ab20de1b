"""An engine case served with every step kept, as a run that traces are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from planner.attribution.traced import MOST_TOKENS, TracedRun, no_deadline
from planner.errors import InputError
from planner.kernels.engine import simulate_fleet
from planner.kernels.engine.records import NEVER
from planner.kernels.stepwise import StepLimitError
from planner.simulation.engine_case import MAX_STEPS, case_traffic

if TYPE_CHECKING:
    from planner.simulation.engine_case_format import Case

SECONDS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12}


def trace_case(case: Case, name: str) -> TracedRun:
    """Serve a case; a request's group is its workload, its ``deadline`` that of its first token.

    Args:
        case: What to serve; a unit of time that is none of s, ms, us, ns and ps counts as 1 ns.
        name: What errors call it.

    Raises:
        InputError: The case takes too many steps, too many tokens, or passes the end of time.
    """
    traffic, _ = case_traffic(case)
    if int(traffic.output.astype(np.int64).sum()) > MOST_TOKENS:
        raise InputError(
            f"{name}: more than {MOST_TOKENS:,} output tokens cannot be traced; cut its traffic"
        )
    setup = case.setup()
    try:
        records = simulate_fleet(traffic, setup, stages=True, keep_steps=True, max_steps=MAX_STEPS)
    except (StepLimitError, OverflowError) as error:
        raise InputError(f"{name}: {error}; cut its traffic") from error
    n = traffic.arrival.size
    assert traffic.group is not None
    assert traffic.deadline is not None
    groups, workload = np.unique(traffic.group, return_inverse=True)
    has = traffic.deadline < NEVER
    return TracedRun(
        name=case.name,
        tick_s=SECONDS.get(case.unit, 1e-9),
        traffic=traffic,
        setup=setup,
        records=records,
        workloads=tuple(f"group {group}" for group in groups),
        workload=workload.astype(np.int32),
        models=("",) * groups.size,
        first_by=np.where(has, traffic.deadline - traffic.arrival, NEVER),
        rest_by=no_deadline(n),
        whole_by=no_deadline(n),
        gap_by=no_deadline(n),
        counted=np.arange(n),
    )
