"""A fleet of engines: the checked front of the compiled and the plain simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.kernels.engine import compiled, plain
from planner.kernels.engine.checks import check
from planner.kernels.engine.magnitude import fits_64_bits
from planner.kernels.stepwise.run import DEFAULT_MAX_STEPS

if TYPE_CHECKING:
    from planner.kernels.engine.records import FleetRecords, Traffic
    from planner.kernels.stepwise.options import Colocated, Disaggregated


def simulate_fleet(
    traffic: Traffic,
    setup: Colocated | Disaggregated,
    *,
    token_times: bool = False,
    keep_steps: bool = False,
    stages: bool = False,
    max_steps: int = DEFAULT_MAX_STEPS,
) -> FleetRecords:
    """Serve all requests on a fleet of engines with any options, exactly, step by step.

    Compiled code serves what fits 64 bits, if there is any; plain Python, some thousand times
    slower, the rest. Both give what :func:`planner.kernels.stepwise.simulate` gives, which
    states the order of simultaneous events. An engine of kind v1, synchronous or asynchronous,
    with room in a step for all its seats, takes many decode steps at once where nothing else
    can happen; any other engine, one that is traced, pipeline stages and lock-step ranks go step
    by step. With accounts so do asynchronous engines and laws by which more can take less time.

    Args:
        traffic: What arrives.
        setup: Engines, step laws, routers and link.
        token_times: Whether the time of each token is returned: 8 bytes each.
        keep_steps: Whether every step is returned: much slower, and large.
        stages: Whether it is told where the time of each request went.
        max_steps: Steps after which to give up.

    Returns:
        One row per request, and totals. The same arguments give the same result.

    Raises:
        StepLimitError: More than ``max_steps`` steps were scheduled. The tick that it tells may
            be later than that of the step that was one too many.
        OverflowError: Time passed what a record can hold, 2**63 - 1 ticks.
        ValueError: Arrays of wrong type, shape or order, numbers out of range, or options that
            do not go together.
    """
    check(traffic, setup)
    if compiled.COMPILED and fits_64_bits(traffic, setup):
        try:
            return compiled.run(
                traffic,
                setup,
                token_times=token_times,
                keep_steps=keep_steps,
                stages=stages,
                max_steps=max_steps,
            )
        except OverflowError:  # the clock left 64 bits: Python's integers are longer
            pass
    return plain.run(
        traffic,
        setup,
        token_times=token_times,
        keep_steps=keep_steps,
        stages=stages,
        max_steps=max_steps,
    )
