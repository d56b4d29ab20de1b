"""What a pool would carry if nobody's tokens waited for the prompts of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.simulation.capacity import GROWTH_AT_CAPACITY, SCREENING, falling_root
from planner.simulation.pool import run_pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from planner.problem.deadlines import Deadlines
    from planner.simulation.draw import Draw
    from planner.simulation.fleet import Study
    from planner.simulation.pool import Latencies, PoolSetup


def undisturbed_capacity(
    study: Study,
    setup: PoolSetup,
    rates_rps: tuple[float, ...],
    guess: float,
    requests: int,
    check: Callable[[], None] = lambda: None,
) -> float:
    """Return the capacity of a pool if interference were forgiven; within some per cent.

    The engine runs as it does, on the draw of :func:`planner.simulation.capacity.coarse_capacity`;
    requests are judged without what steps shared with others added to their prefill, and without
    what the chunks of others added to their decode steps. Queues and batches stay: what a replica
    cannot carry, it cannot carry undisturbed either.

    Args:
        study: Draws, deadlines and promises of the problem.
        setup: The pool.
        rates_rps: The mix; only proportions matter.
        guess: Total load to start from, requests per second.
        requests: Length of each run.
        check: Called before each run; raises where the time is over.
    """
    draw = study.draws.get(rates_rps, setup.run_requests(0, requests), 0, SCREENING)

    def margin(rate: float) -> float:
        check()
        return _margin(study, setup, draw, rate)

    return falling_root(margin, guess, step=0.15, tolerance=0.03)


def _margin(study: Study, setup: PoolSetup, draw: Draw, rate_rps: float) -> float:
    run = run_pool(setup, draw, rate_rps, study.deadlines, keep=True)
    study.meter.count(run.simulated if draw.closed else draw.gap.size)
    assert run.latencies is not None  # asked for
    good = met_undisturbed(run.latencies, study.deadlines)
    compliant = np.bincount(run.latencies.workload[good], minlength=run.offered.size)
    asked = run.offered > 0
    spare = compliant[asked] / run.offered[asked] - np.array(study.promise)[asked]
    return min(float(spare.min(initial=1.0)), GROWTH_AT_CAPACITY - run.backlog_growth)


def met_undisturbed(kept: Latencies, deadlines: Deadlines) -> NDArray[np.bool_]:
    """Tell which requests would meet all deadlines undisturbed; whoever meets them does so too.

    Args:
        kept: Completed requests with their parts, shape ``(n,)``.
        deadlines: Of each workload.
    """
    parts, gaps = kept.parts, kept.gaps
    assert parts is not None  # the caller asked for them
    first = parts.queue + parts.kv_block_wait + parts.prefill + parts.preemption_before
    first = first + parts.kv_transfer + parts.handoff
    first = first + np.minimum(parts.prefill_interference, 0)  # where sharing was a gain
    rest = parts.decode_solo + parts.decode_batch + parts.preemption_after
    rest = rest + np.minimum(parts.decode_interference, 0)
    longest = None
    if gaps is not None:
        longest = np.minimum(np.maximum(gaps.unstalled, gaps.preempted), gaps.longest)
    return deadlines.met(kept.workload, (kept.prompt, kept.output), first, rest, longest)
