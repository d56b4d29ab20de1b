"""The compiled fleet simulator, if there is one that was built from the sources beside it."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import numpy as np

from planner.kernels.compiled import sources_digest
from planner.kernels.engine.records import (
    NARROW,
    NARROW_SPLIT,
    WIDE,
    WIDE_SPLIT,
    ZERO,
    FleetGaps,
    FleetRecords,
    FleetStages,
    TracedStep,
)
from planner.kernels.stepwise.options import Colocated, EngineOptions, Kind, Policy, Route
from planner.kernels.stepwise.run import StepLimitError

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import NDArray

    from planner.kernels.engine.records import Traffic
    from planner.kernels.stepwise.law import StepLaw
    from planner.kernels.stepwise.options import Disaggregated, RouterOptions

_NATIVE: Final = Path(__file__).parents[1] / "native"
_KINDS: Final = get_args(Kind)
_POLICIES: Final = get_args(Policy)
_ROUTES: Final = get_args(Route)


def _load() -> tuple[ModuleType | None, str]:
    if os.environ.get("PLANNER_PURE_PYTHON", "") not in ("", "0"):
        return None, "step-wise simulator in plain Python: PLANNER_PURE_PYTHON is set"
    slow = "step-wise simulator in plain Python, some thousand times slower"
    mend = "reinstall with a C++17 compiler at hand"
    try:
        module = import_module("planner.kernels._engine")
    except ImportError as error:
        return None, f"{slow}: {error}; {mend}"
    sources = f"{sources_digest(_NATIVE)}-{sources_digest(_NATIVE / 'engine')}"
    if getattr(module, "SOURCES", None) != sources:
        return None, f"{slow}: the compiled one was built from other sources; {mend}"
    return module, "compiled fleet simulator"


_module, STATUS = _load()
COMPILED: Final = _module is not None


def run(
    traffic: Traffic,
    setup: Colocated | Disaggregated,
    *,
    token_times: bool,
    keep_steps: bool,
    max_steps: int,
    literal: bool = False,
    stages: bool = False,
) -> FleetRecords:
    """Serve checked traffic without holding the GIL.

    Args:
        traffic: What arrives.
        setup: Engines, step laws, routers and link.
        token_times: Whether the time of each token is returned.
        keep_steps: Whether every step is returned.
        max_steps: Steps after which to give up.
        literal: Whether every step is simulated on its own, though the result is the same.
        stages: Whether it is told where the time of each request went.

    Returns:
        As :func:`planner.kernels.engine.simulate_fleet`.

    Raises:
        ImportError: There is no compiled simulator; ``STATUS`` says why.
        OverflowError: Simulated time left 64 bits.
        StepLimitError: More than ``max_steps`` steps were scheduled.
        ValueError: A value is out of the range of the compiled simulator.
    """
    if _module is None:
        raise ImportError(STATUS)
    n = len(traffic.arrival)
    split = not isinstance(setup, Colocated)
    columns = _columns(n, split=split)
    times = np.full(int(traffic.output.sum(dtype=np.int64)), -1, np.int64) if token_times else None
    engines = setup.replicas if isinstance(setup, Colocated) else setup.engines
    n_steps = np.zeros(engines, np.int64)
    there = len(FleetStages._fields)
    rows = np.zeros((there + len(FleetGaps._fields), n), np.int64) if stages else None
    names = traffic.prefix_name
    first, decode = _sides(setup)
    head = _topology(setup)
    numbers = [*head, max_steps, literal, 0 if names is None or not len(names) else names.max() + 1]
    for options, law in (first[:2], decode[:2]):
        numbers += _options(options)
        numbers += [law.c_x, law.c_k, law.c_n, law.c_c, law.shift]
    ended = _module.simulate(
        _flat(numbers),
        (_knots(first[1]), _knots(decode[1])),
        (_router(first[2]), _router(decode[2])),
        tuple(None if array is None else np.ascontiguousarray(array) for array in traffic),
        (columns["fate"], *map(columns.get, (*WIDE, *WIDE_SPLIT, *NARROW, *NARROW_SPLIT))),
        n_steps,
        times,
        None if rows is None else rows.reshape(-1),
        keep_steps,
    )
    if isinstance(ended, int):
        raise StepLimitError(f"more than {max_steps} steps by tick {ended}")
    return FleetRecords(
        **columns,
        token_times=times,
        steps=_steps(engines, *ended) if keep_steps else None,
        n_steps=tuple(n_steps.tolist()),
        makespan=int(columns["finish"].max()) if n else 0,
        stages=None if rows is None else FleetStages(*rows[:there]),
        gaps=None if rows is None else FleetGaps(*rows[there:]),
    )


def _columns(n: int, *, split: bool) -> dict[str, Any]:
    columns: dict[str, Any] = {"fate": np.zeros(n, np.uint8)}
    for names, dtype, there in (
        (WIDE, np.int64, True),
        (NARROW, np.int32, True),
        (WIDE_SPLIT, np.int64, split),
        (NARROW_SPLIT, np.int32, split),
    ):
        for name in names:
            columns[name] = np.full(n, 0 if name in ZERO else -1, dtype) if there else None
    return columns


_Side = tuple[EngineOptions, "StepLaw", "RouterOptions"]


def _sides(setup: Colocated | Disaggregated) -> tuple[_Side, _Side]:
    if isinstance(setup, Colocated):
        side = (setup.engine, setup.law, setup.router)
        return side, side
    return (
        (setup.prefill, setup.prefill_law, setup.prefill_router),
        (setup.decode, setup.decode_law, setup.decode_router),
    )


def _topology(setup: Colocated | Disaggregated) -> list[int]:
    if isinstance(setup, Colocated):
        ranks = setup.ranks or setup.replicas
        return [int(setup.lock_step), setup.replicas, setup.replicas, ranks, 1, 0, 0, 0, 0, 1]
    mode = 2 if setup.mode == "nixl_pull" else 3
    link = setup.link
    return [
        *(mode, setup.groups * setup.n_prefill, setup.groups * setup.n_decode, 1, setup.groups),
        *(setup.hop, link.ticks_per_token, link.latency, link.sharing == "fair", link.channels),
    ]


def _options(options: EngineOptions) -> list[int]:
    usable = options.usable_blocks
    return [
        options.max_num_seqs,
        options.max_num_batched_tokens,
        _KINDS.index(options.kind),
        options.block_size,
        -1 if usable is None else usable,
        options.enable_chunked_prefill,
        options.long_prefill_token_threshold,
        options.reserve_full_isl,
        options.watermark_blocks,
        _POLICIES.index(options.policy),
        options.prefix_caching,
        options.async_scheduling,
        options.pp_degree,
    ]


def _router(router: RouterOptions) -> NDArray[np.int64]:
    slack = -1 if router.slack is None else router.slack
    numbers = [_ROUTES.index(router.route), slack, len(router.boundaries), *router.boundaries]
    groups = router.groups if router.route in ("by_length", "by_class") else ()
    numbers.append(len(groups))
    for group in groups:
        numbers += [len(group), *group]
    return _flat(numbers)


@lru_cache(maxsize=64)
def _knots(law: StepLaw) -> NDArray[np.int64]:
    """Return the knots in one row; kept, as a law of thousands of knots serves many runs."""
    return _flat(number for knot in law.knots for number in knot)


def _flat(numbers: Any) -> NDArray[np.int64]:
    return np.array([int(number) for number in numbers], np.int64)


def _steps(
    engines: int, steps: bytes, items: bytes, preempted: bytes
) -> tuple[tuple[TracedStep, ...], ...]:
    """Sort the rows of ``native/engine/trace.hpp`` by engine."""
    kept: list[list[TracedStep]] = [[] for _ in range(engines)]
    rows = iter(np.frombuffer(items, np.int64).reshape(-1, 5).tolist())
    ranks = iter(np.frombuffer(preempted, np.int64).tolist())
    for row in np.frombuffer(steps, np.int64).reshape(-1, 6).tolist():
        engine, scheduled_at, start, end, n_items, n_preempted = row
        scheduled = []
        for _ in range(n_items):
            rank, new, before, decode, samples = next(rows)
            scheduled.append((rank, new, before, bool(decode), bool(samples)))
        victims = tuple(next(ranks) for _ in range(n_preempted))
        kept[engine].append(TracedStep(scheduled_at, start, end, tuple(scheduled), victims))
    return tuple(map(tuple, kept))
