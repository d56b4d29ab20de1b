"""What prices say of templates that were not measured: pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.candidates.columns import Column
from planner.candidates.screen import bounds_of
from planner.candidates.template import Removed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from planner.candidates.template import Template
    from planner.milp.objective import Objective
    from planner.milp.pricing import UnitPrices
    from planner.problem.resolve import Problem
    from planner.simulation.fleet import Study


def columns_of(
    study: Study, groups: Mapping[tuple[int, ...], Sequence[Template]], tpot_s: Sequence[float]
) -> tuple[dict[str, Column], list[Removed]]:
    """Return every template with the most that it could carry by the mean field, and those none."""
    columns: dict[str, Column] = {}
    removed: list[Removed] = []
    for _, templates in sorted(groups.items()):
        for template, bound in zip(templates, bounds_of(study, templates, tpot_s), strict=True):
            if bound.load_rps > 0:
                because = f"mean field, limited by {bound.limited_by}"
                columns[template.id] = Column(template, bound, bound.load_rps, because)
            else:
                why = f"{bound.limited_by} allows no load at all"
                removed.append(Removed(template.id, why, {}))
    return columns, removed


def shortfall(objective: Objective, value: float, bound: float) -> float:
    """Return by which share a value falls short of a bound, at least 0."""
    lost = value - bound if objective == "min_cost" else bound - value
    return max(lost, 0.0) / abs(value) if value else 0.0


def rates_at(problem: Problem, template: Template, load_rps: Sequence[float]) -> dict[str, float]:
    """Return rates by the ids of the workloads that a template serves."""
    return {problem.demands[w].id: load_rps[w] for w in template.serves}


def loss_of(problem: Problem, prices: UnitPrices, column: Column) -> float:
    """Return the reduced cost of a template at the most it can carry."""
    load = rates_at(problem, column.template, column.at(column.most_rps))
    return prices.loss(cost_of(prices, column), [(load, load)])


def break_even_rps(problem: Problem, prices: UnitPrices, column: Column) -> float:
    """Return the load of a unit that is worth what the unit costs, if every request is compliant.

    Infinite where no load is.
    """
    load = rates_at(problem, column.template, column.at(column.most_rps))
    worth = sum((prices.load[w] + prices.goodput[w]) * rate for w, rate in load.items())
    if worth <= 0:
        return float("inf")
    return cost_of(prices, column) / worth * column.most_rps


def undominated(columns: Iterable[Column]) -> list[Column]:
    """Leave out templates beside which another takes no more devices and carries no less.

    Among templates that were not measured: of one accelerator, for the same workloads.
    """
    kept: list[Column] = []
    for one in sorted(columns, key=lambda c: (-c.most_rps, c.template.build.accelerators)):
        build = one.template.build
        if not any(
            other.template.serves == one.template.serves
            and other.template.build.accelerator == build.accelerator
            and other.template.build.accelerators <= build.accelerators
            for other in kept
        ):
            kept.append(one)
    return sorted(kept, key=lambda c: c.template.id)


def cost_of(prices: UnitPrices, column: Column) -> float:
    """Return what a unit costs at prices, with its devices at theirs, at least.

    Rows about room on the nodes have prices too; left out, a unit looks cheaper than it is, and
    one template more is simulated.
    """
    build = column.template.build
    return prices.cost(build.usd_per_hour, build.accelerators, build.accelerator)
