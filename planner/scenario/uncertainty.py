"""What the demand may turn out to be."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from planner.ids import Slug
from planner.spec import Spec, mistake
from planner.units import Share

Preset = Literal["level", "mix", "lengths", "bursts", "client", "failover", "no_cache"]
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


class Robust(Spec):
    """A plan that keeps its promises in most cases in which demand and step times may be."""

    keep_in: Annotated[Share, Field(ge=0.5, le=0.99, allow_inf_nan=False)]
    """Share of the cases in which every promise must be kept, such as 90 %."""
    demand_cv: Annotated[Share, Field(ge=0, le=1, allow_inf_nan=False)]
    """Coefficient of variation of the demand: lognormal, its mean what ``arrivals`` say, all
    workloads alike. 0 if it is known."""
    curve_error: Annotated[Share, Field(ge=0, le=0.5, allow_inf_nan=False)] | None = None
    """Mean absolute relative error of all step times; that which each curve states if left out."""


class Uncertainty(Spec):
    """What is not known for certain: scenarios of the demand, or spreads of demand and curves."""

    scenarios: tuple[DemandScenario, ...] = Field((), max_length=12)
    """What may happen; one of them does."""
    robust: Robust | None = None
    """Spreads of demand and step times, in place of scenarios."""
    stress: tuple[Preset, ...] = Field((), max_length=7)
    """Ways in which the demand may be other than planned for, under which the fleet is shown: more
    of all (``level``) or of one workload at the same rate of all (``mix``), longer prompts or
    outputs (``lengths``), ``bursts``, a workload that doubles or leaves (``client``), another
    fleet's load on top (``failover``), no prefix found (``no_cache``)."""
    keep: Annotated[Share, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    """Share of the weight in which every promise must be kept: 1 for all scenarios, or such as
    90 %, and the plan chooses which to let go."""

    @model_validator(mode="after")
    def _is_said_one_way(self) -> Uncertainty:
        if self.robust is None and not self.scenarios and not self.stress:
            raise mistake("says nothing; add scenarios of the demand, robust, or stress")
        if self.robust is not None:
            for key, given in (("scenarios", bool(self.scenarios)), ("keep", self.keep != 1)):
                if given:
                    what = "does not go with robust, which has keep_in and demand_cv; keep one"
                    raise mistake(what, key)
        for i, preset in enumerate(self.stress):
            if preset in self.stress[:i]:
                raise mistake(f"{preset} is given twice; keep one", "stress", i)
        return self

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Uncertainty:
        ids = [scenario.id for scenario in self.scenarios]
        for i, name in enumerate(ids):
            if name in ids[:i]:
                raise mistake(f"{name!r} is given twice; rename one", "scenarios", i, "id")
        return self
