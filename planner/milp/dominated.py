"""Templates that another one makes needless: left out before a large program is written.

A template is needless beside another of the same accelerator, devices and workloads, in the same
mix, that costs no more and at every load of the first has at least its compliant rates. Units of
the first can then be exchanged one for one in any fleet, in any place, without loss.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.milp.fit import weights_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from planner.milp.instance import Instance

    Curve = tuple[tuple[object, ...], NDArray[np.float64], NDArray[np.float64]]

MANY: Final = 300
"""Templates above which it is worth while to look."""
ROUNDING: Final = 1e-12
"""Share by which equal numbers may differ."""
SAME_MIX: Final = 1e-9
"""Shares of a mix that differ by no more are equal."""


def without_dominated(data: Instance, keep: Iterable[str] = ()) -> Instance:
    """Return the instance without templates that another of the same kind makes needless.

    Templates with limits, lent units, or units of today are kept, as are those of ``keep``:
    those are about a template by its name.
    """
    if len(data.J) <= MANY:
        return data
    named = {*keep, *data.min_units, *data.max_units, *(j for j, _ in data.beside)}
    if data.deferral is not None:
        named |= {j for j, _ in data.deferral.lent_rps}
    barred: dict[str, tuple[str, ...]] = {}
    if data.moves is not None:
        named |= {j for j, _ in data.moves.current}
    if data.nodes is not None:
        for j, d in sorted(data.nodes.barred):
            barred[j] = (*barred.get(j, ()), d)
    curves = {j: curve for j, curve in _curves(data).items() if j not in named}
    groups: dict[object, list[str]] = {}
    for j, (mix, _, _) in curves.items():
        place = (data.devices[j], barred.get(j, ()), weights_of(data, j))
        kind = (data.accelerator_of[j], place, mix)
        groups.setdefault(kind, []).append(j)
    needless = {j for group in groups.values() for j in _needless(data, group, curves)}
    kept = tuple(j for j in data.J if j not in needless)
    if len(kept) == len(data.J):
        return data
    return _only(data, kept)


def _curves(
    data: Instance,
) -> dict[str, Curve]:
    """Return mix, loads and compliant shares of the templates whose points share one mix.

    The mix as (workload, share) rounded; loads in all, req/s, shape ``(o,)``; compliant requests
    per offered one, shape ``(o, w)``.
    """
    at: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
    for (j, o, w), load in data.load_rps.items():
        if load > 0:
            good = data.goodput_rps.get((j, o, w), 0.0)
            at.setdefault(j, {}).setdefault(o, {})[w] = (float(load), float(good))
    found: dict[str, Curve] = {}
    for j, points in at.items():
        if len(points) < len(data.O[j]):
            continue  # a point without load: nothing to compare
        mixes = set()
        loads: list[float] = []
        shares: list[list[float]] = []
        for of in points.values():
            total = sum(load for load, _ in of.values())
            names = sorted(of)
            mixes.add(tuple((w, round(of[w][0] / total / SAME_MIX)) for w in names))
            loads.append(total)
            shares.append([of[w][1] / total for w in names])
        if len(mixes) == 1:
            found[j] = (mixes.pop(), np.array(loads), np.array(shares))
    return found


def _needless(
    data: Instance,
    group: list[str],
    curves: Mapping[str, Curve],
) -> set[str]:
    """Return those of a group that another one, itself not needless, dominates."""
    kept: list[str] = []
    # The one that carries most for the least money first: it dominates most of the others.
    for j in sorted(group, key=lambda j: (data.usd_per_hour[j], -curves[j][1].max(), j)):
        _, loads, good = curves[j]
        if not any(_dominates(curves[k][1:], (loads, good)) for k in kept):
            kept.append(j)
    return set(group) - set(kept)


def _dominates(
    one: tuple[NDArray[np.float64], NDArray[np.float64]],
    other: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> bool:
    """Tell whether each point of ``other`` has one that carries as much, and as compliantly.

    A point with more load and as high a share of compliant requests stands for every smaller
    load, since a unit may idle for the rest of its time.
    """
    more = one[0][:, None] >= other[0][None, :] * (1 - ROUNDING)
    better = (one[1][:, None, :] >= other[1][None, :, :] - ROUNDING).all(axis=2)
    return bool((more & better).any(axis=0).all())


def _only(data: Instance, kept: tuple[str, ...]) -> Instance:
    stay = set(kept)
    return dataclasses.replace(
        data,
        J=kept,
        O={j: data.O[j] for j in kept},
        load_rps={i: x for i, x in data.load_rps.items() if i[0] in stay},
        goodput_rps={i: x for i, x in data.goodput_rps.items() if i[0] in stay},
        devices={j: data.devices[j] for j in kept},
        accelerator_of={j: data.accelerator_of[j] for j in kept},
        usd_per_hour={j: data.usd_per_hour[j] for j in kept},
    )
