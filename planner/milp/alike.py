"""Domains that nothing tells apart are one, until the fleet is known.

Racks of one zone with equal nodes at one price give a program as many equal columns as there are
racks, and a solver spends its time among fleets that differ in names only. Their nodes are put
together; afterwards units are given to racks node by node.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from planner.milp.nodes import sizes_at
from planner.milp.packing import is_chain, place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.milp.choice import Choice
    from planner.milp.instance import Instance


def merged(data: Instance) -> tuple[Instance, dict[str, tuple[str, ...]]]:
    """Put domains together that differ by name only.

    Returns:
        The instance, and the domains by the name of the one that stands for them; the instance
        itself, and nothing, where there are none.
    """
    where = data.nodes
    if where is None:
        return data, {}
    barred: dict[str, tuple[str, ...]] = {}
    for j, d in sorted(where.barred):
        barred[d] = (*barred.get(d, ()), j)
    groups = (where.spare.groups if where.spare else None) or {}
    chains = {d: is_chain(sizes) for d, sizes in sizes_at(data).items()}
    kept_apart = {d for _, d in data.stock_in}
    kept_apart |= {d for _, d in data.moves.current} if data.moves else set()
    alike: dict[object, list[str]] = {}
    for d in where.domains:
        kind = (
            where.accelerator_of[d],
            where.node_devices[d],
            where.usd_per_hour[d],
            where.node_watts.get(d),
            d in where.stock,
            barred.get(d, ()),
            tuple(name for name, (members, _) in where.power.items() if d in members),
            tuple(name for name, members in groups.items() if d in members),
            # Each alone: what is about it by name, and sizes that are not placed one by one.
            d if d in kept_apart or not chains[d] else "",
        )
        alike.setdefault(kind, []).append(d)
    sets = {members[0]: tuple(members) for members in alike.values()}
    if len(sets) == len(where.domains):
        return data, {}
    return _with_sets(data, sets), sets


def _with_sets(data: Instance, sets: Mapping[str, tuple[str, ...]]) -> Instance:
    where = data.nodes
    assert where is not None
    gone = {d for members in sets.values() for d in members[1:]}

    def first(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(d for d in names if d not in gone)

    spare = where.spare
    if spare is not None and spare.groups is not None:
        spare = dataclasses.replace(
            spare, groups={name: first(members) for name, members in spare.groups.items()}
        )
    stay = first(where.domains)
    nodes = dataclasses.replace(
        where,
        accelerator_of={d: where.accelerator_of[d] for d in stay},
        node_devices={d: where.node_devices[d] for d in stay},
        usd_per_hour={d: where.usd_per_hour[d] for d in stay},
        stock={d: sum(where.stock[e] for e in sets[d]) for d in stay if d in where.stock},
        free={d: free for d in stay if (free := sum((where.free.get(e, ()) for e in sets[d]), ()))},
        node_watts={d: w for d, w in where.node_watts.items() if d not in gone},
        power={name: (first(members), watts) for name, (members, watts) in where.power.items()},
        barred=frozenset((j, d) for j, d in where.barred if d not in gone),
        spare=spare,
    )
    return dataclasses.replace(
        data,
        D=first(data.D),
        homes={g: first(domains) for g, domains in data.homes.items()},
        nodes=nodes,
    )


def told_apart(choice: Choice, data: Instance, sets: Mapping[str, tuple[str, ...]]) -> Choice:
    """Give the nodes and units of domains that were put together to each of them.

    Args:
        choice: Of the instance with domains put together.
        data: The instance with all domains.
        sets: Domains by the name of the one that stands for them.
    """
    where = data.nodes
    if where is None or not sets:
        return choice
    nodes: dict[str, int] = {}
    units_in: dict[tuple[str, str, str], int] = {}
    for d, members in sets.items():
        bins: list[tuple[str, int]] = []
        left = choice.nodes.get(d, 0)
        for e in members:
            new = min(left, where.stock.get(e, left))
            left -= new
            if new:
                nodes[e] = new
            bins += [(e, where.node_devices[e])] * new + [(e, f) for f in where.free.get(e, ())]
        for t in data.T:
            here = [(j, n) for (j, of, at), n in choice.units_in.items() if (of, at) == (d, t)]
            units = [j for j, n in here for _ in range(n)]
            homes = place([free for _, free in bins], [data.devices[j] for j in units])
            assert homes is not None  # the rows of C30 hold, and they are exact
            for j, home in zip(units, homes, strict=True):
                index = (j, bins[home][0], t)
                units_in[index] = units_in.get(index, 0) + 1
    losses = tuple(
        dataclasses.replace(f, domains=tuple(e for d in f.domains for e in sets.get(d, (d,))))
        for f in choice.losses
    )
    apart = {i: n for i, n in choice.units_in.items() if i[1] not in sets}
    return dataclasses.replace(choice, nodes=nodes, units_in=apart | units_in, losses=losses)
