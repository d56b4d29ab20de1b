"""Scheduler settings by a climb and a race: which limits per step let a replica carry the most.

A setting is worth the load at which it just keeps its promises. Finding that of every setting
takes many runs each; telling which of two is better takes one each, at the same load under the
same requests, near the load that the better one carries. So the load of one setting is found,
its neighbours are looked at there, a better one takes over, and the load is found anew only
when it no longer tells settings apart. The mean field settles what could not carry that load
at all, without a run.

A climb ends on the nearest hill. So every other setting of the lattice then runs a quarter as
long at the load that was found; those that come close run in full, and the last few on further
draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FACTORS: Final = (2, 4)
"""Steps of a limit: the nearest first, the farther ones over a dent."""
TOLD_APART: Final = 0.01
"""Margin of the best setting above which the load is too small to tell it from its neighbours."""
BUDGETS: Final = (16, 131_072)
"""``max_num_batched_tokens`` at least and at most."""
SEATS: Final = (1, 8192)
"""``max_num_seqs`` at least and at most."""
MOST_LOOKS: Final = 32
"""Settings looked at in a climb; one from a far start ends here."""
LATTICE: Final = ((256, 16_384), (16, 1024))
"""Tokens and requests per step, least and most, of settings that race; in doubles."""
SHORT: Final = 0.25
"""Length of the first run of a race."""
CLOSE: Final = 0.03
"""Margin by which a setting may fall behind the best in that run, and stay."""
FINALISTS: Final = 4
FINAL_DRAWS: Final = (0, 1, 2)
"""On which the last few meet, at the load of the best of them."""


class Setting(NamedTuple):
    """Limits of a step."""

    max_num_batched_tokens: int
    max_num_seqs: int


class Ground(Protocol):
    """What can be asked of settings; loads are those of one unit, requests per second."""

    def bound(self, setting: Setting) -> float:
        """Return the most that a unit could carry, without a run; 0 where it cannot be built."""

    def margin(
        self, setting: Setting, load_rps: float, *, draw: int = 0, share: float = 1.0
    ) -> float:
        """Return attainment less promise at a load, by one run on a draw, whole or in part."""

    def capacity(self, setting: Setting, guess_rps: float) -> float:
        """Return the load at which the margin is 0, by some runs; 0 if there is none."""


@dataclass(frozen=True, slots=True)
class Climbed:
    """Where a climb ended."""

    best: Setting
    load_rps: float
    """That the best setting carries, by short runs."""
    looks: tuple[tuple[Setting, float], ...]
    """Settings that were looked at, and a load that each does not carry better than the best."""


def neighbours(setting: Setting) -> Iterator[Setting]:
    """Yield the settings beside one: either limit times or over 2, both, then either by 4."""
    near, far = FACTORS
    tokens, seats = setting
    each = [(f, 1.0) for f in (near, 1 / near)] + [(1.0, f) for f in (near, 1 / near)]
    both = [(x, y) for x in (near, 1 / near) for y in (near, 1 / near)]
    leaps = [(f, 1.0) for f in (far, 1 / far)] + [(1.0, f) for f in (far, 1 / far)]
    for x, y in (*each, *both, *leaps):
        other = Setting(int(tokens * x), int(seats * y))
        if _allowed(other):
            yield other


def _allowed(setting: Setting) -> bool:
    tokens, seats = setting
    within = BUDGETS[0] <= tokens <= BUDGETS[1] and SEATS[0] <= seats <= SEATS[1]
    return within and seats <= tokens


def climb(ground: Ground, starts: Sequence[Setting], load_rps: float = 0.0) -> Climbed | None:
    """Climb from the first of some settings that carries a load until no neighbour is better.

    Args:
        ground: Answers about settings.
        starts: Where to begin; the others are looked at like neighbours.
        load_rps: That the first start carries, where it is known.

    Returns:
        None if no start carries any load.
    """
    best, load, queue = None, load_rps, [*starts]
    while best is None and queue:
        first = queue.pop(0)
        if load <= 0 and ground.bound(first) > 0:
            load = ground.capacity(first, 0.8 * ground.bound(first))
        best = first if load > 0 else None
    if best is None:
        return None
    margin = ground.margin(best, load)
    seen = {best: load}
    queue += neighbours(best)
    while queue and len(seen) < MOST_LOOKS:
        other = queue.pop(0)
        if other in seen:
            continue
        seen[other] = load
        if ground.bound(other) <= load:
            continue
        found = ground.margin(other, load)
        if found <= margin:
            continue
        best, margin = other, found
        if margin > TOLD_APART:
            load = max(ground.capacity(best, load * (1 + margin / 2)), load)
            margin = ground.margin(best, load)
        queue = [*neighbours(best), *queue]
    return Climbed(best, ground.capacity(best, load), tuple(seen.items()))


def search(ground: Ground, starts: Sequence[Setting], load_rps: float = 0.0) -> Climbed | None:
    """Climb, then race the rest of the lattice against where the climb ended.

    Arguments and result as of :func:`climb`.
    """
    found = climb(ground, starts, load_rps)
    if found is None:
        return None
    best, load = found.best, found.load_rps
    seen = dict(found.looks)
    rest = [s for s in lattice(starts[0]) if s not in seen and ground.bound(s) > load]
    to_beat = ground.margin(best, load, share=SHORT)
    near = [(ground.margin(s, load, share=SHORT), s) for s in rest]
    seen |= dict.fromkeys(rest, load)
    near.sort(key=lambda pair: (-pair[0], pair[1]))
    runners = [s for margin, s in near if margin > to_beat - CLOSE]
    margins = {best: ground.margin(best, load)}
    for one in runners:
        if ground.bound(one) <= load:
            continue
        margins[one] = ground.margin(one, load)
        if margins[one] > TOLD_APART + max(m for s, m in margins.items() if s != one):
            load = max(ground.capacity(one, load * (1 + margins[one] / 2)), load)
            margins = {s: ground.margin(s, load) for s in (best, one)}
            best = one
    last = sorted(margins, key=lambda s: (-margins[s], s))[:FINALISTS]
    if len(last) > 1:
        best = last[0]
        if margins[best] > 0:
            load = max(ground.capacity(best, load * (1 + margins[best] / 2)), load)
        mean = {s: sum(ground.margin(s, load, draw=d) for d in FINAL_DRAWS) for s in last}
        best = min(last, key=lambda s: (-mean[s], s))
    return Climbed(best, ground.capacity(best, load), tuple(seen.items()))


def lattice(start: Setting) -> list[Setting]:
    """Return the settings of a race: a start's limits halved and doubled within ``LATTICE``."""
    axes = []
    for value, (least, most) in zip(start, LATTICE, strict=True):
        steps = range(-value.bit_length(), most.bit_length() + 1)
        axes.append(sorted({int(value * 2.0**k) for k in steps if least <= value * 2.0**k <= most}))
    return [Setting(b, s) for b in axes[0] for s in axes[1] if s <= b]
