"""One pool of equal replicas under one draw of requests: who is compliant, who is late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.kernels import simulate_pool

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.kernels import Law, Limits, Records
    from planner.simulation.draw import Draw

WARM_UP: Final = 0.05
"""Share of a run's requests that are not counted: the pool starts empty, which flatters."""
COOL_DOWN: Final = 0.02
"""Share at the end that is not counted: nobody arrives behind them, which flatters too."""
MOST_REPLICAS: Final = 64
"""Larger pools are simulated as this many replicas at the same load each: routing among fewer
is a little worse, so the answer is not optimistic."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Deadlines by workload, in ps, and its model's context; arrays of shape ``(workloads,)``."""

    ttft_ps: NDArray[np.int64]
    tpot_ps: NDArray[np.int64]
    context_tokens: NDArray[np.int64]
    """A request longer than this, prompt and output, is refused: a miss."""


@dataclass(frozen=True, slots=True)
class PoolSetup:
    """How a pool is built: numbers for the kernel."""

    law: Law
    limits: Limits
    replicas: int
    router: str


@dataclass(frozen=True, slots=True)
class PoolRun:
    """What one run of a pool showed. Counts are by workload, warm-up and cool-down removed."""

    offered: NDArray[np.int64]
    compliant: NDArray[np.int64]
    unstable: bool
    """The backlog trends upward: nothing here is an average of a steady state."""
    busy_share: float
    tokens_per_request: float
    records: Records
    draw: Draw
    arrival_ps: NDArray[np.int64]

    @property
    def attainment(self) -> NDArray[np.float64]:
        """Compliant / offered by workload; 1 where nothing was offered."""
        return np.where(self.offered > 0, self.compliant / np.maximum(self.offered, 1), 1.0)

    def latencies_s(self, workload: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return TTFT and TPOT of the counted, completed requests of a workload, in seconds."""
        counted = _counted(self.draw.gap.size)
        mine = (self.draw.workload[counted] == workload) & (self.records.finish_ps[counted] >= 0)
        first = self.records.first_token_ps[counted][mine]
        ttft = first - self.arrival_ps[counted][mine]
        span = self.records.finish_ps[counted][mine] - first
        steps = np.maximum(self.draw.output[counted][mine] - 1, 1)
        return ttft * 1e-12, span * 1e-12 / steps


def _counted(n: int) -> slice:
    return slice(int(n * WARM_UP), n - int(n * COOL_DOWN))


def run_pool(setup: PoolSetup, draw: Draw, rate_rps: float, deadlines: Deadlines) -> PoolRun:
    """Simulate a pool under a total load in requests per second."""
    replicas = min(setup.replicas, MOST_REPLICAS)
    arrival = draw.arrival_ps(rate_rps * replicas / setup.replicas)
    records = simulate_pool(
        setup.law,
        setup.limits,
        arrival,
        draw.prompt,
        draw.output,
        replicas=replicas,
        router=setup.router,
    )
    counted = _counted(arrival.size)
    workload = draw.workload[counted]
    first, finish = records.first_token_ps[counted], records.finish_ps[counted]
    allowed = deadlines.tpot_ps[workload] * (draw.output[counted].astype(np.int64) - 1)
    length = draw.prompt[counted].astype(np.int64) + draw.output[counted]
    good = (
        (finish >= 0)
        & (length <= deadlines.context_tokens[workload])
        & (first - arrival[counted] <= deadlines.ttft_ps[workload])
        & (finish - first <= allowed)
    )
    classes = deadlines.ttft_ps.size
    span_ps = max(int(records.finish_ps.max(initial=0)), 1)
    return PoolRun(
        offered=np.bincount(workload, minlength=classes),
        compliant=np.bincount(workload[good], minlength=classes),
        unstable=backlog_grows(arrival, records.first_scheduled_ps),
        busy_share=records.busy_ps / span_ps / replicas,
        tokens_per_request=float(draw.prompt.mean() + draw.output.mean()),
        records=records,
        draw=draw,
        arrival_ps=arrival,
    )


def backlog_grows(arrival_ps: NDArray[np.int64], start_ps: NDArray[np.int64]) -> bool:
    """Tell whether waiting times trend upward over a run.

    In an overloaded queue the wait grows by 1 - (capacity / load) per unit of time; here the
    growth between the second and the last quarter must exceed 1 % of the time between them.
    """
    served = start_ps >= 0
    wait = (start_ps - arrival_ps)[served].astype(np.float64)
    n = wait.size
    if n < 100:
        return False
    when = arrival_ps[served].astype(np.float64)
    early, late = slice(n // 4, n // 2), slice(n - n // 4, n)
    growth = wait[late].mean() - wait[early].mean()
    return bool(growth > 0.01 * (when[late].mean() - when[early].mean()))
