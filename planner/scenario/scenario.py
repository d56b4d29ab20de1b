"""The whole question: traffic, promises, supply, limits and the objective."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from planner.errors import nearest
from planner.scenario.aim import Goal, Objective, Solver, version_as_text
from planner.scenario.hard_limits import FleetLimits, MoveCost
from planner.scenario.nodes import NodeOffer
from planner.scenario.places import check_supply
from planner.scenario.policies import Policies
from planner.scenario.supply import AcceleratorOffer
from planner.scenario.topology import Topology
from planner.scenario.traffic import Traffic
from planner.scenario.uncertainty import Uncertainty
from planner.scenario.workload import Workload
from planner.spec import Spec, mistake


class Scenario(Spec):
    """The question that a plan answers."""

    format_version: Annotated[Literal["1.0"], BeforeValidator(version_as_text)]
    """Version of this file format: ``1.0``."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    """Title of tables and reports."""

    workloads: tuple[Workload, ...] = Field(min_length=1)
    """Every kind of traffic that the fleet serves."""

    traffic: Traffic | None = None
    """Load over time; without it every workload has the same load always."""

    uncertainty: Uncertainty | None = None
    """What the demand may turn out to be; without it, it is what the workloads say."""

    accelerators: tuple[AcceleratorOffer, ...] = ()
    """What may be rented or is owned, by the accelerator; or give ``nodes``."""

    nodes: tuple[NodeOffer, ...] = Field(default=(), max_length=1000)
    """What may be bought in whole nodes, and where they stand; in place of ``accelerators``."""

    topology: Topology | None = None
    """Where nodes stand and what links them; without it any number of accelerators is near."""

    curves: tuple[Annotated[str, Field(min_length=1)], ...] = Field(default=(), max_length=32)
    """Files of `planner calibrate`: step times measured on your own machines. For the same
    configuration they take the place of the catalogue's."""

    policies: Policies = Policies()
    """What may be searched."""

    limits: FleetLimits = FleetLimits()
    """What must not be exceeded."""

    objective: Objective = "max_goodput_per_usd"
    """What the plan is best at, with every promise kept."""

    then: tuple[Goal, ...] = Field(default=("fewest_pools",), max_length=3)
    """Among fleets that are as good within the solver's gap, which: each goal in turn chooses
    among those that the goals before it leave."""

    current_plan: Annotated[str, Field(min_length=1)] | None = None
    """The plan that runs now, a plan.json beside this file: where the search begins, what
    ``fewest_moves`` counts from, and what the new plan says it changes."""

    move_cost: MoveCost | None = None
    """What starting and stopping replicas against ``current_plan`` costs; nothing where left
    out."""

    solver: Solver = Solver()
    """Seed, gap and time."""

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Scenario:
        for kind in ("workloads", "accelerators", "nodes"):
            ids = [item.id for item in getattr(self, kind)]
            for position, name in enumerate(ids):
                if name in ids[:position]:
                    raise mistake(f"{name!r} is given twice; rename one", kind, position, "id")
        return self

    @model_validator(mode="after")
    def _one_kind_of_supply(self) -> Scenario:
        check_supply(self)
        return self

    @model_validator(mode="after")
    def _work_that_waits_has_something_to_wait_for(self) -> Scenario:
        for i, workload in enumerate(self.workloads):
            if workload.completion_window is None:
                continue
            at = ("workloads", i, "completion_window")
            if self.traffic is None:
                raise mistake("needs traffic: with one load always there is no better time", *at)
            if workload.arrivals.closed_loop or workload.arrivals.sessions:
                raise mistake("users and sessions do not wait; leave it out", *at)
            if all(other.completion_window is not None for other in self.workloads):
                raise mistake(
                    "some workload must not wait, whose units are free at times; leave it out", *at
                )
        return self

    @model_validator(mode="after")
    def _scenarios_name_workloads(self) -> Scenario:
        known = [w.id for w in self.workloads if w.completion_window is None]
        for i, scenario in enumerate(self.uncertainty.scenarios if self.uncertainty else ()):
            for name in scenario.multiples:
                if name not in known:
                    at = ("uncertainty", "scenarios", i, "multiples", name)
                    what = f"no workload {name!r} that is planned for; {nearest(name, known)}"
                    raise mistake(what, *at)
        return self

    @model_validator(mode="after")
    def _goals_are_told_apart(self) -> Scenario:
        for position, goal in enumerate(self.then):
            if goal in self.then[:position]:
                raise mistake(f"{goal} is given twice; keep one", "then", position)
        if "fewest_moves" in self.then and self.current_plan is None:
            at = ("then", self.then.index("fewest_moves"))
            raise mistake("moves are counted from a plan; add current_plan", *at)
        counted = {("limits", "moves"): self.limits.moves, ("move_cost",): self.move_cost}
        for path, given in counted.items():
            if given is not None and self.current_plan is None:
                raise mistake("moves are counted from a plan; add current_plan", *path)
        return self

    @model_validator(mode="after")
    def _goodput_is_bounded(self) -> Scenario:
        stocks = [a.stock for a in self.accelerators] + [node.stock for node in self.nodes]
        bounded = self.limits.budget is not None or None not in stocks
        bounded = bounded or self.topology is not None
        if self.objective == "max_goodput" and not bounded:
            what = "whole node" if self.nodes else "accelerator"
            raise mistake(
                f"max_goodput needs a bound; add limits.budget, or a stock for every {what}",
                "objective",
            )
        return self
