"""Curves of which a few loads are given and others asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.calibration.points import Point


@dataclass(frozen=True, slots=True)
class Case:
    """Loads of one curve that are given, and loads that are asked for; indices of points."""

    kind: str
    """``other loads`` or ``twice the highest``."""
    seen: tuple[int, ...]
    wanted: tuple[int, ...]


def cases_of(points: Sequence[Point]) -> list[Case]:
    """Return the cases with three given loads: lowest, middle and highest."""
    curves: dict[str, dict[int, int]] = {}
    for i, p in enumerate(points):
        if p.system.prefill is None and p.system.main.replicas == 1:
            curves.setdefault(p.curve, {}).setdefault(p.load.users, i)
    cases = []
    for curve in curves.values():
        loads = sorted(curve)
        rows = [curve[users] for users in loads]
        if len(rows) < 4:
            continue
        seen = (rows[0], rows[len(rows) // 2], rows[-1])
        cases.append(Case("other loads", seen, tuple(r for r in rows if r not in seen)))
        if 1.8 <= loads[-1] / loads[-2] <= 2.2:
            low = rows[:-1]
            seen = (low[0], low[len(low) // 2], low[-1])
            cases.append(Case("twice the highest", seen, (rows[-1],)))
    return cases
