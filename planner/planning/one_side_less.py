"""A fleet of groups with one replica less on one side of one group."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.candidates.groups import group_build
from planner.planning.fleet import Fleet, PoolChoice
from planner.planning.group_pools import DECODE, PREFILL
from planner.planning.ways import with_units

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.candidates.template import Template


def with_one_side_less(fleet: Fleet) -> Iterator[tuple[str, Template, Fleet]]:
    """Yield, for each side of more than one replica, its pool, the smaller group and the fleet.

    The smaller group takes a share of its pool's load in proportion to that side's replicas; all
    of it where it is the only group.
    """
    for position, pool in enumerate(fleet.pools):
        group = pool.template.build.group
        if group is None:
            continue
        p, d = group.n_prefill, group.n_decode
        for suffix, n, smaller in (
            (PREFILL, p, replace(group, n_prefill=p - 1)),
            (DECODE, d, replace(group, n_decode=d - 1)),
        ):
            if n == 1:
                continue
            template = replace(pool.template, build=group_build(smaller))
            part = (n - 1) / n
            share = part / (pool.units - 1 + part)
            pools = [PoolChoice(template, 1, tuple(x * share for x in pool.load_rps))]
            if pool.units > 1:
                rest = tuple(x * (1 - share) for x in pool.load_rps)
                ways = with_units(pool.ways, pool.units - 1)
                pools.append(PoolChoice(pool.template, pool.units - 1, rest, ways=ways))
            others = (*fleet.pools[:position], *pools, *fleet.pools[position + 1 :])
            yield pool.template.id + suffix, template, Fleet(others)
