"""Why there is no fleet: let the limits give way, and see which must, and by how much.

The elastic program (Chinneck 2008): each row that is a limit of the user's gets a slack; the
rest are definitions and never give way. The least total *relative* slack names the limits that
must give way together; one limit elastic at a time tells how much each would have to give
alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pulp

from planner.errors import InfeasibleError, LimitReachedError, SolverError
from planner.milp import highs
from planner.milp.check import check_integers, check_rows
from planner.milp.clock import Deadline
from planner.milp.formulation import CONSTRAINTS, rows
from planner.milp.highs import Settings
from planner.milp.links import NO_LINKS
from planner.milp.moves import NO_MOVES
from planner.milp.nodes import NO_NODES
from planner.milp.program import read
from planner.milp.solve import RAW
from planner.milp.terms import NONE
from planner.milp.variables import declare, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from planner.milp.instance import Instance

    Limit = tuple[str, tuple[str, ...]]

LIMITS: Final = (
    *("C3", "C5", "C6", "C7", "C8", "C9", "C14", "C28"),
    *("C32", "C34", "C36", "C40", "C51", "C54"),
)
"""Families that a user could loosen."""
DEMANDS: Final = ("C2", "C39")
"""Families that give way where no limit is in the way: demand that no unit takes."""
FLOORS: Final = "C40"
"""The family of what must be kept after failures."""
LAST_RESORT: Final = 1e3
"""Price of a share of demand that no unit takes, beside one of a limit that gives way."""
FINEST: Final = 1e-6
"""Slack, as a share of its limit, that counts as none."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """One limit that stands in the way, and how far it must give way."""

    number: str
    """Of the family on the page; ``C6`` and so on."""
    family: str
    """Name of the family, ``accelerators_are_held`` and so on."""
    index: tuple[str, ...]
    """Accelerator, workload, template, domain or failure; empty for the budget."""
    limit: float
    """The limit as given."""
    needs: float
    """What it would have to be."""
    unit: str
    """Of both: ``accelerators``, ``units``, ``USD/h``, ``share of demand``, ``req/s``."""
    least: bool = True
    """Whether no smaller change of all that is named does; else the time ended before that was
    known, and far smaller ones may do."""

    def __str__(self) -> str:
        """Say it in one line."""
        of = f"({','.join(self.index)})" if self.index else ""
        what = f"{self.number} {self.family}{of}"
        if self.number in DEMANDS:
            return f"{what}: no mix of operating points carries more than {self.needs:.4g} of it"
        less = "" if self.least else ", or a smaller change: the time ended before that was known"
        return f"{what}: limit {self.limit:.6g} {self.unit}, needs {self.needs:.6g}{less}"


class NoFleetError(InfeasibleError):
    """No fleet keeps every promise within the limits; says which limits are in the way."""

    def __init__(
        self, message: str, together: tuple[Shortfall, ...], alone: tuple[Shortfall, ...]
    ) -> None:
        super().__init__(message)
        self.together = together
        """Limits that must give way, all of these at once: the least total relative change.
        Empty if time ran out before it was known."""
        self.alone = alone
        """Limits each of which, given way to alone, makes a fleet possible, least relative
        change first."""


def no_fleet(data: Instance, time_limit_s: float) -> NoFleetError:
    """Explain an infeasible instance, within about ``time_limit_s`` seconds.

    Raises:
        SolverError: A fleet exists after all, so whoever called the instance infeasible is wrong.
    """
    deadline = Deadline.after(time_limit_s)
    try:
        together = shortfalls(data, deadline.left_s() / 2)
    except LimitReachedError:
        together = ()
    else:
        if not together:
            raise SolverError("a solver called the program infeasible, but a fleet exists")
    alone = (
        ()
        if any(s.number in DEMANDS for s in together)
        else single_shortfalls(data, deadline.left_s())
    )
    lines = ["no fleet keeps every promise within the limits"]
    lines += [f"must give way together: {s}" for s in together]
    lines += [f"would do alone: {s}" for s in alone]
    return NoFleetError("\n".join(lines), together, alone)


def shortfalls(
    data: Instance, time_limit_s: float = 60.0, *, among: Collection[str] = LIMITS
) -> tuple[Shortfall, ...]:
    """Return the limits that must give way together; empty if a fleet exists.

    The sum over limits of slack / limit is least (a limit of zero counts as one of its unit,
    a budget of zero as the cheapest unit). Where no loosening helps, because no mix of operating
    points carries all demand, C2 is among them, with the share that can be carried.

    Args:
        data: The instance.
        time_limit_s: The best answer by then is returned; it is enough, perhaps not the least,
            and says so.
        among: Numbers of the families that may give way; without ``C3`` every promise stays.

    Raises:
        InfeasibleError: Loosening the families in ``among`` is not enough, that of all would be.
        LimitReachedError: The time passed before any answer.
        SolverError: The answer did not survive its check.
    """
    deadline = Deadline.after(time_limit_s)
    answer = _elastic(data, lambda limit: limit[0] in among, time_limit_s)
    if answer is None and set(among) < set(LIMITS):
        raise InfeasibleError(f"loosening {', '.join(sorted(among))} is not enough for any fleet")
    if answer is None:
        last = (*LIMITS, *DEMANDS)
        answer = _elastic(data, lambda limit: limit[0] in last, deadline.left_s())
    if answer is None:
        raise SolverError("highs calls a program infeasible in which every limit gives way")
    return answer


def single_shortfalls(data: Instance, time_limit_s: float = 60.0) -> tuple[Shortfall, ...]:
    """Return every limit that makes a fleet possible by giving way alone, and how far it must.

    Returns:
        Least relative change first. Levers that do not help, or whose time ran out, are left
        out; each gets an equal share of the time. The floors after failures are one lever, of
        which the one that must give most is returned.
    """
    limits = _limits(data)
    levers: list[set[Limit]] = [{limit} for limit in limits if limit[0] != FLOORS]
    # What must be survived is one limit of the user's, whatever fails: its rows give way at once,
    # and what is below the floor then need not be offered to what is left.
    floors = {limit for limit in limits if limit[0] == FLOORS}
    floors |= {("C39", index) for _, index in floors}
    levers += [floors] if floors else []
    deadline = Deadline.after(time_limit_s)
    found: list[tuple[float, Shortfall]] = []
    for position, lever in enumerate(levers):
        share_s = deadline.left_s() / (len(levers) - position)
        try:
            answer = _elastic(data, lever.__contains__, share_s) or ()
        except LimitReachedError:
            continue
        changes = [
            (abs(one.needs - one.limit) / _size(data, (one.number, one.index)), one)
            for one in answer
            if lever is not floors or one.number == FLOORS
        ]
        found += sorted(changes, key=lambda pair: -pair[0])[:1] if lever is floors else changes
    return tuple(one for _, one in sorted(found, key=lambda pair: pair[0]))


def _limits(data: Instance) -> list[Limit]:
    """List every limit that is given, in the order of the page."""
    v = declare(pulp.LpProblem("limits", pulp.LpMinimize), data)
    return [
        (number, index)
        for number, index, _ in rows(data, v)
        if number in LIMITS and _is_limit(data, number, index)
    ]


def _elastic(
    data: Instance, gives: Callable[[Limit], bool], time_limit_s: float
) -> tuple[Shortfall, ...] | None:
    """Minimise the relative slack of the limits that give way; None if that is not enough."""
    problem = pulp.LpProblem("elastic", pulp.LpMinimize)
    v = declare(problem, data)
    slack: dict[Limit, pulp.LpVariable] = {}
    for number, index, row in rows(data, v):
        limit = (number, index)
        if gives(limit) and _is_limit(data, number, index):
            slack[limit] = problem.add_variable(name_of("slack", (number, *index)), 0)
            size = _size(data, limit) / _scale(data, limit)
            give = -size if row.sense == pulp.LpConstraintLE else size
            row.addInPlace(pulp.LpAffineExpression({slack[limit]: give}))
        problem += row, name_of(CONSTRAINTS[number].__name__, index)
    price = {s: LAST_RESORT if number in DEMANDS else 1.0 for (number, _), s in slack.items()}
    problem.setObjective(pulp.LpAffineExpression(price))
    program = read(problem)
    answer = highs.run(program, Settings(time_limit_s=time_limit_s, gap=1e-4))
    if answer.status == "infeasible":
        return None
    if answer.x is None:
        raise LimitReachedError("the time limit passed before the limits in the way were known")
    check_integers(program, answer.x, "highs")
    check_rows(program, answer.x, "highs", RAW)
    value = dict(zip(program.columns, answer.x, strict=True))
    found = (
        _shortfall(data, *limit, float(value[s.name]) * _size(data, limit))
        for limit, s in slack.items()
        if value[s.name] > FINEST
    )
    return tuple(replace(one, least=answer.status == "optimal") for one in found)


def _shortfall(data: Instance, number: str, index: tuple[str, ...], missing: float) -> Shortfall:
    limit, unit = _limit(data, number, index)
    falls = number in (*DEMANDS, "C3", "C9", "C40")
    needs = limit - missing if falls else limit + missing
    return Shortfall(number, CONSTRAINTS[number].__name__, index, limit, needs, unit)


def _limit(data: Instance, number: str, index: tuple[str, ...]) -> tuple[float, str]:
    """Return a limit in its own unit, and the unit."""
    i = index[0] if index else ""
    where = data.nodes or NO_NODES
    where_links = data.links or NO_LINKS
    floor = where.spare.floor if where.spare else {}
    share = "share of demand"
    of: dict[str, tuple[float | None, str]] = {
        "C2": (1.0, share),
        "C39": (1.0, share),
        "C3": (data.promise.get(i), share),
        "C5": (data.shed_limit.get(i), share),
        "C6": (_stock(data, index) if number == "C6" else None, "accelerators"),
        "C7": (data.max_units.get(i), "units"),
        "C8": (data.budget_usd_per_hour, "USD/h"),
        "C9": (data.goodput_floor_rps, "req/s"),
        "C28": (_room(data, index) if number == "C28" else None, "replicas"),
        "C32": (where.stock.get(i), "nodes"),
        "C34": (where.power[i][1] if i in where.power else None, "W"),
        "C36": ((data.moves or NO_MOVES).most, "units started or stopped"),
        "C40": (floor.get(index[1]) if len(index) > 1 else None, share),
        "C14": (_term_stock(data, index) if number == "C14" else None, "accelerators"),
        "C51": (where_links.room.get((i, index[1])) if number == "C51" else None, "accelerators"),
        "C54": (where_links.carries.get(i), "bytes/s"),
    }
    limit, unit = of[number]
    return float(limit or 0.0), unit


def _room(data: Instance, index: tuple[str, ...]) -> int:
    """Return what the nodes have room for, by a row of C28."""
    fit = next(f for f in data.fits if f.id == index[0])
    return dict(fit.rows())[index[1]].most


def _is_limit(data: Instance, number: str, index: tuple[str, ...]) -> bool:
    """Tell rows that are a limit of the user's from those of their family that only count."""
    if number == "C14":
        terms = data.terms or NONE
        return terms.of[index[0], index[1]].kind != "owned"
    return True


def _term_stock(data: Instance, index: tuple[str, ...]) -> int | None:
    return (data.terms or NONE).of[index[0], index[1]].stock


def _stock(data: Instance, index: tuple[str, ...]) -> int | None:
    """Return the limit of a row of C6: of a domain if the index names one, else of all."""
    g, *rest = index
    if rest and rest[0] in data.D:
        return data.stock_in.get((g, rest[0]))
    return data.stock.get(g)


def _size(data: Instance, limit: Limit) -> float:
    """Return what a relative slack of one is, in the limit's own unit."""
    given, unit = _limit(data, *limit)
    if given:
        return given
    prices = [c for c in data.usd_per_hour.values() if c > 0]
    return float(min(prices, default=1.0)) if unit == "USD/h" else 1.0


def _scale(data: Instance, limit: Limit) -> float:
    """Return what the row of a limit is divided by on the page."""
    given, unit = _limit(data, *limit)
    return given or 1.0 if unit in ("USD/h", "req/s", "W", "bytes/s") else 1.0
