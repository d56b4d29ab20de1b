"""Where the answer to *together or apart* flips: one plan per cell of a map, more near its edges.

The values that are asked for are planned first. What is left of the plans goes to where the answer
differs between neighbours of a strip: half way between them, the widest gap first, until the two
are within ``NEAR`` of each other.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from planner.catalogue import Catalogue
from planner.data import version
from planner.errors import InputError, LimitReachedError
from planner.kernels import COMPILED
from planner.planning.clock import Clock
from planner.planning.teller import Teller
from planner.planning.weigh import Weighed, weigh
from planner.simulation.effort import Effort, RunSize
from planner.spec import Spec
from planner.studies.axes import axes_of, require_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from planner.scenario.load import LoadedScenario
    from planner.studies.axes import Axis

Winner = Literal["together", "apart", "even", "both ways", "neither"]

NEAR: Final = 1.1
"""Two values of an axis between which the answer flips are near enough at this ratio."""
ALWAYS: Final = ("objective=min_cost", "policies.disaggregation.choose=search")
MAP_EFFORT: Final = Effort(
    6_000, RunSize(16_000, 4, 2_500), RunSize(24_000, 5, 4_000), 96_000, 24_000, 8
)
"""Shorter runs than those of a plan: there are many."""


class FlipCell(Spec):
    """One scenario of the map, and what either way costs in it."""

    values: dict[str, str]
    """By axis; an axis that is not named is as in the scenario."""
    settings: tuple[str, ...]
    """What ``--set`` takes to plan this cell."""
    added: bool
    """Put in to find a flip, not asked for."""
    winner: Winner
    usd_per_hour_together: float | None
    """Of the cheapest fleet whose replicas do both; None if it keeps not every promise."""
    usd_per_hour_apart: float | None
    """Of the cheapest fleet of groups."""
    difference_usd_per_hour: float | None
    """Apart less together; None unless both are there."""
    fluid_difference_usd_per_hour: float | None
    """The same if units could be cut."""
    plan_usd_per_hour: float | None
    """Of the best fleet of all."""
    pools: tuple[str, ...]
    verified: bool
    why: str
    lines: dict[str, float]
    """The difference line by line, where it was asked for."""


class Flip(Spec):
    """Two neighbouring values of an axis between which the answer is another."""

    axis: str
    beside: dict[str, str]
    """Values of the other axes."""
    low: str
    high: str
    before: Winner
    """At the low value."""
    after: Winner


class FlipMap(Spec):
    """Cells in strips: along the first axis one after the other, the other axes fixed."""

    format_version: Literal["1.0"] = "1.0"
    planner_version: str
    name: str
    axes: tuple[str, ...]
    strips: tuple[tuple[FlipCell, ...], ...]
    flips: tuple[Flip, ...]
    plans: int
    """Scenarios that were planned for."""
    ended: str
    """Why cells are missing; empty where none is."""

    @property
    def cells(self) -> tuple[FlipCell, ...]:
        """All cells, strip by strip."""
        return tuple(itertools.chain.from_iterable(self.strips))


@dataclass(slots=True)
class _Strip:
    axis: Axis
    beside: dict[str, str]
    fixed: tuple[str, ...]
    """Settings of the other axes."""
    values: list[str]
    cells: dict[str, FlipCell] = field(default_factory=dict)

    def settings(self, value: str) -> tuple[str, ...]:
        return (*self.fixed, *self.axis.settings(value))

    def done(self) -> list[FlipCell]:
        return [self.cells[v] for v in self.values if v in self.cells]

    def flips(self) -> Iterator[tuple[str, str]]:
        """Yield neighbours with different answers; ordered values only."""
        have = [v for v in self.values if v in self.cells]
        for low, high in itertools.pairwise(have):
            if self.cells[low].winner != self.cells[high].winner:
                yield low, high


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much work a map may take."""

    plans: int = 24
    """Scenarios to plan for at most; those that the values do not take are put where the answer
    flips along the first axis."""
    time_limit_s: float | None = None
    """When to stop; the scenario's own limit holds for each cell."""
    lines: bool = False
    """Also split the difference of each cell, cause by cause."""
    effort: Effort | None = None
    """How much to simulate for a cell; less than for a plan if left out."""


DEFAULTS: Final = Bounds()


def flip_map(
    loaded: LoadedScenario,
    axes: Sequence[Axis] = (),
    bounds: Bounds = DEFAULTS,
    *,
    catalogue: Catalogue | None = None,
    progress: Callable[[str, float], None] | None = None,
    kept: Callable[[FlipMap], None] = lambda _: None,
) -> FlipMap:
    """Plan a scenario with values changed, and say which way of serving each time is cheaper.

    Args:
        loaded: The scenario; its objective becomes the least cost.
        axes: What varies, all together; every named axis alone where left out.
        bounds: How much work it may take.
        catalogue: Facts; the shipped ones if left out.
        progress: Told what is being done and which share of the whole is done.
        kept: Given the map so far after every cell, so that an interrupt loses none.

    Returns:
        The map; ``ended`` says whether a limit or an interrupt cut it short.

    Raises:
        InputError: The scenario states no link, an axis does not fit it, or there are more values
            than plans.
    """
    loaded = _with_a_link(loaded)
    require_paths(axes)
    strips = _strips(axes or axes_of(loaded), alone=not axes)
    plans = bounds.plans
    effort = bounds.effort or (MAP_EFFORT if COMPILED else None)
    work = _Work(loaded, catalogue or Catalogue(), effort, bounds.lines)
    asked = [(strip, value) for strip in strips for value in strip.values]
    wanted = {strip.settings(value) for strip, value in asked}
    _require_few(len(wanted), plans)
    for settings in sorted(wanted):
        loaded.changed(settings)  # mistakes are told before the first plan
    clock = Clock(bounds.time_limit_s or 1e9)
    ended = ""
    names = tuple(axis.name for axis in axes) or tuple(s.axis.name for s in strips)

    def so_far() -> FlipMap:
        return FlipMap(
            planner_version=version(),
            name=loaded.scenario.name,
            axes=names,
            strips=tuple(tuple(strip.done()) for strip in strips),
            flips=tuple(_told(strip, *pair) for strip in strips for pair in strip.flips()),
            plans=len(work.known),
            ended=ended,
        )

    def plan(strip: _Strip, value: str, *, added: bool) -> None:
        share = min(len(work.known) / max(plans, 1), 1.0)
        words = ", ".join(f"{k} {v}" for k, v in (*strip.beside.items(), (strip.axis.name, value)))
        if progress is not None:
            progress(f"planning at {words}", share)
        found = work.cell(strip.settings(value), clock)
        place = {"values": {**strip.beside, strip.axis.name: value}, "added": added}
        strip.cells[value] = found.model_copy(update=place)
        kept(so_far())

    try:
        for strip, value in asked:
            plan(strip, value, added=False)
        while len(work.known) < plans and (gap := _widest(strips)) is not None:
            strip, low, middle = gap
            strip.values.insert(strip.values.index(low) + 1, middle)
            plan(strip, middle, added=True)
    except KeyboardInterrupt:
        ended = "an interrupt ended the work"
    except LimitReachedError as error:
        ended = str(error)
    return so_far()


def _with_a_link(loaded: LoadedScenario) -> LoadedScenario:
    if loaded.scenario.policies.disaggregation is None:
        raise InputError(
            f"{loaded.at('policies')}: policies.disaggregation: states no link, so there is nothing"
            " to weigh; add one, such as link: {bandwidth: 50 GB/s, latency: 2 ms}"
        )
    return loaded.changed(ALWAYS)


def _require_few(cells: int, plans: int) -> None:
    if cells > plans:
        raise InputError(
            f"--plans {plans}: the values make {cells} cells; allow more, or give fewer"
        )


def _strips(axes: Sequence[Axis], *, alone: bool) -> list[_Strip]:
    """Return the strips of a map: an axis each, or the first axis at all values of the others."""
    if alone:
        return [_Strip(axis, {}, (), list(axis.values)) for axis in axes]
    first, *others = axes
    found = []
    for values in itertools.product(*(axis.values for axis in others)):
        beside = {axis.name: v for axis, v in zip(others, values, strict=True)}
        pairs = zip(others, values, strict=True)
        fixed = tuple(s for axis, v in pairs for s in axis.settings(v))
        found.append(_Strip(first, beside, fixed, list(first.values)))
    return found


def _widest(strips: Sequence[_Strip]) -> tuple[_Strip, str, str] | None:
    """Return the widest gap over which the answer flips: its strip, its low end, its middle."""
    best: tuple[float, _Strip, str, str] | None = None
    for strip in strips:
        for low, high in strip.flips():
            ratio, middle = strip.axis.ratio(low, high), strip.axis.between(low, high)
            if middle is not None and ratio > NEAR and (best is None or ratio > best[0]):
                best = (ratio, strip, low, middle)
    return None if best is None else best[1:]


def _told(strip: _Strip, low: str, high: str) -> Flip:
    return Flip(
        axis=strip.axis.name,
        beside=strip.beside,
        low=low,
        high=high,
        before=strip.cells[low].winner,
        after=strip.cells[high].winner,
    )


@dataclass(slots=True)
class _Work:
    """Plans cells, each set of settings once."""

    loaded: LoadedScenario
    catalogue: Catalogue
    effort: Effort | None
    lines: bool
    known: dict[tuple[str, ...], FlipCell] = field(default_factory=dict)

    def cell(self, settings: tuple[str, ...], clock: Clock) -> FlipCell:
        """Return a cell; its values are the caller's to fill in.

        Raises:
            LimitReachedError: The time for the whole map is over.
            KeyboardInterrupt: Somebody stopped the work.
        """
        if settings not in self.known:
            clock.check()
            changed = self.loaded.changed(settings)
            own = Clock(min(changed.scenario.solver.time_limit, clock.left_s))
            try:
                found = weigh(changed, self.catalogue, self.effort, own, Teller(), lines=self.lines)
            except LimitReachedError:
                clock.check()
                found = Weighed(why="its time limit ended the work before there was a fleet")
            self.known[settings] = _cell(settings, found)
        return self.known[settings]


def _cell(settings: tuple[str, ...], found: Weighed) -> FlipCell:
    together, apart = found.together, found.apart
    fluid = (found.fluid_together, found.fluid_apart)
    return FlipCell(
        values={},
        settings=(*settings, ALWAYS[0]),
        added=False,
        winner=winner(found),
        usd_per_hour_together=together,
        usd_per_hour_apart=apart,
        difference_usd_per_hour=_less(apart, together),
        fluid_difference_usd_per_hour=_less(fluid[1], fluid[0]),
        plan_usd_per_hour=found.plan,
        pools=found.pools,
        verified=found.verified,
        why=found.why,
        lines=dict(found.lines),
    )


def winner(found: Weighed) -> Winner:
    """Say which way is cheaper; both ways where a fleet that mixes them is cheaper than either."""
    ways = [usd for usd in (found.together, found.apart) if usd is not None]
    if found.plan is not None and found.plan < min(ways, default=float("inf")) * (1 - 1e-9):
        return "both ways"
    if not ways:
        return "neither"
    if found.together is None or found.apart is None:
        return "together" if found.apart is None else "apart"
    if abs(found.apart - found.together) <= 1e-9 * found.together:
        return "even"
    return "apart" if found.apart < found.together else "together"


def _less(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other
