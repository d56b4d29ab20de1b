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

from planner.errors import LimitReachedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
