"""What fits into nodes: groups of devices that may not be spread over several nodes.

Sizes of which each divides the next, such as 1, 2, 4, 8, are packed exactly by one row per size.
Groups of at least ``size`` devices are whole multiples of ``size``, so a node with ``f`` free
devices holds at most ``size * (f // size)`` devices of such groups; and placing groups in
decreasing size fills every one of those slots, since whatever was placed before is a multiple
too. Other sizes need the ways in which a node can be filled (Gilmore and Gomory 1961).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.errors import LimitReachedError, SolverError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MOST_FILLINGS: Final = 20_000
"""Ways to fill a node above which they are not listed."""


def is_chain(sizes: Iterable[int]) -> bool:
    """Tell whether each size divides the next larger one."""
    return all(large % small == 0 for small, large in itertools.pairwise(sorted(set(sizes))))


def room(free: int, size: int) -> int:
    """Return devices that groups of at least ``size`` devices of a chain can use of a node.

    Args:
        free: Free devices of the node.
        size: Devices in the smallest of these groups.
    """
    return free // size * size


def fillings(free: int, sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """List the ways to fill a node to which no further group can be added.

    Args:
        free: Free devices of the node.
        sizes: Sizes of groups, each once.

    Returns:
        Groups of each size, in the order of ``sizes``, in lexicographic order from the largest;
        one way without groups where none fits.

    Raises:
        LimitReachedError: There are more than 20,000.
    """
    smallest = min(sizes, default=0)

    def fill(left: int, rest: Sequence[int]) -> Iterator[tuple[int, ...]]:
        if not rest:
            if not sizes or left < smallest:
                yield ()
            return
        for count in range(left // rest[0], -1, -1):
            for others in fill(left - count * rest[0], rest[1:]):
                yield (count, *others)

    found = list(itertools.islice(fill(free, tuple(sizes)), MOST_FILLINGS + 1))
    if len(found) > MOST_FILLINGS:
        raise LimitReachedError(
            f"a node of {free} devices can be filled with groups of {', '.join(map(str, sizes))}"
            f" in more than {MOST_FILLINGS:,} ways; allow fewer degrees"
        )
    return found


def place(free: Sequence[int], groups: Sequence[int]) -> list[int] | None:
    """Name a node for each group of a chain of sizes; None if they do not fit.

    Args:
        free: Free devices by node.
        groups: Devices of each group.

    Returns:
        The node of each group. Larger groups are placed first, each in the node with the least
        room that holds it, so that few nodes are begun.
    """
    left = list(free)
    homes = [0] * len(groups)
    for i in sorted(range(len(groups)), key=lambda i: (-groups[i], i)):
        fitting = [v for v, room_left in enumerate(left) if room_left >= groups[i]]
        if not fitting:
            return None
        homes[i] = min(fitting, key=lambda v: (left[v], v))
        left[homes[i]] -= groups[i]
    return homes


def fewest_nodes(free: Sequence[int], devices: int, groups: Mapping[int, int]) -> int:
    """Return how few new nodes hold groups beside those that partly used nodes hold.

    Exact for a chain of sizes; for others by a small integer program over the ways to fill a node.

    Args:
        free: Free devices of each partly used node.
        devices: Of a new node; no group is larger.
        groups: Number of groups by size.
    """
    sizes = tuple(sorted((size for size, n in groups.items() if n), reverse=True))
    if is_chain(sizes):
        needs = [
            sum(size * groups[size] for size in sizes if size >= least)
            - sum(room(f, least) for f in free)
            for least in sizes
        ]
        pairs = zip(needs, sizes, strict=True)
        return max((-(-need // room(devices, least)) for need, least in pairs), default=0)
    return _by_ways(free, devices, {size: groups[size] for size in sizes})


def _by_ways(free: Sequence[int], devices: int, groups: Mapping[int, int]) -> int:
    from scipy.optimize import Bounds, LinearConstraint, milp  # half a second in every process

    kinds = [(devices, None), *((f, free.count(f)) for f in sorted(set(free)))]
    ways = [(i, way) for i, (f, _) in enumerate(kinds) for way in fillings(f, tuple(groups))]
    filled = np.array([way for _, way in ways], dtype=float).T
    taken = np.array([[float(i == k) for i, _ in ways] for k in range(1, len(kinds))])
    rows = [LinearConstraint(filled, lb=np.array(list(groups.values()), dtype=float))]
    if len(kinds) > 1:
        rows.append(LinearConstraint(taken, ub=np.array([float(n or 0) for _, n in kinds[1:]])))
    cost = np.array([float(i == 0) for i, _ in ways])
    found = milp(
        cost, constraints=rows, integrality=np.ones(len(ways), int), bounds=Bounds(0, np.inf)
    )
    if not found.success:
        raise SolverError(f"no way was found to fill nodes: {found.message}")
    return round(float(found.fun))
