"""A second route to the best fleet in domains: every place of every unit, every failure.

Shares no code with planner/milp: nodes are packed by trying, failures are listed in full.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from planner.milp import Instance, Moves
from planner.milp.nodes import Nodes
from tests.brute import goodput_of

Placed = dict[tuple[str, str], int]


def fits(free: Sequence[int], groups: Sequence[int]) -> bool:
    """Whether groups of devices can be packed into nodes, each in one of them, by trying."""
    left = sorted(groups, reverse=True)

    def go(at: int, room: tuple[int, ...]) -> bool:
        if at == len(left):
            return True
        tried = set()
        for v, has in enumerate(room):
            if has >= left[at] and has not in tried:
                tried.add(has)
                if go(at + 1, tuple(sorted((*room[:v], has - left[at], *room[v + 1 :])))):
                    return True
        return False

    return go(0, tuple(sorted(free)))


def fewest_nodes(free: Sequence[int], devices: int, groups: Sequence[int], most: int) -> int | None:
    """The fewest new nodes beside the partly used ones; None if ``most`` are not enough."""
    return next((m for m in range(most + 1) if fits((*free, *[devices] * m), groups)), None)


def losses_of(where: Nodes, data: Instance, placed: Placed) -> Iterator[dict[str, int]]:
    """Every set of units that a failure can take, by template."""
    spare = where.spare
    if spare is None:
        return
    if spare.groups is not None:
        for names in itertools.combinations(spare.groups, min(spare.count, len(spare.groups))):
            gone = {d for name in names for d in spare.groups[name]}
            yield {
                j: sum(n for (i, d), n in placed.items() if i == j and d in gone) for j in data.J
            }
        return
    contents = []
    for d in where.domains:
        here = [j for j in data.J if placed.get((j, d), 0)]
        most = max((where.node_devices[d], *where.free.get(d, ())))
        contents += [
            {(j, d): n for j, n in zip(here, way, strict=True)}
            for way in itertools.product(*(range(placed[j, d] + 1) for j in here))
            if sum(data.devices[j] * n for j, n in zip(here, way, strict=True)) <= most
        ]
    for chosen in itertools.combinations_with_replacement(contents, spare.count):
        gone: Placed = {}
        for content in chosen:
            for i, n in content.items():
                gone[i] = min(gone.get(i, 0) + n, placed[i])
        yield {j: sum(n for (i, _), n in gone.items() if i == j) for j in data.J}


def survives(data: Instance, placed: Placed) -> bool:
    where = data.nodes
    assert where is not None
    if where.spare is None:
        return True
    n = {j: sum(count for (i, _), count in placed.items() if i == j) for j in data.J}
    after = dataclasses.replace(
        data,
        D=("",),
        homes={},
        nodes=None,
        moves=None,
        promise={w: where.spare.floor.get(w, 0.0) for w in data.W},
        shed_limit={w: where.spare.shed.get(w, 0.0) for w in data.W},
    )
    return all(
        goodput_of(after, tuple(n[j] - gone.get(j, 0) for j in data.J)) is not None
        for gone in losses_of(where, data, placed)
    )


def least_cost(data: Instance, most_units: int) -> float | None:
    """The least cost of a fleet in domains with at most so many units of each kind in each."""
    where = data.nodes
    assert where is not None
    places = [
        (j, d)
        for j in data.J
        for d in where.domains
        if data.accelerator_of[j] == where.accelerator_of[d] and (j, d) not in where.barred
    ]
    priced = []
    for counts in itertools.product(range(most_units + 1), repeat=len(places)):
        placed = dict(zip(places, counts, strict=True))
        nodes = {}
        for d in where.domains:
            groups = [data.devices[j] for (j, of), n in placed.items() if of == d for _ in range(n)]
            m = fewest_nodes(
                where.free.get(d, ()), where.node_devices[d], groups, where.stock.get(d, 9)
            )
            if m is None:
                break
            nodes[d] = m
        else:
            drawn = {
                name: sum(where.node_watts[d] * nodes[d] for d in members)
                for name, (members, _) in where.power.items()
            }
            moves = data.moves or Moves()
            moved = sum(
                abs(placed.get(i, 0) - moves.current.get(i, 0)) for i in {*placed, *moves.current}
            )
            if all(drawn[name] <= watts for name, (_, watts) in where.power.items()) and (
                moves.most is None or moved <= moves.most
            ):
                cost = sum(where.usd_per_hour[d] * m for d, m in nodes.items())
                cost += moves.usd_per_hour * moved
                cost += sum(data.usd_per_hour[j] * n for (j, _), n in placed.items())
                priced.append((cost, counts))
    for cost, counts in sorted(priced):
        placed = dict(zip(places, counts, strict=True))
        n = tuple(sum(c for (i, _), c in placed.items() if i == j) for j in data.J)
        if goodput_of(
            dataclasses.replace(data, D=("",), homes={}, nodes=None, moves=None), n
        ) is not None and survives(data, {i: c for i, c in placed.items() if c}):
            return cost
    return None
