"""Moves of a fleet, counted as the program counts them: |units - units of today| in each place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planner.milp import Moves

if TYPE_CHECKING:
    from collections.abc import Mapping

    from planner.planning.fleet import Fleet
    from planner.problem.resolve import Problem


def moves_for(problem: Problem) -> Moves | None:
    """Write down what runs today, and what moves may come to; None where they do not count."""
    moving = problem.moving
    if moving is None:
        return None
    current = {(j, d): n for j, d, n in moving.current}
    return Moves(current, moving.most, moving.usd_per_hour)


def count_moves(moves: Moves, units: Mapping[tuple[str, str], int]) -> int:
    """Return how many units are started and stopped, for units by template and domain."""
    every = dict.fromkeys((*units, *moves.current))
    return sum(abs(units.get(i, 0) - moves.current.get(i, 0)) for i in every)


def with_moves(problem: Problem, fleet: Fleet) -> Fleet:
    """Return a fleet with its moves counted and paid, where they count."""
    moves = moves_for(problem)
    if moves is None:
        return fleet
    count = count_moves(moves, _placed(fleet))
    return replace(fleet, moves=count, moves_usd_per_hour=count * moves.usd_per_hour)


def moves_by_template(problem: Problem, fleet: Fleet) -> dict[str, int]:
    """Return the units of each template that are started and stopped; empty where none count."""
    moves, units = moves_for(problem), _placed(fleet)
    found: dict[str, int] = {}
    if moves is not None:
        for j, d in dict.fromkeys((*units, *moves.current)):
            change = abs(units.get((j, d), 0) - moves.current.get((j, d), 0))
            found[j] = found.get(j, 0) + change
    return found


def _placed(fleet: Fleet) -> dict[tuple[str, str], int]:
    return {(p.template.id, d): n for p in fleet.pools for d, n in p.places or (("", p.units),)}


def within_moves(problem: Problem, fleet: Fleet) -> bool:
    """Tell whether a fleet changes no more than it may."""
    moving = problem.moving
    return moving is None or moving.most is None or fleet.moves <= moving.most
