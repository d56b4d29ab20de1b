"""What a fleet changes against the one that runs now: counted, limited, paid, and explained."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from planner.errors import InfeasibleError, LimitReachedError
from planner.fleet import BillLine, Decision
from planner.milp import Moves, choose
from planner.planning.moves import count_moves, moves_for
from planner.planning.program import instance_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.milp import Choice
    from planner.planning.fleet import Fleet
    from planner.planning.refine import Refined
    from planner.problem.resolve import Problem

FREE_S: Final = 5.0
"""For the program that says what would be best if nothing ran yet."""


def bill_of_moves(problem: Problem, fleet: Fleet) -> Iterator[BillLine]:
    """Yield the line of the bill on moves, if they cost something."""
    moving = problem.moving
    if moving is not None and moving.usd_each and fleet.moves:
        what = "replica" if fleet.moves == 1 else "replicas"
        yield BillLine(
            item=(
                f"{fleet.moves} {what} started or stopped, at {moving.usd_each:,.6g} USD each over"
                f" {moving.over_hours:,.6g} h"
            ),
            usd_per_hour=fleet.moves_usd_per_hour,
        )


def move_decisions(problem: Problem, refined: Refined, fleet: Fleet) -> tuple[Decision, ...]:
    """Say what moves, and what the best fleet would be if moving were free."""
    moving = problem.moving
    if moving is None:
        return ()
    numbers = {"moves": float(fleet.moves), "usd_per_hour": fleet.usd_per_hour}
    words = []
    if moving.most is not None:
        numbers["moves_limit"] = float(moving.most)
        words.append(f"at most {moving.most} may be started and stopped")
    if moving.usd_each:
        numbers["usd_per_hour_of_moves"] = fleet.moves_usd_per_hour
        words.append(
            f"each costs {moving.usd_each:,.6g} USD over {moving.over_hours:,.6g} h,"
            f" {fleet.moves_usd_per_hour:.4g} USD/h in all"
        )
    free = _if_moving_were_free(problem, refined)
    if free is not None:
        then = {(j, d): n for (j, d, _), n in free.units_in.items()}
        moves = count_moves(moves_for(problem) or Moves(), then)
        numbers["moves_if_free"] = float(moves)
        numbers["usd_per_hour_if_free"] = free.cost_usd_per_hour
        per_usd = ""
        if free.name == "max_goodput_per_usd":
            numbers["compliant_requests_per_usd_if_free"] = free.objective * 3600
            per_usd = f" and serve {free.objective * 3600:,.0f} compliant requests per dollar"
        words.append(
            f"if moving were free, the best fleet would cost {free.cost_usd_per_hour:.2f}"
            f" USD/h{per_usd}, by {moves} moves; by measured operating points"
        )
    return (
        Decision(
            question="how many replicas are started and stopped",
            answer=f"{fleet.moves}",
            because="; ".join(words),
            numbers=numbers,
        ),
    )


def _if_moving_were_free(problem: Problem, refined: Refined) -> Choice | None:
    data = replace(instance_of(problem, refined.frontiers), moves=None)
    try:
        return choose(data, refined.choice.name, time_limit_s=FREE_S, gap=max(problem.gap, 1e-3))
    except (InfeasibleError, LimitReachedError):
        return None


def the_last_unit_stays(pool: str) -> Decision:
    """Say why a unit that no promise needs is not stopped."""
    return Decision(
        question=f"does the last unit of {pool} pay",
        answer="it stays",
        because="without it every promise is kept too, but that is more moves than limits.moves",
        numbers={},
    )
