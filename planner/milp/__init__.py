"""Which to deploy: a mixed-integer linear program. See docs/formulation.md."""

from __future__ import annotations

from planner.milp.choice import Choice, Step
from planner.milp.choose import choose
from planner.milp.deferral import Deferral
from planner.milp.goals import Goal, Goals
from planner.milp.instance import IDLE, Instance
from planner.milp.moves import Moves
from planner.milp.objective import Objective
from planner.milp.prices import Price, relaxation_prices, resolve_prices
from planner.milp.ranges import price_range
from planner.milp.relax import NoFleetError, Shortfall, shortfalls, single_shortfalls
from planner.milp.rivals import reduced_costs, with_one
from planner.milp.solvers import check_solver
from planner.milp.terms import Term, Terms

__all__ = [
    "IDLE",
    "Choice",
    "Deferral",
    "Goal",
    "Goals",
    "Instance",
    "Moves",
    "NoFleetError",
    "Objective",
    "Price",
    "Shortfall",
    "Step",
    "Term",
    "Terms",
    "check_solver",
    "choose",
    "price_range",
    "reduced_costs",
    "relaxation_prices",
    "resolve_prices",
    "shortfalls",
    "single_shortfalls",
    "with_one",
]
