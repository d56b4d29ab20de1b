"""Every promise of a placement, looked at device by device; shares nothing with the program."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from planner.topology import LEVELS, common_level

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from planner.placement.wanted import Placed, Wanted
    from planner.topology import Domain, Level, Topology


def broken_promises(
    topology: Topology, wanted: Sequence[Wanted], placed: Sequence[Placed]
) -> tuple[str, ...]:
    """Return what is wrong with a placement; nothing where every promise is kept."""
    domains = {d.id: d for d in topology.domains}
    rows: dict[str, list[Placed]] = {w.pool: [] for w in wanted}
    found = []
    for row in placed:
        if row.pool not in rows:
            found.append(f"{row.pool}: is placed and was not wanted")
        elif row.domain not in domains:
            found.append(f"{row.pool}: there is no domain {row.domain}")
        else:
            rows[row.pool].append(row)
    used = Counter((row.domain, row.node, d) for row in placed for d in row.devices)
    found += [f"{at}: {n} replicas use one device" for at, n in used.items() if n > 1]
    for w in wanted:
        found += _pool(topology, domains, w, rows[w.pool])
    for group in dict.fromkeys(w.group for w in wanted if w.group is not None):
        members = [w for w in wanted if w.group == group]
        found += _group(domains, group, members, rows)
    return tuple(found)


def _pool(
    topology: Topology, domains: dict[str, Domain], w: Wanted, rows: Sequence[Placed]
) -> Iterator[str]:
    by_replica: dict[int, list[Placed]] = {}
    for row in rows:
        by_replica.setdefault(row.replica, []).append(row)
    if sorted(by_replica) != list(range(w.replicas)):
        yield f"{w.pool}: {len(by_replica)} replicas are placed, and {w.replicas} are wanted"
    for number, parts in by_replica.items():
        yield from _replica(topology, domains, w, f"{w.pool} {number}", parts)


def _replica(
    topology: Topology, domains: dict[str, Domain], w: Wanted, name: str, parts: Sequence[Placed]
) -> Iterator[str]:
    if sum(len(part.devices) for part in parts) != w.devices:
        yield f"{name}: has other than {w.devices} devices"
    if len({part.domain for part in parts}) != 1:
        yield f"{name}: lies in several domains"
        return
    domain = domains[parts[0].domain]
    if domain.shape.accelerator != w.accelerator:
        yield f"{name}: runs on {domain.shape.accelerator}"
    if w.domain not in (None, domain.id):
        yield f"{name}: is in {domain.id}, and {w.domain} was promised"
    if w.regions is not None and domain.region not in w.regions:
        yield f"{name}: is in {domain.region}, where it may not be"
    for part in parts:
        if not all(_is_free(domain, part.node, d) for d in part.devices):
            yield f"{name}: uses devices of {domain.id} that are not free"
    over = {_scaleup(domain, part.node, d) for part in parts for d in part.devices}
    if len(over) > 1 and not topology.tp_may_cross:
        yield f"{name}: lies over {len(over)} scale-up domains"


def _is_free(domain: Domain, node: int, device: int) -> bool:
    for group in domain.groups:
        if group.first <= node < group.first + group.nodes:
            return domain.shape.devices - group.free <= device < domain.shape.devices
    return False


def _scaleup(domain: Domain, node: int, device: int) -> tuple[int, int, int]:
    """Return which scale-up domain a device is in: group, and number there."""
    for i, group in enumerate(domain.groups):
        if group.first <= node < group.first + group.nodes:
            flat = (node - group.first) * domain.shape.devices + device
            return (i, flat // domain.shape.scaleup_devices, 0)
    return (-1, node, device)


def _group(
    domains: dict[str, Domain],
    group: str,
    members: Sequence[Wanted],
    rows: dict[str, list[Placed]],
) -> Iterator[str]:
    units: dict[int | None, list[Placed]] = {}
    for w in members:
        per = Counter(unit for unit, _ in {(row.unit, row.replica) for row in rows[w.pool]})
        if any(n != w.per_unit for n in per.values()):
            yield f"{group}: a unit has other than {w.per_unit} replicas of {w.pool}"
        for row in rows[w.pool]:
            units.setdefault(row.unit, []).append(row)
    within: Level = members[0].within
    for number, parts in units.items():
        worst = max((_level(domains, a, b) for a in parts for b in parts), key=LEVELS.index)
        if LEVELS.index(worst) > LEVELS.index(within):
            yield f"{group} {number}: meets in a {worst}, and {within} was promised"


def _level(domains: dict[str, Domain], one: Placed, other: Placed) -> Level:
    a, b = domains[one.domain], domains[other.domain]
    if a.id == b.id:
        ends = {_scaleup(a, row.node, d) for row in (one, other) for d in row.devices}
        if len(ends) == 1:
            return "scaleup"
        if one.node == other.node:
            return "node"
    return common_level(a, b)
