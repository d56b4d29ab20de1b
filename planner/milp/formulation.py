"""The model on one page: this file is the table of contents of docs/formulation.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pulp

from planner.milp.constraints.deferral import (
    deferred_work_is_done_in_its_window,
    units_are_lent_when_free,
    work_is_done_by_lent_units,
)
from planner.milp.constraints.failures import (
    a_full_node_takes_its_devices,
    a_node_takes_what_stands_in_it,
    losing_f_keeps_the_floor,
    survivors_are_offered_the_rest,
    survivors_run_at_operating_points,
)
from planner.milp.constraints.fits import fleets_have_room, one_way_to_have_room_is_chosen
from planner.milp.constraints.links import (
    a_flow_needs_units,
    links_carry_their_kv,
    sides_stand_where_there_is_room,
    units_stand_on_ways,
    what_is_sent_is_carried,
)
from planner.milp.constraints.moves import moves_are_counted, moves_are_limited
from planner.milp.constraints.nodes import (
    groups_fit_in_nodes,
    nodes_are_filled_in_known_ways,
    nodes_are_held,
    power_is_kept,
    regions_are_respected,
)
from planner.milp.constraints.serving import (
    a_share_needs_a_unit,
    every_request_is_offered,
    shedding_stays_within_its_limit,
    the_promise_is_kept,
    units_are_counted_over_domains,
    units_run_at_operating_points,
)
from planner.milp.constraints.supply import (
    accelerators_are_held,
    budget_is_kept,
    goodput_reaches_its_floor,
    units_stay_within_their_limit,
)
from planner.milp.constraints.terms import (
    fleets_change_within_their_ramp,
    spot_is_bounded,
    starts_are_counted,
    terms_stay_within_their_stock,
    unit_starts_are_counted,
    units_start_before_they_serve,
    what_is_hired_stays_its_time,
    what_is_used_is_held,
)
from planner.milp.indices import named
from planner.milp.objective import (
    compliant_goodput,
    goodput_less_cost,
    hourly_cost,
    moves_are_paid,
    nodes_are_paid,
    units_are_paid,
)
from planner.milp.payments import (
    hours_on_demand_are_paid,
    owned_accelerators_are_kept,
    reservations_are_paid,
    spot_hours_are_paid,
    starting_is_paid,
)
from planner.milp.program import objective_of, read
from planner.milp.variables import declare, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from planner.milp.constraints.serving import Rows
    from planner.milp.instance import Instance
    from planner.milp.program import Floats, Program
    from planner.milp.variables import Variables

    Family = Callable[[Instance, Variables], Rows]

TERMS: Final = {
    "O1": units_are_paid,
    "O2": hourly_cost,
    "O3": compliant_goodput,
    "O4": goodput_less_cost,
    "O20": nodes_are_paid,
    "O21": moves_are_paid,
    "O5": owned_accelerators_are_kept,
    "O6": reservations_are_paid,
    "O7": hours_on_demand_are_paid,
    "O8": spot_hours_are_paid,
    "O9": starting_is_paid,
}

CONSTRAINTS: Final[Mapping[str, Family]] = {
    "C1": units_run_at_operating_points,
    "C2": every_request_is_offered,
    "C3": the_promise_is_kept,
    "C4": a_share_needs_a_unit,
    "C5": shedding_stays_within_its_limit,
    "C6": accelerators_are_held,
    "C7": units_stay_within_their_limit,
    "C8": budget_is_kept,
    "C9": goodput_reaches_its_floor,
    "C10": units_are_lent_when_free,
    "C11": work_is_done_by_lent_units,
    "C12": deferred_work_is_done_in_its_window,
    "C13": units_are_counted_over_domains,
    "C30": groups_fit_in_nodes,
    "C31": nodes_are_filled_in_known_ways,
    "C32": nodes_are_held,
    "C33": regions_are_respected,
    "C34": power_is_kept,
    "C35": moves_are_counted,
    "C36": moves_are_limited,
    "C37": survivors_run_at_operating_points,
    "C38": a_node_takes_what_stands_in_it,
    "C39": survivors_are_offered_the_rest,
    "C40": losing_f_keeps_the_floor,
    "C41": a_full_node_takes_its_devices,
    "C14": terms_stay_within_their_stock,
    "C15": spot_is_bounded,
    "C16": starts_are_counted,
    "C17": unit_starts_are_counted,
    "C18": units_start_before_they_serve,
    "C19": what_is_hired_stays_its_time,
    "C20": fleets_change_within_their_ramp,
    "C21": what_is_used_is_held,
    "C28": fleets_have_room,
    "C29": one_way_to_have_room_is_chosen,
    "C50": units_stand_on_ways,
    "C51": sides_stand_where_there_is_room,
    "C52": what_is_sent_is_carried,
    "C53": a_flow_needs_units,
    "C54": links_carry_their_kv,
}


def rows(data: Instance, v: Variables) -> Iterator[tuple[str, tuple[str, ...], pulp.LpConstraint]]:
    """Yield number, index and row of every family, in the order of the page.

    A period or domain that stands alone is in no index.

    A family about an option of the scenario (C5 to C12) yields a row per limit that is given,
    so it is there or it is not.
    """
    for number, family in CONSTRAINTS.items():
        for index, row in family(data, v):
            yield number, named(index), row


@dataclass(frozen=True, slots=True)
class Model:
    """A written program, ready for any objective of the page."""

    data: Instance
    problem: pulp.LpProblem
    v: Variables
    program: Program
    start: Floats | None = None
    """A first incumbent for every solve that is given none, shape ``(c,)``."""

    def aiming_at(self, term: pulp.LpAffineExpression, *, maximise: bool) -> Program:
        """Return the program with a term of :data:`TERMS` as its objective."""
        return self.program.aiming_at(self.coefficients(term), maximise=maximise)

    def goodput_program(self) -> Program:
        """Return the program that maximises compliant goodput."""
        return self.aiming_at(compliant_goodput(self.data, self.v), maximise=True)

    def cost_program(self) -> Program:
        """Return the program that minimises the hourly cost."""
        return self.aiming_at(hourly_cost(self.data, self.v), maximise=False)

    def ratio_program(self, theta: float) -> Program:
        """Return the program that maximises goodput beyond ``theta`` per dollar."""
        return self.aiming_at(goodput_less_cost(self.data, self.v, theta), maximise=True)

    def coefficients(self, term: pulp.LpAffineExpression) -> Floats:
        """Return the coefficients of a term by column, shape ``(c,)``."""
        return objective_of(term, self.problem.variables())


def model_of(data: Instance) -> Model:
    """Write the program of an instance, and copy it into arrays."""
    problem, v = formulate(data)
    return Model(data, problem, v, read(problem))


def formulate(data: Instance) -> tuple[pulp.LpProblem, Variables]:
    """Write the whole program, row by row, and leave the objective open.

    Returns:
        The program, and its variables by symbol. ``problem.setObjective`` takes a term of
        :data:`TERMS`; ``problem.sense`` is to minimise until set.
    """
    problem = pulp.LpProblem("fleet", pulp.LpMinimize)
    v = declare(problem, data)
    for number, index, row in rows(data, v):
        problem += row, name_of(CONSTRAINTS[number].__name__, index)
    return problem, v
