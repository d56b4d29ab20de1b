"""Limits on places: what must be survived, and what power there is."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from planner.ids import Slug
from planner.scenario.supply import Limits
from planner.spec import Spec, mistake
from planner.units import Fraction, Seconds, Usd, Watts, within

Level = Literal["nodes", "rack", "zone", "region"]
"""What fails together: single nodes, or all nodes with the same rack, zone or region."""


class Spare(Spec):
    """Failures that the fleet must survive without new nodes; its traffic is routed anew."""

    lose: Level
    """What fails: any nodes, or all that stands in a rack, zone or region."""

    count: Annotated[int, Field(ge=1, le=4)] = 1
    """How many of them at once."""

    attainment: Fraction | None = None
    """Share of the offered requests that must still meet their deadlines; what each workload's
    own promise says, where left out."""

    shed: Fraction = 0.0
    """Share of the offered requests that may be turned away meanwhile; they miss."""

    @model_validator(mode="after")
    def _what_is_turned_away_misses(self) -> Spare:
        if self.attainment is not None and self.attainment + self.shed > 1:
            most = 1 - self.attainment
            raise mistake(
                f"an attainment of {self.attainment:g} leaves at most {most:.4g} to turn away",
                "shed",
            )
        return self


class PowerLimit(Spec):
    """What the nodes of a place may draw together."""

    id: Slug | None = None
    """The nodes, rack, zone or region; everything, where left out."""
    limit: Watts
    """Such as ``120 kW``."""

    @field_validator("limit")
    @classmethod
    def _some_power(cls, value: float) -> float:
        if value <= 0:
            raise ValueError("must be above 0 W")
        return value


class MoveCost(Spec):
    """What it costs to start or to stop one replica, and over which time that is paid off."""

    price: Usd
    """Of one start or one stop, such as ``40 USD``."""
    over: Annotated[Seconds, within(3600, 315_360_000, "s")]
    """How long the new fleet is to run, such as ``720 h``: the bill has price / over for each."""


class FleetLimits(Limits):
    """What the fleet must not exceed, and what it must survive."""

    moves: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """Most replicas that may be started and stopped against ``current_plan``, together: one that
    changes its accelerator, its degrees or its place is stopped and started."""

    spare: Spare | None = None
    """Failures that the fleet must survive; needs ``nodes``."""

    power: tuple[PowerLimit, ...] = Field(default=(), max_length=1000)
    """What nodes may draw, by place, such as ``[{limit: 120 kW}]``; needs ``nodes``."""
