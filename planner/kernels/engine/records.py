"""What goes into the simulator of a fleet and what comes out: arrays of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from planner.kernels.stepwise.records import Fate

FATES: Final[tuple[Fate, ...]] = ("unfinished", "finished", "rejected", "failed")
"""What the numbers of ``FleetRecords.fate`` mean."""

NEVER: Final = 2**62
"""A deadline that does not exist; all other times are below it."""


class Traffic(NamedTuple):
    """Requests in ascending order of arrival; ``n`` of them.

    An optional array that is ``None`` stands for the default of each request.
    """

    arrival: NDArray[np.int64]
    """Ticks, >= 0. Shape ``(n,)``, as all others but the prefixes."""
    prompt: NDArray[np.int32]
    """Prompt tokens, >= 1."""
    output: NDArray[np.int32]
    """Output tokens, >= 1."""
    limit: NDArray[np.int32] | None = None
    """Declared output limit, >= ``output``; by default equal to it."""
    priority: NDArray[np.int32] | None = None
    """Lower is served first under the priority policy; by default 0."""
    group: NDArray[np.int32] | None = None
    """Class of traffic for routers by class, >= 0; by default 0."""
    deadline: NDArray[np.int64] | None = None
    """Tick by which the first token is wanted; ``2**62``, the default, is never."""
    prefix_start: NDArray[np.int64] | None = None
    """Where the prefix names of request i begin in ``prefix_name``. Shape ``(n + 1,)``, each
    request's ending where the next one's begin; ``(n,)`` with ``prefix_count``."""
    prefix_name: NDArray[np.int32] | None = None
    """Names of leading prompt blocks, >= 0 and dense: arrays as long as the largest are made.
    Equal names are equal contents, and equal contents before them."""
    prefix_count: NDArray[np.int32] | None = None
    """How many names request i has, if requests share stretches of ``prefix_name``."""
    cached: NDArray[np.int32] | None = None
    """Prompt tokens whose KV is at hand whenever the request is admitted, from 0 to ``prompt`` -
    1: not computed, but held in blocks of its own. Colocated engines of kind v1 only."""


class FleetStages(NamedTuple):
    """Where the time of each request went, in ticks; int64 of shape ``(n,)``.

    Those of a finished request add up to finish minus arrival. What they mean:
    :class:`planner.kernels.stepwise.Stages`. A request refused on arrival has zeros; one that
    was dropped later has what was accounted for until then.
    """

    queue: NDArray[np.int64]
    kv_block_wait: NDArray[np.int64]
    prefill: NDArray[np.int64]
    prefill_sharing: NDArray[np.int64]
    transfer: NDArray[np.int64]
    transfer_wait: NDArray[np.int64]
    hand_off: NDArray[np.int64]
    decode_solo: NDArray[np.int64]
    decode_batch: NDArray[np.int64]
    decode_interference: NDArray[np.int64]
    preemption: NDArray[np.int64]


class FleetGaps(NamedTuple):
    """The longest times between two tokens of each request, each by itself, in ticks.

    int64 of shape ``(n,)``, 0 where there is none. Of colocated replicas the larger of ``decode``
    and ``preempted`` is the longest time between two tokens. What they mean:
    ``planner.kernels.stepwise.stages.Gaps``.
    """

    decode: NDArray[np.int64]
    unstalled: NDArray[np.int64]
    stall: NDArray[np.int64]
    solo: NDArray[np.int64]
    preempted: NDArray[np.int64]


class TracedStep(NamedTuple):
    """One step of one engine."""

    scheduled_at: int
    start: int
    end: int
    items: tuple[tuple[int, int, int, bool, bool], ...]
    """In the order scheduled: rank, tokens computed, tokens computed before, whether it is a
    decode, whether it brings an output token."""
    preempted: tuple[int, ...]
    """Ranks of the requests preempted for it."""


class FleetRecords(NamedTuple):
    """One row per request, in order of arrival, and totals of the fleet.

    Ticks are int64, and -1 where it did not happen; counts and indices are int32. The columns
    from ``decode_replica`` on are there for disaggregated fleets only.
    """

    fate: NDArray[np.uint8]
    """Index in :data:`FATES`."""
    first_scheduled: NDArray[np.int64]
    """Schedule of its first step anywhere."""
    first_token: NDArray[np.int64]
    """First output token at the client."""
    finish: NDArray[np.int64]
    """Last output token at the client."""
    max_token_gap: NDArray[np.int64]
    """Longest time between two tokens; 0 for one token."""
    tokens: NDArray[np.int32]
    """Output tokens that reached the client."""
    preemptions: NDArray[np.int32]
    """On all engines."""
    cached_tokens: NDArray[np.int32]
    """Prompt tokens found in the first engine's prefix cache."""
    replica: NDArray[np.int32]
    """Engine that had it; disaggregated: the prefill engine."""
    decode_replica: NDArray[np.int32] | None
    """Index among the decode engines."""
    prefill_done: NDArray[np.int64] | None
    decode_arrival: NDArray[np.int64] | None
    kv_start: NDArray[np.int64] | None
    """First byte of its KV on the link."""
    kv_end: NDArray[np.int64] | None
    decode_first_scheduled: NDArray[np.int64] | None
    token_times: NDArray[np.int64] | None
    """If wanted: ticks at which tokens reached the client. Those of request i begin at the
    sum of the outputs before it, and are ``tokens[i]`` in number; places beyond are -1."""
    steps: tuple[tuple[TracedStep, ...], ...] | None
    """If wanted: the steps of each engine, prefill engines first."""
    n_steps: tuple[int, ...]
    """Steps of each engine."""
    makespan: int
    """Tick of the last finish; 0 without requests, -1 if none finished."""
    stages: FleetStages | None = None
    """If wanted."""
    gaps: FleetGaps | None = None
    """With the stages."""


WIDE: Final = ("first_scheduled", "first_token", "finish", "max_token_gap")
WIDE_SPLIT: Final = (
    "prefill_done",
    "decode_arrival",
    "kv_start",
    "kv_end",
    "decode_first_scheduled",
)
NARROW: Final = ("tokens", "preemptions", "cached_tokens", "replica")
NARROW_SPLIT: Final = ("decode_replica",)
ZERO: Final = ("max_token_gap", "tokens", "preemptions", "cached_tokens")
"""Columns that begin at 0; the others at -1."""
