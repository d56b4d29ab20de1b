"""A plan by measured capacities: the program once, nothing simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.errors import LimitReachedError
from planner.milp import NoFleetError
from planner.planning.table_document import TableAnswer, no_table_plan, table_plan
from planner.planning.table_program import TableProgram
from planner.planning.table_reasons import (
    decisions,
    limit_uses,
    limits_in_the_way,
    out_of_reach,
    rejections,
)
from planner.planning.teller import Teller
from planner.problem.tables import resolve_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.catalogue import Catalogue
    from planner.fleet import FleetPlan
    from planner.scenario.load import LoadedTables


def plan_tables(
    loaded: LoadedTables,
    *,
    created: str | None = None,
    progress: Callable[[str, float], None] | None = None,
    catalogue: Callable[[], Catalogue] | None = None,
) -> FleetPlan:
    """Find the best fleet by measured capacities.

    Args:
        loaded: The scenario.
        created: Date or other text to write into the plan.
        progress: Told what is being done and about which share of the whole is done.
        catalogue: Makes the catalogue, for prices that are taken from it.

    Raises:
        InputError: The table, its demand or a price cannot be used.
    """
    problem = resolve_tables(loaded, catalogue)
    answer = TableAnswer(loaded, problem, created)
    tell = Teller(progress)
    barriers = tuple(out_of_reach(problem))
    if barriers:
        return no_table_plan(answer, "infeasible", barriers)
    program = TableProgram.of(problem)
    tell("choosing", 0.2)
    try:
        choice = program.choose()
    except NoFleetError as error:
        return no_table_plan(answer, "infeasible", limits_in_the_way(program, error))
    except (LimitReachedError, KeyboardInterrupt):
        return no_table_plan(answer, "unknown", ())
    tell("pricing limits", 0.9)
    return table_plan(
        answer,
        program.units(choice),
        program.loads(choice),
        choice,
        decisions=tuple(decisions(program, choice)),
        rejected=tuple(rejections(program, choice)),
        limits=tuple(limit_uses(program, choice)),
    )
