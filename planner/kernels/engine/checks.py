"""What a fleet and its traffic must fulfil before anything is simulated."""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.kernels.engine.records import NEVER
from planner.kernels.stepwise.options import Colocated

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.kernels.engine.records import Traffic
    from planner.kernels.stepwise.law import StepLaw
    from planner.kernels.stepwise.options import Disaggregated, EngineOptions, RouterOptions

_MOST: Final = 2**30


def check(traffic: Traffic, setup: Colocated | Disaggregated) -> None:
    """Refuse what makes no sense.

    Raises:
        ValueError: Arrays of wrong type, shape or order, numbers out of range, or options that
            do not go together; the message begins with what is wrong.
    """
    _check_traffic(traffic)
    if isinstance(setup, Colocated):
        sides = [(setup.engine, setup.law, setup.router, setup.replicas)]
        lock_step = setup.lock_step and setup.engine.depth > 1
        _check(
            setup.ranks == 0 or (setup.ranks > 0 and setup.replicas % setup.ranks == 0),
            "ranks: must divide the replicas",
        )
        _check(not lock_step, "lock_step: needs one step in flight: no async_scheduling, no PP")
    else:
        sides = [
            (setup.prefill, setup.prefill_law, setup.prefill_router, setup.n_prefill),
            (setup.decode, setup.decode_law, setup.decode_router, setup.n_decode),
        ]
        _check(setup.decode.kind == "v1", "decode: only an engine of kind v1 can receive KV")
        _check(traffic.cached is None, "cached: is for colocated replicas")
        link = setup.link
        _check(min(setup.hop, link.ticks_per_token, link.latency) >= 0, "link: must not be < 0")
        _check(1 <= link.channels <= 2**20, "link: channels must be from 1 to 2**20")
        _check(1 <= setup.engines <= 2**20, "groups: must be at least 1, of 2**20 replicas at most")
    for options, law, router, replicas in sides:
        _check(replicas >= 1, "replicas: must be at least 1")
        _check_options(options)
        _check_law(law)
        _check_router(router, replicas)
        at_hand = traffic.cached is None or options.kind == "v1"
        _check(at_hand, "cached: is for engines of kind v1")


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
        slices = traffic.prefix_count is not None
        length = n + 1 if name == "prefix_start" and not slices else n
        _check(len(array) == length or name == "prefix_name", f"{name}: expected {length} entries")
    _check(
        (traffic.prefix_start is None) == (traffic.prefix_name is None), "prefix: one is missing"
    )
    _check(n <= _MOST, "arrival: at most 2**30 requests")
    if n == 0:
        return
    _check((traffic.arrival[1:] >= traffic.arrival[:-1]).all(), "arrival: must ascend")
    _check(traffic.arrival[0] >= 0, "arrival: must not be negative")
    _check(traffic.prompt.min() >= 1, "prompt: must be at least 1")
    _check(traffic.output.min() >= 1, "output: must be at least 1")
    _check_optional(traffic)


def _check_optional(traffic: Traffic) -> None:
    limit, group, deadline = traffic.limit, traffic.group, traffic.deadline
    _check(limit is None or (limit >= traffic.output).all(), "limit: must not be below output")
    _check(group is None or group.min() >= 0, "group: must not be negative")
    late = deadline is None or (deadline.min() >= 0 and deadline.max() <= NEVER)
    _check(late, "deadline: must be from 0 to 2**62")
    starts, names = traffic.prefix_start, traffic.prefix_name
    cached, counts = traffic.cached, traffic.prefix_count
    inside = cached is None or bool((cached >= 0).all() and (cached < traffic.prompt).all())
    _check(inside, "cached: must be from 0 to prompt - 1")
    _check(counts is None or starts is not None, "prefix_count: needs prefix_start")
    if starts is None or names is None:
        return
    if counts is not None:
        good = counts.min() >= 0 and starts.min() >= 0 and (starts + counts).max() <= len(names)
        _check(good, "prefix_count: a request's names must lie in prefix_name")
        _check_names(names)
        return
    ends = starts[0] == 0 and starts[-1] == len(names)
    _check(ends and (starts[1:] >= starts[:-1]).all(), "prefix_start: must go from 0 to the end")
    _check_names(names)


def _check_names(names: NDArray[np.int32]) -> None:
    if len(names):
        _check(names.min() >= 0 and names.max() < _MOST, "prefix_name: must be from 0 to 2**30")


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
    _check(bool(law.knots) and law.knots[0][0] >= 0, "law: needs knots from n = 0 on")
    _check(_ascend(law), "law: the n of knots must ascend")
    _check(law.shift >= 0, "law: shift must not be negative")


@lru_cache(maxsize=64)
def _ascend(law: StepLaw) -> bool:
    return all(a[0] < b[0] for a, b in itertools.pairwise(law.knots))


def _check_router(router: RouterOptions, replicas: int) -> None:
    _check(router.slack is None or 0 <= router.slack <= _MOST, "router: slack must be from 0")
    if router.route not in ("by_length", "by_class"):
        return
    groups = router.groups
    _check(bool(groups) and all(groups), f"router {router.route}: needs groups, none of them empty")
    inside = all(0 <= index < replicas for group in groups for index in group)
    _check(inside, "router: groups name a replica that does not exist")
    edges = router.boundaries
    _check(list(edges) == sorted(edges), "router: boundaries must ascend")
