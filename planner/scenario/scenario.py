"""The whole question: traffic, promises, supply, limits and the objective."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from planner.scenario.policies import Policies
from planner.scenario.supply import AcceleratorOffer, Limits
from planner.scenario.traffic import Traffic
from planner.scenario.workload import Workload
from planner.spec import Spec, mistake
from planner.units import Seconds, Share

Objective = Literal["max_goodput_per_usd", "min_cost", "max_goodput"]


def _version_as_text(value: Any) -> Any:
    return str(value) if isinstance(value, float) else value


class Solver(Spec):
    """How hard to try."""

    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Seed of every random draw; same seed, same plan."""

    gap: Annotated[Share, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.001
    """Relative gap to the best bound at which the program counts as solved."""

    time_limit: Seconds = 300.0
    """When to stop with the best plan so far."""


class Scenario(Spec):
    """The question that a plan answers."""

    format_version: Annotated[Literal["1.0"], BeforeValidator(_version_as_text)]
    """Version of this file format: ``1.0``."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    """Title of tables and reports."""

    workloads: tuple[Workload, ...] = Field(min_length=1)
    """Every kind of traffic that the fleet serves."""

    traffic: Traffic | None = None
    """Load over time; without it every workload has the same load always."""

    accelerators: tuple[AcceleratorOffer, ...] = Field(min_length=1)
    """What may be rented or is owned."""

    policies: Policies = Policies()
    """What may be searched."""

    limits: Limits = Limits()
    """What must not be exceeded."""

    objective: Objective = "max_goodput_per_usd"
    """What the plan is best at, with every promise kept."""

    solver: Solver = Solver()
    """Seed, gap and time."""

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Scenario:
        for kind in ("workloads", "accelerators"):
            ids = [item.id for item in getattr(self, kind)]
            for position, name in enumerate(ids):
                if name in ids[:position]:
                    raise mistake(f"{name!r} is given twice; rename one", kind, position, "id")
        return self

    @model_validator(mode="after")
    def _goodput_is_bounded(self) -> Scenario:
        bounded = self.limits.budget is not None or all(a.stock for a in self.accelerators)
        if self.objective == "max_goodput" and not bounded:
            raise mistake(
                "max_goodput needs a bound; add limits.budget, or a stock for every accelerator",
                "objective",
            )
        return self
