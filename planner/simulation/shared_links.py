"""Which groups of a pool share a link, and how a few of them stand for all in a simulation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MOST_GROUPS: Final = 4
"""More groups than these are simulated as so many at the same load each: their arrivals are then a
little less even, so the answer is not optimistic."""
MOST_ON_A_LINK: Final = 8
"""Of more groups on one link so many are simulated, on as large a part of the link."""


@dataclass(frozen=True, slots=True)
class LinkCluster:
    """Groups of a pool that stand alike to links of one kind."""

    units: int
    """Groups of the pool."""
    share: float
    """Of the pool's load that they serve."""
    on_a_link: int = 1
    """Groups that share each link."""
    capacity: float = 1.0
    """What a link carries, in what one transfer moves alone."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Groups that are simulated together, on one link."""

    cluster: int
    """Which cluster it stands for."""
    groups: int
    weight: float
    """Share of the pool's load that each of them gets."""
    pace: float
    """Of one channel of the link, in what a transfer moves alone: at most 1."""
    channels: int
    """Transfers that move at once."""


def cells_of(clusters: Sequence[LinkCluster]) -> tuple[Cell, ...]:
    """Return what is simulated for a pool.

    A link that carries what k transfers move alone has at most k channels, and none is faster
    than a transfer alone: a group on it gets no more than that, and all together no more than it
    carries.
    """
    found = []
    for position, one in enumerate(clusters):
        together = min(one.on_a_link, MOST_ON_A_LINK)
        part = one.capacity * together / one.on_a_link
        channels = min(max(1, math.ceil(part - 1e-9)), together)
        pace = min(1.0, part / channels)
        many = min(-(-one.units // one.on_a_link), max(1, MOST_GROUPS // together))
        cell = Cell(position, together, one.share / one.units, pace, channels)
        found += [cell] * many
    return tuple(found)


def dealt(cells: Sequence[Cell], requests: int) -> NDArray[np.int64]:
    """Deal requests to the groups of all cells in turn, by their weights; shape ``(requests,)``.

    Groups of equal weight get every so-manieth; the numbers count groups in the order of cells.
    """
    weights = np.array([cell.weight for cell in cells for _ in range(cell.groups)])
    if (weights == weights[0]).all():
        return np.arange(requests, dtype=np.int64) % weights.size
    shares = weights / weights.sum()
    counts = np.floor(shares * requests).astype(np.int64) + 1
    who = np.repeat(np.arange(weights.size), counts)
    nth = np.concatenate([np.arange(n) for n in counts])
    order = np.lexsort((who, (nth + 0.5) / shares[who]))
    return np.asarray(who[order][:requests], np.int64)
