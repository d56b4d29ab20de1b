"""Fleets that survive failures: rows are written for those failures that matter, worst first.

A program with rows for some of the failures is a relaxation of that for all: its bound holds for
every fleet that survives them all. So the fleet of one solve is tried against every failure; the
worst that it does not survive get their rows, and the program is solved again, until it survives
each. With its rows it is best among fewer fleets than the bound speaks of, so the bound holds.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.milp.indices import ALONE
from planner.milp.nodes import NO_NODES, Loss, units_at
from planner.milp.packing import is_chain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from planner.milp.instance import Instance

    Units = Mapping[str, float]
    Placed = Mapping[tuple[str, str], float]

MOST_AT_ONCE: Final = 40
"""Losses of groups up to which all get rows where no fleet is found."""
AT_ONCE: Final = 4
"""Failures that get rows between two solves."""
SHORT: Final = 2e-6
"""Shortfall, as a share of demand, that the tolerance on rows may leave."""
MOST_FAILURES: Final = 50_000
"""Ways to fail above which none are listed."""


@dataclass(frozen=True, slots=True)
class Recourse:
    """How the units that are left run after a failure."""

    units: Mapping[str, float]
    """Units that are left, by template; those without are left out."""
    weights: Mapping[tuple[str, str], float]
    """Units of j at point o, by (j, o); zeros are left out."""
    shed_rps: Mapping[str, float]
    """Load that is turned away, by workload."""
    short: float
    """By how much floors are missed or demand finds no unit, as shares of demand, summed."""


def with_losses(data: Instance, losses: Sequence[Loss]) -> Instance:
    """Return the instance with rows for these failures."""
    if data.nodes is None:
        return data
    return replace(data, nodes=replace(data.nodes, losses=tuple(losses)))


def threats(data: Instance, placed: Placed) -> list[Loss]:
    """List the failures that a fleet must survive; none that loses no more than another.

    Args:
        data: The instance.
        placed: Units of j in d, by (j, d).
    """
    where = data.nodes or NO_NODES
    if where.spare is None:
        return []
    losses = _of_groups(data) if where.spare.groups is not None else _of_nodes(data, placed)
    return _worst_of(placed, losses)


def lost_units(placed: Placed, loss: Loss) -> dict[str, float]:
    """Return how many units of each template a failure takes."""
    lost: dict[str, float] = {}
    for (j, d), there in placed.items():
        gone = there if d in loss.domains else min(loss.units.get((j, d), 0), there)
        if gone:
            lost[j] = lost.get(j, 0) + gone
    return lost


def recourse(data: Instance, units: Units, lost: Mapping[str, float], t: str = ALONE) -> Recourse:
    """Route the traffic of a period over what is left, so that floors are missed by the least.

    Of ways that miss them by as little, one with the highest compliant goodput is taken.

    Args:
        data: The instance.
        units: Units by template, before the failure.
        lost: Of them, by template.
        t: The period.
    """
    from scipy.optimize import linprog  # half a second in every process, and few need it

    where = data.nodes or NO_NODES
    left = {j: units.get(j, 0) - lost.get(j, 0) for j in data.J}
    left = {j: n for j, n in left.items() if n > 0}
    points = [(j, o) for j in left for o in data.O[j]]
    size = len(points)
    row = {j: i for i, j in enumerate(left)}
    asked = [w for w in data.W if data.demand(w, t) > 0]
    w_count = len(asked)
    # Columns: weights, then per workload: turned away, offered to nobody, short of the floor.
    columns = size + 3 * w_count
    at_most = np.zeros((len(left) + w_count, columns))
    equal = np.zeros((w_count, columns))
    limit = np.zeros(len(left) + w_count)
    upper = np.full(columns, np.inf)
    gain = np.zeros(columns)
    for c, (j, _) in enumerate(points):
        at_most[row[j], c] = 1.0
        limit[row[j]] = left[j]
    for i, w in enumerate(asked):
        demand = data.demand(w, t)
        for c, (j, o) in enumerate(points):
            equal[i, c] = data.load_rps.get((j, o, w), 0.0) / demand
            good = data.goodput_rps.get((j, o, w), 0.0) / demand
            at_most[len(left) + i, c] = -good
            gain[c] += good * data.worth(w)
        equal[i, size + i] = equal[i, size + w_count + i] = 1.0
        at_most[len(left) + i, size + 2 * w_count + i] = -1.0
        limit[len(left) + i] = -(where.spare.floor.get(w, 0.0) if where.spare else 0.0)
        upper[size + i] = where.spare.shed.get(w, 0.0) if where.spare else 0.0
    scale = np.maximum(np.maximum(np.abs(at_most).max(0), np.abs(equal).max(0)), 1e-300)
    missed = np.zeros(columns)
    missed[size + w_count :] = 1.0
    cost = missed - 1e-6 * gain / max(float(gain.max(initial=0.0)), 1.0)
    result = linprog(
        cost / scale,
        A_ub=at_most / scale,
        b_ub=limit,
        A_eq=equal / scale,
        b_eq=np.ones(w_count),
        bounds=[(0.0, most) for most in (upper * scale).tolist()],
        method="highs",
    )
    if result.status != 0:  # numbers beyond the solver: nothing is known to be served
        return Recourse(left, {}, {w: data.demand(w, t) for w in data.W}, math.inf)
    x = result.x / scale
    return Recourse(
        left,
        {point: float(x[c]) for c, point in enumerate(points) if x[c] > 1e-12},
        dict.fromkeys(data.W, 0.0)
        | {
            w: float(x[size + i] + x[size + w_count + i]) * data.demand(w, t)
            for i, w in enumerate(asked)
        },
        float(missed @ x),
    )


def not_survived(data: Instance, units_in: Mapping[tuple[str, str, str], float]) -> list[Loss]:
    """Return the failures that a fleet does not survive in some period, the worst first.

    Args:
        data: The instance.
        units_in: n_jdt by (j, d, t).
    """
    found: list[tuple[float, int, Loss]] = []
    for t in data.T if (data.nodes or NO_NODES).spare else ():
        placed = {(j, d): n for (j, d, of), n in units_in.items() if of == t}
        units: dict[str, float] = {}
        for (j, _), n in placed.items():
            units[j] = units.get(j, 0) + n
        for loss in threats(data, placed):
            short = recourse(data, units, lost_units(placed, loss), t).short
            if short > SHORT:
                found.append((-short, len(found), loss))
    return [loss for _, _, loss in sorted(found, key=lambda one: one[:2])]


def named_apart(losses: Sequence[Loss], known: Sequence[Loss]) -> tuple[Loss, ...]:
    """Return losses under names that no known one has."""
    taken = {loss.id for loss in known}
    named: list[Loss] = []
    for loss in losses:
        name, number = loss.id, 2
        while name in taken:
            name, number = f"{loss.id}.{number}", number + 1
        taken.add(name)
        named.append(replace(loss, id=name))
    return tuple(named)


def with_every_group(data: Instance) -> Instance:
    """Return the instance with rows for every loss of groups, if they are few: all must hold."""
    where = data.nodes or NO_NODES
    if where.spare is None or where.spare.groups is None:
        return data
    every = list(itertools.islice(_of_groups(data), MOST_AT_ONCE + 1))
    known = {frozenset(loss.domains) for loss in where.losses if not loss.units}
    more = [loss for loss in every if frozenset(loss.domains) not in known]
    if len(every) > MOST_AT_ONCE or not more:
        return data
    return with_losses(data, (*where.losses, *named_apart(more, where.losses)))


def with_full_nodes(data: Instance) -> Instance:
    """Return the instance with rows that the loss of full nodes implies, however units stand.

    One for each domain of devices as such, which no choice among like templates evades, and, where
    they are few, one for nodes that are full of one template each.
    """
    where = data.nodes or NO_NODES
    if where.spare is None or where.losses:
        return data
    count, there = where.spare.count, units_at(data)
    any_units = [
        Loss(f"node.{d}", devices={d: count * _least_filled(data, d, templates)})
        for d, templates in there.items()
        if templates
    ]
    of_one = [
        Loss(f"node.{d}", units={(j, d): count * (where.node_devices[d] // data.devices[j])})
        for d, templates in there.items()
        for j in templates
        if (j, d) not in where.barred
    ]
    few = of_one if len(of_one) <= MOST_AT_ONCE else []
    return with_losses(data, named_apart((*any_units, *few), ()))


def _least_filled(data: Instance, d: str, templates: Sequence[str]) -> int:
    """Return the devices that units have at least in a node to which no unit can be added."""
    node = (data.nodes or NO_NODES).node_devices[d]
    sizes = tuple(sorted({data.devices[j] for j in templates}))
    if is_chain((*sizes, node)):
        return node
    return max(node - max(sizes) + 1, 1)


def _of_groups(data: Instance) -> Iterator[Loss]:
    where = data.nodes or NO_NODES
    assert where.spare is not None
    groups = where.spare.groups or {}
    count = min(where.spare.count, len(groups))
    for names in itertools.combinations(groups, count):
        members = dict.fromkeys(d for name in names for d in groups[name])
        yield Loss(":".join(names), tuple(members))


def _of_nodes(data: Instance, placed: Placed) -> Iterator[Loss]:
    """Yield what ``count`` nodes can hold of the units that there are, however they stand."""
    where = data.nodes or NO_NODES
    assert where.spare is not None
    contents: list[dict[tuple[str, str], int]] = []
    for d in where.domains:
        here = {j: n for (j, of), n in placed.items() if of == d and n}
        largest = max((where.node_devices[d], *where.free.get(d, ())))
        contents += [
            {(j, d): n for j, n in zip(here, way, strict=True) if n}
            for way in _contents(largest, [(data.devices[j], round(n)) for j, n in here.items()])
        ]
    most = {i: round(n) for i, n in placed.items() if n}
    several = itertools.combinations_with_replacement(contents, where.spare.count)
    for chosen in itertools.islice(several, MOST_FAILURES):
        units: dict[tuple[str, str], int] = {}
        for content in chosen:
            for i, n in content.items():
                units[i] = min(units.get(i, 0) + n, most[i])
        where_to = dict.fromkeys(d for _, d in units)
        yield Loss(":".join(f"node.{d}" for d in where_to), (), units)


def _contents(devices: int, kinds: Sequence[tuple[int, int]]) -> Iterator[tuple[int, ...]]:
    """Yield what a node can hold of (size, count) kinds, to which nothing can be added."""

    def fill(left: int, rest: Sequence[tuple[int, int]]) -> Iterator[tuple[int, ...]]:
        if not rest:
            yield ()
            return
        size, there = rest[0]
        for n in range(min(left // size, there), -1, -1):
            for others in fill(left - n * size, rest[1:]):
                yield (n, *others)

    for way in itertools.islice(fill(devices, kinds), MOST_FAILURES):
        left = devices - sum(n * size for n, (size, _) in zip(way, kinds, strict=True))
        if not any(size <= left and n < there for n, (size, there) in zip(way, kinds, strict=True)):
            yield way


def _worst_of(placed: Placed, losses: Iterator[Loss]) -> list[Loss]:
    """Return one loss for each set of units that is lost and no part of another such set."""
    by_units: dict[tuple[tuple[str, float], ...], Loss] = {}
    for loss in itertools.islice(losses, MOST_FAILURES):
        gone = lost_units(placed, loss)
        by_units.setdefault(tuple(sorted(gone.items())), loss)
    sets = {key: dict(key) for key in by_units}
    return [
        loss
        for key, loss in by_units.items()
        if not any(
            other != key and all(n <= units.get(j, 0) for j, n in key)
            for other, units in sets.items()
        )
    ]
