"""What the demand may turn out to be."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from planner.ids import Slug
from planner.spec import Spec, mistake
from planner.units import Share

Multiple = Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]


class DemandScenario(Spec):
    """One way in which the demand may turn out."""

    id: Slug
    """Unique; appears in the plan."""
    weight: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
    """How likely it is beside the others; weights need not sum to 1."""
    multiple: Multiple = 1.0
    """Rate of every workload, or number of its users, as a multiple of what ``arrivals`` say."""
    multiples: dict[Slug, Multiple] = Field(default_factory=dict)
    """The same by workload, where they differ."""


class Uncertainty(Spec):
    """Demand that is not known for certain."""

    scenarios: tuple[DemandScenario, ...] = Field(min_length=1, max_length=12)
    """What may happen; one of them does."""
    keep: Annotated[Share, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    """Share of the weight in which every promise must be kept: 1 for all scenarios, or such as
    90 %, and the plan chooses which to let go."""

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Uncertainty:
        ids = [scenario.id for scenario in self.scenarios]
        for i, name in enumerate(ids):
            if name in ids[:i]:
                raise mistake(f"{name!r} is given twice; rename one", "scenarios", i, "id")
        return self
