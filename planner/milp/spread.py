"""Several domains: how many units first, where they stand afterwards.

Without domains a program is many times smaller, and its bound holds with them too: what stands in
domains stands in their union. The units found are put into the domains largest first; terms and
starts are then chosen anew with every row in force. Where that does not fit, the solver works on
the whole.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.milp import decompose, formulation, narrow
from planner.milp.highs import Answer
from planner.milp.indices import ALONE

if TYPE_CHECKING:
    from planner.milp.formulation import Model
    from planner.milp.highs import Settings
    from planner.milp.instance import Instance
    from planner.milp.program import Floats, Program

FIRST: Final = 0.7
"""Share of the time for the program without domains."""


def run(model: Model, program: Program, settings: Settings, start: Floats | None) -> Answer:
    """Solve with HiGHS: without domains first where there are several.

    Args:
        model: The written program.
        program: The same rows and columns, with an objective.
        settings: Time, gaps and seed.
        start: A first incumbent by column, shape ``(c,)``.
    """
    if model.data.nodes is not None:  # whole nodes tie domains and periods together
        return narrow.run(model, program, settings, start)
    if model.data.D == (ALONE,) or model.data.moves is not None:  # moves tie domains together
        return _run(model, program, settings, start)
    merged = formulation.model_of(_merged(model.data))
    pairs = _pairs(model, merged)
    first = dataclasses.replace(settings, time_limit_s=settings.time_limit_s * FIRST)
    small = _run(merged, _small(program, merged.program, pairs), first, None)
    if small.status == "infeasible":
        return small
    if small.x is not None:
        placed = _placed(model, program, pairs, small.x)
        found = placed if placed is None else decompose.tied(model, program, placed, settings)
        if found is not None and small.bound is not None:
            if decompose.within(program, settings, found, small.bound):
                return Answer("optimal", found, small.bound)
            better = start is None or decompose.gain(program, found, start) > 0
            start = found if better else start
    rest = dataclasses.replace(settings, time_limit_s=settings.time_limit_s * (1 - FIRST))
    answer = _run(model, program, rest, start)
    if small.bound is not None:
        answer = decompose.with_bound(program, answer, small.bound)
    return answer


def _run(model: Model, program: Program, settings: Settings, start: Floats | None) -> Answer:
    method = decompose.run if len(model.data.T) > 1 else narrow.run
    return method(model, program, settings, start)


def _merged(data: Instance) -> Instance:
    """Return the instance with all domains as one: a relaxation of it."""
    stock = dict(data.stock)
    for g in data.G:
        here = [data.stock_in.get((g, d)) for d in data.homes_of(g)]
        if None not in here:
            total = sum(count for count in here if count is not None)
            stock[g] = min(stock.get(g, total), total)
    return dataclasses.replace(data, D=(ALONE,), homes={}, stock_in={}, stock=stock)


def _pairs(model: Model, merged: Model) -> list[list[int]]:
    """Return, for each column of the merged program, those of the whole that it stands for."""
    at = {name: i for i, name in enumerate(model.program.columns)}
    v, w, homes = model.v, merged.v, model.data.homes_of
    of: dict[str, list[int]] = {}
    for (j, _, t), column in w.n.items():
        of[column.name] = [at[v.N[j, t].name]]
    for i, x in w.x.items():
        of[x.name] = [at[v.x[i].name]]
    for k, z in w.z.items():
        of[z.name] = [at[v.z[k].name]]
    for (g, c, _), column in w.R.items():
        of[column.name] = [at[v.R[g, c, d].name] for d in homes(g)]
    for (g, c, _, t), column in w.O.items():
        of[column.name] = [at[v.O[g, c, d, t].name] for d in homes(g)]
    for (g, c, _, a, b), column in w.Y.items():
        of[column.name] = [at[v.Y[g, c, d, a, b].name] for d in homes(g)]
    for (j, _, a, b), column in w.s.items():
        of[column.name] = [at[v.s[j, d, a, b].name] for d in model.data.domains_of(j)]
    for i, lent in (*w.u.items(), *w.r.items()):
        of[lent.name] = [at[(v.r[i] if i in v.r else v.u[i]).name]]
    for slot in (*w.y.values(), *w.q.values()):
        of[slot.name] = [at[slot.name]]
    return [of[name] for name in merged.program.columns]


def _small(program: Program, merged: Program, pairs: list[list[int]]) -> Program:
    """Return the merged program with the whole's objective: of each column the best it may be."""
    best = max if program.maximise else min
    cost = np.array([best(program.cost[i] for i in whole) for whole in pairs])
    upper = np.array([float(sum(program.upper[i] for i in whole)) for whole in pairs])
    return dataclasses.replace(
        merged.aiming_at(cost, maximise=program.maximise), upper=np.minimum(upper, merged.upper)
    )


def _placed(model: Model, program: Program, pairs: list[list[int]], small: Floats) -> Floats | None:
    """Put units into domains, largest first, each domain full before the next; None if none fits.

    Units of one accelerator whose sizes divide each other leave no gaps but at the end.
    """
    data = model.data
    x = np.zeros(len(program.columns))
    for whole, value in zip(pairs, small, strict=True):
        if len(whole) == 1:
            x[whole[0]] = value
    at = {name: i for i, name in enumerate(program.columns)}
    largest_first = sorted(data.J, key=lambda j: (-data.devices[j], j))
    for t in data.T:
        room = {
            (g, d): data.stock_in.get((g, d), math.inf) for g in data.G for d in data.homes_of(g)
        }
        for j in largest_first:
            g, k = data.accelerator_of[j], data.devices[j]
            left = round(x[at[model.v.N[j, t].name]])
            for d in data.homes_of(g) if left else ():
                column = at[model.v.n[j, d, t].name]
                fits = min(left, program.upper[column], room[g, d] // k)
                x[column] = fits
                room[g, d] -= fits * k
                left -= int(fits)
            if left:
                return None
    return x
