"""What changes against the units that run today."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from planner.milp.indices import named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pulp

    from planner.milp.instance import Instance


@dataclass(frozen=True, slots=True)
class Moves:
    """Units of today, and what starting and stopping them may come to."""

    current: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """c_jd: units that run today, by (j, d); absent means none. What is no template, or stands
    where it cannot stay, is stopped."""
    most: int | None = None
    """Most units started and stopped, together; None means no limit."""
    usd_per_hour: float = 0.0
    """Cost of starting or stopping a unit, spread over the time that it is charged to, USD/h."""

    @property
    def counted(self) -> bool:
        """Tell whether moves are limited or cost something."""
        return self.most is not None or self.usd_per_hour > 0


NO_MOVES: Final = Moves()
"""Any fleet may follow today's at no cost."""


@dataclass(frozen=True, slots=True)
class MoveVariables:
    """Decisions about moves; keys are the symbol's indices. Empty where moves do not count."""

    up: Mapping[tuple[str, str, str], pulp.LpVariable]
    """up_jdt: units of j started in d."""
    down: Mapping[tuple[str, str, str], pulp.LpVariable]
    """down_jdt: units of j stopped in d; of what cannot stay, all of them."""


def declare_moves(problem: pulp.LpProblem, data: Instance) -> MoveVariables:
    """Add the variables about moves to a problem."""
    moves = data.moves or NO_MOVES
    if not moves.counted:
        return MoveVariables({}, {})
    places = [(j, d, t) for t in data.T for j in data.J for d in data.domains_of(j)]
    stay = {(j, d) for j, d, _ in places}
    gone = [
        (j, d, t)
        for t in data.T
        for (j, d), count in moves.current.items()
        if (j, d) not in stay and count
    ]

    def add(family: str, index: tuple[str, ...]) -> pulp.LpVariable:
        return problem.add_variable(f"{family}({','.join(named(index))})", 0)

    return MoveVariables(
        up={i: add("up", i) for i in places},
        down={i: add("down", i) for i in (*places, *gone)},
    )


def mistakes_of(data: Moves) -> Iterator[str]:
    """Yield what cannot be used, a line each."""
    for (j, d), count in data.current.items():
        if not (math.isfinite(count) and count >= 0 and count == int(count)):
            yield f"moves.current[{j},{d}]: must be a whole number of at least 0; got {count}"
    if data.most is not None and data.most < 0:
        yield f"moves.most: must be at least 0; got {data.most}"
    if not (math.isfinite(data.usd_per_hour) and data.usd_per_hour >= 0):
        yield f"moves.usd_per_hour: must be finite and at least 0; got {data.usd_per_hour}"
