"""Place a fleet: every promise kept, then least moves, widest spread, fewest nodes opened."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ortools.sat.python import cp_model

from planner.placement.cuts import counting_cut, hull_cut, least_cut
from planner.placement.enough import enough
from planner.placement.islands import all_islands
from planner.placement.names import name_them
from planner.placement.program import build, items_of, spread
from planner.placement.short import packing_short, shorts_of
from planner.placement.wanted import NotPlaced, Placement

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from planner.placement.islands import Island
    from planner.placement.names import Value
    from planner.placement.program import Item, Program
    from planner.placement.wanted import Placed, Short, Wanted
    from planner.topology import Cut, Topology

EFFORT: Final = 2.0
"""Deterministic seconds of the solver, a few times as many on the clock; per goal."""


def place(
    topology: Topology,
    wanted: Sequence[Wanted],
    existing: Iterable[Placed] = (),
    *,
    seed: int = 0,
    effort: float = EFFORT,
) -> Placement | NotPlaced:
    """Name the devices of every replica.

    Goals in this order: every replica placed and every promise kept; as few as possible of the
    existing replicas moved; no zone, then no rack, with more of a pool than need be; as few
    scale-up domains opened as possible. The same arguments give the same placement.

    Args:
        topology: Where everything stands.
        wanted: Pools, each once.
        existing: What runs now; replicas of pools that are not wanted are given up.
        seed: Of the solver.
        effort: Deterministic seconds for each goal.
    """
    items = items_of(wanted)
    bundled = {w.pool for i in items if len(i.members) > 1 for w, _ in i.members}
    staying = [row for row in existing if row.pool not in bundled]
    islands = all_islands(topology, wanted, staying)
    shorts = shorts_of(topology, items, islands)
    if shorts:
        cuts = _counted(topology, items, islands, shorts)
        return NotPlaced(shorts, True, shorts[0].reason, cuts)
    named = [i.domain.id for i in islands if i.existing]
    topology, every, all_of_them = enough(topology, items, named), topology, islands
    islands = _in(topology, islands)
    p = build(topology, items, islands)
    spread(p, topology)
    found = _goals(p, seed, effort)
    if found is None:
        most = _most(topology, items, islands, seed, effort)
        return _with_cut(most, every, items, all_of_them, seed, effort)
    value, proven = found
    stayed = sum(value(e) for e in p.kept)
    placed = name_them(p, topology, wanted, islands, value)
    return Placement(
        placed, _could_stay(wanted, islands) - stayed, _opened(placed, islands), proven
    )


def refusal(
    topology: Topology, wanted: Sequence[Wanted], *, seed: int = 0, effort: float = EFFORT
) -> NotPlaced | None:
    """Return why a fleet has no place; None where it has one, or where nothing is proven.

    Args:
        topology: Where everything stands.
        wanted: Pools, each once.
        seed: Of the solver.
        effort: Deterministic seconds.
    """
    items = items_of(wanted)
    islands = all_islands(topology, wanted, ())
    shorts = shorts_of(topology, items, islands)
    if shorts:
        cuts = _counted(topology, items, islands, shorts)
        return NotPlaced(shorts, True, shorts[0].reason, cuts)
    if not _fails(topology, items, islands, seed, effort):
        return None
    few = enough(topology, items, ())
    most = _most(few, items, _in(few, islands), seed, effort)
    return _with_cut(most, topology, items, islands, seed, effort)


def _in(topology: Topology, islands: Sequence[Island]) -> tuple[Island, ...]:
    left = {d.id for d in topology.domains}
    return tuple(i for i in islands if i.domain.id in left)


def _counted(
    topology: Topology,
    items: tuple[Item, ...],
    islands: Sequence[Island],
    shorts: Sequence[Short],
) -> tuple[Cut, ...]:
    """Return the rows of what is too small, for any replicas."""
    if any(i.domain is not None or i.at for i in items):
        return ()
    return tuple(counting_cut(topology, islands, short) for short in shorts)


def _with_cut(
    found: NotPlaced,
    topology: Topology,
    items: tuple[Item, ...],
    islands: Sequence[Island],
    seed: int,
    effort: float,
) -> NotPlaced:
    """Add the row that the fleet breaks, where it is proven to have no place."""
    if not found.proven or any(i.domain is not None or i.at for i in items):
        return found
    cut = hull_cut(topology, items, islands, found.reason) or least_cut(
        topology,
        items,
        islands,
        lambda fewer: (
            bool(shorts_of(topology, fewer, islands))
            or _fails(topology, fewer, islands, seed, effort)
        ),
        found.reason,
    )
    return replace(found, cuts=(cut,))


def _fails(
    topology: Topology,
    items: tuple[Item, ...],
    islands: Sequence[Island],
    seed: int,
    effort: float,
) -> bool:
    """Tell whether a fleet is proven to have no place."""
    few = enough(topology, items, ())
    found, sure = _solved(build(few, items, _in(few, islands)).model, seed, effort)
    return found is None and sure


def _goals(p: Program, seed: int, effort: float) -> tuple[Value, bool] | None:
    """Reach one goal after the other; None where nothing can be placed, or nothing was found."""
    best, _ = _solved(p.model, seed, effort)
    if best is None:
        return None
    proven = True
    if p.kept:
        _hint(p, best)
        p.model.maximize(sum(p.kept))
        found, sure = _solved(p.model, seed, effort)
        best, proven = found or best, proven and sure
        p.model.add(sum(p.kept) >= sum(best.value(e) for e in p.kept))
        p.model.clear_objective()  # type: ignore[no-untyped-call]
    if p.excess is not None:
        found, sure = _least_excess(p, seed, effort)
        best, proven = found or best, proven and sure
        p.model.add(p.excess <= best.value(p.excess))
    _hint(p, best)
    p.model.maximize(sum(p.empty))
    found, sure = _solved(p.model, seed, effort)
    best = found or best
    return best.value, proven and sure


def _least_excess(p: Program, seed: int, effort: float) -> tuple[cp_model.CpSolver | None, bool]:
    """Try bounds from the tightest; a tight one is found or refuted sooner than a loose one."""
    assert p.excess is not None
    proven, bound, most = True, 0, max(i.count for i in p.items)
    while bound < most:
        tight = p.model.clone()
        tight.add(p.excess <= bound)
        found, sure = _solved(tight, seed, effort)
        if found is not None:
            return found, proven and bound <= 2
        proven = proven and sure
        bound = max(1, 2 * bound)
    return None, False


def _hint(p: Program, solver: cp_model.CpSolver) -> None:
    p.model.clear_hints()  # type: ignore[no-untyped-call]
    for v in p.variables():
        p.model.add_hint(v, solver.value(v))


def _solved(
    model: cp_model.CpModel, seed: int, effort: float
) -> tuple[cp_model.CpSolver | None, bool]:
    """Return a solver that found something, or None; and whether that is proven."""
    solver = _solver(seed, effort)
    status = solver.solve(model)
    sure = status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
    return (solver if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else None), sure


def _solver(seed: int, effort: float) -> cp_model.CpSolver:
    """One worker and deterministic time: the same model gives the same answer."""
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    solver.parameters.max_deterministic_time = effort
    return solver


def _most(
    topology: Topology,
    items: tuple[Item, ...],
    islands: Sequence[Island],
    seed: int,
    effort: float,
) -> NotPlaced:
    """Say how much can be placed at most, where no single capacity is too small."""
    p = build(topology, items, islands, all_of_them=False)
    p.model.maximize(sum(n * item.size for item, n in p.placed))
    solver = _solver(seed, effort)
    status = solver.solve(p.model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return NotPlaced((), False, "no placement was found within the effort")
    left = [(i, i.count - int(solver.value(n))) for i, n in p.placed]
    if not any(n for _, n in left):
        return NotPlaced((), False, "no placement was found within the effort")
    told = ", ".join(f"{n} of {i.count} x {i.name} ({i.size} devices)" for i, n in left if n)
    proven = status == cp_model.OPTIMAL
    reason = f"beside the rest there is no room for {told}"
    if not proven:
        return NotPlaced((), False, reason)
    return NotPlaced(packing_short(topology, items, left), True, reason)


def _could_stay(wanted: Sequence[Wanted], islands: Sequence[Island]) -> int:
    """Count existing replicas that are still wanted."""
    there = Counter(replica[0] for island in islands for replica, _ in island.existing)
    return sum(min(there[w.pool], w.replicas) for w in wanted)


def _opened(placed: Sequence[Placed], islands: Sequence[Island]) -> int:
    of = {(i.domain.id, *slot): n for n, i in enumerate(islands) for slot in i.slots}
    return len({of[row.domain, row.node, device] for row in placed for device in row.devices})
