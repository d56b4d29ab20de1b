"""Many periods: what is held in all of them first, then each period by itself.

The linear relaxation over all periods says how many accelerators to hold on steady terms, and
bounds every fleet. With these rounded, nothing but starts, ramps, a budget and work that waits ties
the periods together, so each is a small program of its own. What they find is put together, and
the terms are chosen anew around it, with every row in force. The relaxation's bound says how good
that is; only where it is not good enough does the solver work on the whole.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.milp import highs, narrow
from planner.milp.highs import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from planner.milp.formulation import Model
    from planner.milp.highs import Settings
    from planner.milp.program import Floats, Program

    Ints = NDArray[np.int64]

STEADY: Final = -1
"""Marks columns of all periods: what is held on steady terms."""
TIED: Final = -2
"""Marks columns and rows of several periods: starts, and work that waits."""
USED: Final = 1e-9
"""Units of the relaxation above which a template is in use."""
HARD: Final = 3.0
"""How many times its equal share of the time that is left a period may take."""
ROUNDS: Final = 2
"""Most times that the periods are solved; the terms are chosen anew in between."""


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Which period a column and a row belong to: its place in T, ``STEADY`` or ``TIED``."""

    columns: Ints
    rows: Ints

    def independent(self) -> bool:
        """Tell whether nothing at all ties the periods together."""
        return bool((self.columns >= 0).all() and (self.rows >= 0).all())


def run(model: Model, program: Program, settings: Settings, start: Floats | None) -> Answer:
    """Solve with HiGHS: the relaxation, the periods one by one, and the whole if need be.

    Args:
        model: The written program, of several periods.
        program: The same rows and columns, with an objective.
        settings: Time, gaps and seed.
        start: A first incumbent by column, shape ``(c,)``.
    """
    ends_s = time.perf_counter() + settings.time_limit_s
    parts = parts_of(model, program)
    relaxed = highs.run(program.relaxed(), settings)
    if relaxed.x is None or relaxed.row_duals is None or relaxed.bound is None:
        known = start if relaxed.status == "limit" else None
        return dataclasses.replace(relaxed, x=known, bound=None)
    best, bound = _rounds(model, program, parts, relaxed, start, _left(settings, ends_s))
    if best is not None and within(program, settings, best, bound):
        return Answer("optimal", best, bound)
    whole = highs.run(program, _left(settings, ends_s), best)
    if whole.x is None and whole.status == "limit":
        return Answer("limit", best, bound)
    return with_bound(program, whole, bound)


def _rounds(
    model: Model,
    program: Program,
    parts: Parts,
    relaxed: Answer,
    start: Floats | None,
    settings: Settings,
) -> tuple[Floats | None, float]:
    """Solve the periods and choose the terms around them, in turn; the best, and its bound."""
    assert relaxed.x is not None  # the relaxation was solved
    assert relaxed.bound is not None
    ends_s = time.perf_counter() + settings.time_limit_s
    best, bound = start, relaxed.bound
    steady = _rounded(model, program, relaxed.x)
    for _ in range(ROUNDS):
        found, proven = _by_period(model, program, parts, relaxed, steady, _left(settings, ends_s))
        if found is None:
            break
        if parts.independent() and proven is not None:
            bound = min(bound, proven) if program.maximise else max(bound, proven)
        joined = found if parts.independent() else tied(model, program, found, settings)
        if joined is None or (best is not None and gain(program, joined, best) <= 0):
            break
        best = joined
        again = np.where(parts.columns == STEADY, joined, steady)
        if within(program, settings, best, bound) or np.array_equal(again, steady):
            break
        steady = again
    return best, bound


def parts_of(model: Model, program: Program) -> Parts:
    """Tell the period of every column and row; shapes ``(c,)`` and ``(r,)``."""
    at = {name: i for i, name in enumerate(program.columns)}
    place = {t: i for i, t in enumerate(model.data.T)}
    columns = np.full(len(at), TIED, dtype=np.int64)
    v = model.v
    timed = itertools.chain(
        v.n.items(), v.N.items(), v.x.items(), v.z.items(), v.O.items(), v.r.items()
    )
    timed = itertools.chain(timed, v.moves.up.items(), v.moves.down.items())
    for index, column in timed:
        columns[at[column.name]] = place[index[-1]]
    for column in v.R.values():
        columns[at[column.name]] = STEADY
    # A row is of the one period that its columns have, those that are steady left aside.
    of_entry = columns[program.A.indices]
    row_of = np.repeat(np.arange(len(program.rows)), np.diff(program.A.indptr))
    low = np.full(len(program.rows), len(place), dtype=np.int64)
    high = np.full(len(program.rows), STEADY, dtype=np.int64)
    timed_entries = of_entry != STEADY
    np.minimum.at(low, row_of[timed_entries], of_entry[timed_entries])
    np.maximum.at(high, row_of[timed_entries], of_entry[timed_entries])
    rows = np.where((low == high) & (low >= 0), low, TIED)
    return Parts(columns, np.where(high == STEADY, TIED, rows))


def _rounded(model: Model, program: Program, x: Floats) -> Floats:
    """Round what is held on steady terms: up where nothing can be hired beside it."""
    steady = np.zeros(len(program.columns))
    terms = model.data.terms
    if terms is None:
        return steady
    at = {name: i for i, name in enumerate(program.columns)}
    hired = {g for g, _ in terms.hired()}
    left = {i: term.stock for i, term in terms.of.items() if term.stock is not None}
    for (g, c, _), column in model.v.R.items():
        value = float(x[at[column.name]])
        count = int(np.floor(value + 0.5) if g in hired else np.ceil(value - 1e-6))
        count = min(count, left.get((g, c), count))
        if (g, c) in left:
            left[g, c] -= count
        steady[at[column.name]] = count
    for (g, c, _), column in model.v.R.items():
        if terms.of[g, c].kind == "owned":  # all that are owned are held, wherever they stand
            steady[at[column.name]] += left[g, c]
            left[g, c] = 0
    return steady


def _by_period(
    model: Model,
    program: Program,
    parts: Parts,
    relaxed: Answer,
    steady: Floats,
    settings: Settings,
) -> tuple[Floats | None, float | None]:
    """Solve every period with what is steady given; the columns together, and the sum of bounds."""
    x = steady.copy()
    total: float | None = 0.0
    ends_s = time.perf_counter() + settings.time_limit_s
    pieces = list(_pieces(model, program, parts, relaxed, steady))
    # What is steady is paid for already: a gap of what is left to pay would ask for too much.
    bound = abs(relaxed.bound or 0.0)
    allowed = max(settings.gap * bound, settings.absolute_gap) / 2 / len(pieces)
    for position, (columns, narrowed, whole) in enumerate(pieces):
        left_s = max(ends_s - time.perf_counter(), 0.0)
        share_s = left_s * min(HARD / (len(pieces) - position), 1.0)
        share = dataclasses.replace(
            settings,
            time_limit_s=share_s,
            gap=0.0,
            absolute_gap=allowed,
        )
        answer = highs.run(narrowed, share)
        if answer.x is None:
            answer = highs.run(whole, share)
        elif narrowed is not whole:
            answer = dataclasses.replace(answer, bound=None)
        if answer.x is None:
            return None, None
        x[columns] = answer.x
        total = None if total is None or answer.bound is None else total + answer.bound
    return x, total


def _pieces(
    model: Model, program: Program, parts: Parts, relaxed: Answer, steady: Floats
) -> Iterator[tuple[Ints, Program, Program]]:
    """Cut out each period: its columns, its program with few templates, and with all."""
    given = program.A @ np.where(parts.columns == STEADY, steady, 0.0)
    few = _few(model, program, relaxed)
    by_row = program.A
    for place, t in enumerate(model.data.T):
        columns = np.flatnonzero(parts.columns == place)
        rows = np.flatnonzero(parts.rows == place)
        whole = dataclasses.replace(
            program,
            columns=tuple(program.columns[i] for i in columns),
            rows=tuple(program.rows[i] for i in rows),
            A=by_row[rows][:, columns],
            row_lower=program.row_lower[rows] - given[rows],
            row_upper=program.row_upper[rows] - given[rows],
            lower=program.lower[columns],
            upper=program.upper[columns],
            cost=program.cost[columns],
            integer=program.integer[columns],
        )
        if t not in few:
            yield columns, whole, whole
            continue
        upper = np.where(few[t][columns], 0.0, whole.upper)
        yield columns, dataclasses.replace(whole, upper=upper), whole


def _few(model: Model, program: Program, relaxed: Answer) -> dict[str, NDArray[np.bool_]]:
    """Return, by period, the columns of units that the relaxation finds least worth having."""
    most = max(narrow.FEW, 3 * len(model.data.W))
    if len(model.data.J) <= most or relaxed.row_duals is None or relaxed.x is None:
        return {}
    losses = narrow.losses_in(model, program, relaxed.row_duals)
    at = {name: i for i, name in enumerate(program.columns)}
    # Where accelerators are to spare many templates lose nothing: those in use come first.
    rank = {
        (j, t): (relaxed.x[at[column.name]] <= USED, losses[j, t])
        for (j, t), column in model.v.N.items()
    }
    found = {}
    for t in model.data.T:
        kept = {j for _, j in sorted((rank[j, t], j) for j in model.data.J)[:most]}
        left_out = np.zeros(len(program.columns), dtype=bool)
        for (j, _, of), column in model.v.n.items():
            if of == t and j not in kept:
                left_out[at[column.name]] = True
        found[t] = left_out
    return found


def tied(model: Model, program: Program, x: Floats, settings: Settings) -> Floats | None:
    """Choose terms and starts anew around the units of ``x``; None if some row stays broken."""
    parts = parts_of(model, program)
    at = {name: i for i, name in enumerate(program.columns)}
    free = (parts.columns == STEADY) | (parts.columns == TIED)
    for column in model.v.O.values():
        free[at[column.name]] = True
    fixed = dataclasses.replace(
        program,
        lower=np.where(free, program.lower, x),
        upper=np.where(free, program.upper, x),
    )
    exact = dataclasses.replace(settings, gap=settings.gap / 10, feasibility=1e-6)
    answer = highs.run(fixed, exact)
    return answer.x


def _left(settings: Settings, ends_s: float) -> Settings:
    left_s = max(ends_s - time.perf_counter(), 0.0)
    return dataclasses.replace(settings, time_limit_s=left_s)


def gain(program: Program, one: Floats, other: Floats) -> float:
    """Return by how much one answer is better than another, in the objective's unit."""
    sign = 1.0 if program.maximise else -1.0
    return sign * (program.objective(one) - program.objective(other))


def within(program: Program, settings: Settings, x: Floats, bound: float) -> bool:
    """Tell whether an answer is within the gap that was asked for."""
    found = program.objective(x)
    return abs(found - bound) <= max(settings.gap * abs(found), settings.absolute_gap)


def with_bound(program: Program, answer: Answer, bound: float) -> Answer:
    """Return an answer with the better of its own bound and another."""
    if answer.bound is None:
        return dataclasses.replace(answer, bound=bound)
    best = min(answer.bound, bound) if program.maximise else max(answer.bound, bound)
    return dataclasses.replace(answer, bound=best)
