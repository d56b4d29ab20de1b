"""How the blocks and the time of decoding requests grow: ``native/blocks.hpp`` in plain Python.

``by_residue[r]`` counts the members whose length less the counter of steps is r modulo the block
size, which is the length of the list: those that take a new block when the counter is -r.
"""

from __future__ import annotations

from math import ceil, sqrt


def held_after(by_residue: list[int], members: int, held: int, steps: int, counter: int) -> int:
    """Bring a count of blocks forward by ``steps`` to ``counter``."""
    size = len(by_residue)
    if steps >= size:
        turns, steps = divmod(steps, size)
        held += turns * members
    for at in range(counter - steps, counter):
        held += by_residue[-at % size]
    return held


def steps_within(by_residue: list[int], members: int, room: int, at: int, limit: int) -> int:
    """Count the steps after counter ``at``, up to ``limit``, whose new blocks fit in ``room``."""
    size = len(by_residue)
    turns = min(room // members, limit // size)
    room -= turns * members
    steps = turns * size
    while steps < limit and (new := by_residue[-(at + steps) % size]) <= room:
        room -= new
        steps += 1
    return steps


def steps_to_cover(span: int, first: int, slope: int, limit: int) -> int:
    """Return the smallest s in [1, limit] with s * first + slope * s(s-1)/2 >= span.

    The square root guesses, integers decide.
    """
    if span <= first:
        return 1
    linear = first - 0.5 * slope
    root = 2.0 * span / (linear + sqrt(linear * linear + 2.0 * slope * span))
    s = max(1, ceil(root)) if root < limit else limit
    while s > 1 and (s - 1) * first + slope * ((s - 1) * (s - 2) // 2) >= span:
        s -= 1
    while s < limit and s * first + slope * (s * (s - 1) // 2) < span:
        s += 1
    return s
