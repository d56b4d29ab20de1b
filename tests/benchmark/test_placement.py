"""A thousand nodes and forty templates, placed with no promise broken."""

from __future__ import annotations

import time

import numpy as np

from planner.placement import Placement, Wanted, broken_promises, place
from tests.topologies import domain, shape, topology

DEVICES = {"h100-sxm": 3650, "b200-sxm": 3650}
FREE = (8,) * 16 + (7, 5, 4, 2)


def fleet() -> list[Wanted]:
    """Forty pools that take about nine tenths of the free devices, two of them groups."""
    rng = np.random.default_rng(3)
    pools = []
    left = {name: 0.9 * n for name, n in DEVICES.items()}
    for group in ("g1", "g2"):
        pools += [
            Wanted(f"{group}.p", "h100-sxm", 4, 12, group=group, per_unit=2, within="rack"),
            Wanted(f"{group}.d", "h100-sxm", 8, 18, group=group, per_unit=3, within="rack"),
        ]
        left["h100-sxm"] -= 4 * 12 + 8 * 18
    for i in range(36):
        name = ("h100-sxm", "b200-sxm")[i % 2]
        size = int(rng.choice((1, 2, 4, 8, 1, 2, 4, 8, 3, 6)))
        share = left[name] / 18 * rng.uniform(0.6, 1.3)
        pools.append(Wanted(f"p{i}", name, size, max(1, int(share / size))))
    return pools


def test_a_thousand_nodes() -> None:
    racks = [
        domain(f"z{z}", f"r{r}", *FREE, of=shape(("h100-sxm", "b200-sxm")[r % 2]))
        for z in range(5)
        for r in range(10)
    ]
    where, wanted = topology(*racks), fleet()
    began, cpu = time.perf_counter(), time.process_time()
    found = place(where, wanted)
    took, burnt = time.perf_counter() - began, time.process_time() - cpu
    assert isinstance(found, Placement)
    assert broken_promises(where, wanted, found.placed) == ()
    devices = sum(w.devices * w.replicas for w in wanted)
    print(
        f"\n{sum(d.nodes for d in where.domains):,} nodes, {len(wanted)} templates,"
        f" {len(found.placed):,} replicas on {devices:,} devices: {took:.1f} s ({burnt:.1f} s of"
        f" CPU), no promise broken, {found.opened} scale-up domains opened"
    )
    assert burnt <= 30
