"""A fleet of engines: the checked front of the compiled and the plain simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planner.kernels.engine import compiled, plain
from planner.kernels.engine.records import NEVER, Traffic
from planner.kernels.stepwise.options import Colocated
from planner.kernels.stepwise.run import DEFAULT_MAX_STEPS

if TYPE_CHECKING:
    from planner.kernels.engine.records import FleetRecords
    from planner.kernels.stepwise.law import StepLaw
    from planner.kernels.stepwise.options import Disaggregated, EngineOptions, RouterOptions

_MOST: Final = 2**30
"""Counts of any kind, in the compiled simulator."""
_LAST: Final = 2**62
"""Sums of ticks, in the compiled simulator."""


def simulate_fleet(
    traffic: Traffic,
    setup: Colocated | Disaggregated,
    *,
    token_times: bool = False,
    keep_steps: bool = False,
    max_steps: int = DEFAULT_MAX_STEPS,
) -> FleetRecords:
    """Serve all requests on a fleet of engines with any options, exactly, step by step.

    Compiled code serves what fits 64 bits, if there is any; plain Python, some thousand times
    slower, the rest. Both give what :func:`planner.kernels.stepwise.simulate` gives, which
    states the order of simultaneous events. An engine of kind v1 with one step in flight, and
    room in a step for all its seats, takes many decode steps at once where nothing else can
    happen; any other engine, one that is traced, and lock-step ranks go step by step.

    Args:
        traffic: What arrives.
        setup: Engines, step laws, routers and link.
        token_times: Whether the time of each token is returned: 8 bytes each.
        keep_steps: Whether every step is returned: much slower, and large.
        max_steps: Steps after which to give up.

    Returns:
        One row per request, and totals. The same arguments give the same result.

    Raises:
        StepLimitError: More than ``max_steps`` steps were scheduled. The tick that it tells may
            be later than that of the step that was one too many.
        ValueError: Arrays of wrong type, shape or order, numbers out of range, or options that
            do not go together.
    """
    _check_traffic(traffic)
    if isinstance(setup, Colocated):
        sides = [(setup.engine, setup.law, setup.router, setup.replicas)]
        lock_step = setup.lock_step and setup.engine.depth > 1
        _check(not lock_step, "lock_step: needs one step in flight: no async_scheduling, no PP")
    else:
        sides = [
            (setup.prefill, setup.prefill_law, setup.prefill_router, setup.n_prefill),
            (setup.decode, setup.decode_law, setup.decode_router, setup.n_decode),
        ]
        _check(setup.decode.kind == "v1", "decode: only an engine of kind v1 can receive KV")
        link = setup.link
        _check(min(setup.hop, link.ticks_per_token, link.latency) >= 0, "link: must not be < 0")
    for options, law, router, replicas in sides:
        _check(replicas >= 1, "replicas: must be at least 1")
        _check_options(options)
        _check_law(law)
        _check_router(router, replicas)
    traffic = Traffic(*(a if a is None else np.ascontiguousarray(a) for a in traffic))
    if compiled.COMPILED and _fits(traffic, setup, [side[:2] for side in sides]):
        try:
            return compiled.run(
                traffic,
                setup,
                token_times=token_times,
                keep_steps=keep_steps,
                max_steps=max_steps,
            )
        except OverflowError:  # the clock left 64 bits: Python's integers are longer
            pass
    return plain.run(
        traffic, setup, token_times=token_times, keep_steps=keep_steps, max_steps=max_steps
    )


def _check(holds: bool | np.bool_, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _check_traffic(traffic: Traffic) -> None:
    n = len(traffic.arrival)
    wide = ("arrival", "deadline", "prefix_start")
    for name, array in traffic._asdict().items():
        if array is None:
            continue
        dtype = np.int64 if name in wide else np.int32
        good = isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype == dtype
        _check(good, f"{name}: expected one row of {dtype.__name__}")
        length = n + 1 if name == "prefix_start" else n
        _check(len(array) == length or name == "prefix_name", f"{name}: expected {length} entries")
    _check((traffic.prefix_start is None) == (traffic.prefix_name is None), "prefix: one is missing")
    _check(n <= _MOST, "arrival: at most 2**30 requests")
    if n == 0:
        return
    _check((traffic.arrival[1:] >= traffic.arrival[:-1]).all(), "arrival: must ascend")
    _check(0 <= traffic.arrival[0], "arrival: must not be negative")
    _check(traffic.prompt.min() >= 1, "prompt: must be at least 1")
    _check(traffic.output.min() >= 1, "output: must be at least 1")
    _check_optional(traffic)


def _check_optional(traffic: Traffic) -> None:
    limit, group, deadline = traffic.limit, traffic.group, traffic.deadline
    _check(limit is None or (limit >= traffic.output).all(), "limit: must not be below output")
    _check(group is None or group.min() >= 0, "group: must not be negative")
    late = deadline is None or (0 <= deadline.min() and deadline.max() <= NEVER)
    _check(late, "deadline: must be from 0 to 2**62")
    starts, names = traffic.prefix_start, traffic.prefix_name
    if starts is None or names is None:
        return
    ends = starts[0] == 0 and starts[-1] == len(names)
    _check(ends and (starts[1:] >= starts[:-1]).all(), "prefix_start: must go from 0 to the end")
    if len(names):
        _check(0 <= names.min() and names.max() < _MOST, "prefix_name: must be from 0 to 2**30")


def _check_options(options: EngineOptions) -> None:
    for name in ("max_num_seqs", "max_num_batched_tokens", "block_size", "pp_degree"):
        _check(getattr(options, name) >= 1, f"{name}: must be at least 1")
    for name in ("long_prefill_token_threshold", "watermark_blocks"):
        _check(getattr(options, name) >= 0, f"{name}: must not be negative")
    usable = options.usable_blocks
    _check(usable is None or usable >= 0, "usable_blocks: must not be negative")
    if options.kind != "v1":
        for name in ("prefix_caching", "async_scheduling"):
            _check(not getattr(options, name), f"{name}: is an option of kind v1")
        _check(options.pp_degree == 1, "pp_degree: is an option of kind v1")


def _check_law(law: StepLaw) -> None:
    n = [knot[0] for knot in law.knots]
    _check(len(n) >= 1 and n[0] >= 0, "law: needs knots from n = 0 on")
    _check(all(a < b for a, b in zip(n, n[1:], strict=False)), "law: the n of knots must ascend")
    _check(law.shift >= 0, "law: shift must not be negative")


def _check_router(router: RouterOptions, replicas: int) -> None:
    if router.route not in ("by_length", "by_class"):
        return
    groups = router.groups
    _check(bool(groups) and all(groups), f"router {router.route}: needs groups, none of them empty")
    inside = all(0 <= index < replicas for group in groups for index in group)
    _check(inside, "router: groups name a replica that does not exist")
    edges = router.boundaries
    _check(list(edges) == sorted(edges), "router: boundaries must ascend")


def _fits(
    traffic: Traffic,
    setup: Colocated | Disaggregated,
    sides: list[tuple[EngineOptions, StepLaw]],
) -> bool:
    """Tell whether every sum of the compiled simulator but the clock stays in 64 bits."""
    n = len(traffic.arrival)
    if n == 0:
        return True
    limit = traffic.output if traffic.limit is None else traffic.limit
    longest = int(traffic.prompt.max()) + int(limit.max())
    far = [int(traffic.arrival[-1])]
    if not isinstance(setup, Colocated):
        link = setup.link
        far += [setup.hop, link.latency, link.ticks_per_token * longest]
    return (
        longest < 2**31
        and max(far) < _LAST // 4
        and all(_options_fit(options) and _law_fits(law, options, n, longest)
                for options, law in sides)
    )


def _options_fit(options: EngineOptions) -> bool:
    counts: list[Any] = [
        options.max_num_seqs,
        options.max_num_batched_tokens,
        options.block_size,
        options.usable_blocks or 0,
        options.long_prefill_token_threshold,
        options.watermark_blocks,
    ]
    return max(counts) <= _MOST and options.pp_degree <= 2**10


def _law_fits(law: StepLaw, options: EngineOptions, n: int, longest: int) -> bool:
    """Bound each term of the law by the most that one step can hold."""
    seats = min(options.max_num_seqs, n)
    tokens = options.max_num_batched_tokens + seats
    context = seats * longest
    knots = law.knots
    if knots[-1][0] > 2**31 or law.shift > 60:
        return False
    steepest = max(
        (abs(t1 - t0) // (n1 - n0) + 1 for (n0, t0), (n1, t1) in zip(knots, knots[1:], strict=False)),
        default=0,
    )
    highest = max(abs(t) for _, t in knots) + steepest * max(tokens, knots[-1][0])
    step = (
        highest
        + abs(law.c_x) * min(tokens, context) * 2 * longest
        + abs(law.c_k) * context
        + abs(law.c_n) * seats
        + abs(law.c_c) * context
    )
    width = max((n1 - n0 for (n0, _), (n1, _) in zip(knots, knots[1:], strict=False)), default=1)
    return step < _LAST // 4 and width * max(tokens, knots[-1][0]) < _LAST
