"""Charging missed deadlines to causes: Shapley shares of the counterfactual.

Of a request that missed a deadline, each part of its time beyond what it takes alone is a
player. Removing a set of players (their time becomes zero) either brings the request within all
its deadlines or does not; the Shapley value of this game shares the one miss among them. A
single part whose removal is needed and enough is charged in full; parts that are each enough
share equally; where even a lone request would be late, the miss is charged to its own prefill
or decode.
"""

from __future__ import annotations

from itertools import combinations
from math import factorial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.simulation.stages import GapParts, Parts

    Floats = NDArray[np.float64]

REMOVABLE: Final = (
    "queue",
    "kv_block_wait",
    "prefill_interference",
    "decode_batch",
    "decode_interference",
    "preemption",
)
"""Parts of a request's time that an empty replica would not have."""
BETWEEN: Final = ("kv_transfer", "handoff")
"""Parts that a replica which does both would not have; players where there are any."""
BATCH, STALL, PREEMPTION = (
    REMOVABLE.index(name) for name in ("decode_batch", "decode_interference", "preemption")
)
OWN: Final = ("prefill", "decode_solo")
"""What a request takes alone: before its first token, and after."""


class GapDeadline(NamedTuple):
    """A deadline on the longest time between two tokens, and what that time is made of."""

    by: NDArray[np.int64]
    """Time allowed between two tokens; shape ``(n,)``."""
    parts: GapParts

    def without(self, removed: tuple[int, ...]) -> NDArray[np.int64]:
        """Return the longest gap without some causes, as positions in ``REMOVABLE``.

        Exact but for one case: with the batch gone and the chunks of others there, it is the
        longest lone step and the longest stall together, though they need not be the same step.
        """
        step: NDArray[np.int64] = {
            (False, False): self.parts.decode,
            (False, True): self.parts.unstalled,
            (True, False): np.minimum(self.parts.solo + self.parts.stall, self.parts.decode),
            (True, True): self.parts.solo,
        }[BATCH in removed, STALL in removed]
        return step if PREEMPTION in removed else np.maximum(step, self.parts.preempted)


def charge_misses(
    parts: Parts,
    first_by: NDArray[np.int64],
    rest_by: NDArray[np.int64],
    whole_by: NDArray[np.int64] | None = None,
    gap: GapDeadline | None = None,
) -> dict[str, Floats]:
    """Share each request's miss among its causes.

    Args:
        parts: Where the time went.
        first_by: Time allowed to the first token, same unit; shape ``(n,)``.
        rest_by: Time allowed from the first token to the last; shape ``(n,)``.
        whole_by: Time allowed to the last token, if that has a deadline of its own.
        gap: Time allowed between two tokens, if that has a deadline of its own.

    Returns:
        By cause (``REMOVABLE`` and ``OWN``; with ``BETWEEN`` where KV moves), the share charged
        per request, shape ``(n,)``. They sum to 1 for a request that is late, to 0 for one that is
        not.
    """
    before = np.stack(
        [
            parts.queue,
            parts.kv_block_wait,
            parts.prefill_interference,
            np.zeros_like(parts.queue),
            np.zeros_like(parts.queue),
            parts.preemption_before,
        ]
    )
    after = np.stack(
        [
            np.zeros_like(parts.queue),
            np.zeros_like(parts.queue),
            np.zeros_like(parts.queue),
            parts.decode_batch,
            parts.decode_interference,
            parts.preemption_after,
        ]
    )
    names: tuple[str, ...] = REMOVABLE
    if parts.handoff.any() or parts.kv_transfer.any():
        names = (*REMOVABLE, *BETWEEN)
        before = np.concatenate([before, [parts.kv_transfer, parts.handoff]])
        after = np.concatenate([after, np.zeros((2, parts.queue.size), after.dtype)])
    first, rest = parts.prefill + before.sum(axis=0), parts.decode_solo + after.sum(axis=0)

    def in_time(removed: tuple[int, ...]) -> NDArray[np.bool_]:
        gone = list(removed)
        until_first = first - before[gone].sum(axis=0)
        then = rest - after[gone].sum(axis=0)
        ok: NDArray[np.bool_] = (until_first <= first_by) & (then <= rest_by)
        if whole_by is not None:
            ok = ok & (until_first + then <= whole_by)
        return ok if gap is None else ok & (gap.without(removed) <= gap.by)

    players = range(len(names))
    worth = {
        subset: in_time(subset)
        for size in range(len(names) + 1)
        for subset in combinations(players, size)
    }
    late = ~worth[()]
    # Negative parts can make a subset better than the whole; what no subset mends is its own.
    mendable = np.logical_or.reduce(list(worth.values())) & late
    value = {s: np.where(mendable, _best_within(worth, s), False) for s in worth}
    shares = {name: _shapley(value, player) for player, name in zip(players, names, strict=True)}
    slow_first, slow_rest = parts.prefill > first_by, parts.decode_solo > rest_by
    if gap is not None:
        slow_rest = slow_rest | (gap.parts.solo > gap.by)
    neither = ~slow_first & ~slow_rest  # only together are they too slow
    first_weight, rest_weight = slow_first | neither, slow_rest | neither
    both = first_weight.astype(float) + rest_weight
    alone = late & ~mendable
    shares["prefill"] = np.where(alone, first_weight / both, 0.0)
    shares["decode_solo"] = np.where(alone, rest_weight / both, 0.0)
    return shares


def _best_within(
    worth: dict[tuple[int, ...], NDArray[np.bool_]], subset: tuple[int, ...]
) -> NDArray[np.bool_]:
    """Whether some part of a set suffices: a game in which more removed is never worse."""
    inner = [worth[s] for size in range(len(subset) + 1) for s in combinations(subset, size)]
    found: NDArray[np.bool_] = np.logical_or.reduce(inner)
    return found


def _shapley(value: dict[tuple[int, ...], NDArray[np.bool_]], player: int) -> Floats:
    n = max(len(subset) for subset in value)
    total = np.zeros(value[()].size)
    for subset, worth in value.items():
        if player in subset:
            continue
        joined = tuple(sorted((*subset, player)))
        weight = factorial(len(subset)) * factorial(n - len(subset) - 1) / factorial(n)
        total += weight * (value[joined].astype(float) - worth.astype(float))
    return total
