"""How the load changes over time: days, weekends, ends of months, measured series, growth."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from planner.ids import Slug
from planner.spec import Spec, mistake
from planner.units import Share

Level = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Day = Annotated[tuple[Level, ...], Field(min_length=24, max_length=24)]


class MonthEnd(Spec):
    """The last days of each month, as billing and reporting make them."""

    days: Annotated[int, Field(ge=1, le=15)]
    """How many days, weekends among them."""
    factor: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]
    """Their load, as a multiple of other days'."""


class Series(Spec):
    """Measured rates by window of time."""

    file: str
    """CSV with a column of window starts in seconds and one of rates; or the ``.tar.gz`` of a
    ServeGen client set (``FILE.tar.gz#FOLDER`` where it holds several)."""
    start: str = "window_start_s"
    """Column of the starts, from midnight of a Monday."""
    rate: str = "requests_per_s"
    """Column of the rates; only their proportions matter."""
    name: str | None = None
    """Which series, where the file holds several: the value of its ``workload`` column."""


class Profile(Spec):
    """The load of some workloads over time, relative to its mean."""

    workloads: tuple[Slug, ...] | None = Field(default=None, min_length=1)
    """Whose; those that no other profile names, where left out."""
    weekday: Day | None = None
    """Load in each hour of a weekday, from midnight; only proportions matter."""
    weekend: Day | None = None
    """The same for Saturday and Sunday, on the same scale; as on weekdays where left out."""
    month_end: MonthEnd | None = None
    """Extra load at the end of each month."""
    series: Series | None = None
    """Measured rates instead of hours of a day."""

    @model_validator(mode="after")
    def _one_form(self) -> Profile:
        if (self.weekday is None) == (self.series is None):
            what = "both are given" if self.weekday is not None else "neither is given"
            raise mistake(f"give exactly one of weekday, series; {what}")
        for form in ("weekend", "month_end"):
            if self.series is not None and getattr(self, form) is not None:
                raise mistake("belongs to weekday; a series has its own days", form)
        days = [day for day in (self.weekday, self.weekend) if day is not None]
        if days and not any(sum(day) > 0 for day in days):
            raise mistake("every hour is 0; some load must come at some time", "weekday")
        return self


class Growth(Spec):
    """Growth of all rates from quarter to quarter."""

    per_quarter: Annotated[Share, Field(gt=-1, le=10, allow_inf_nan=False)]
    """Such as 10 %."""
    quarters: Annotated[int, Field(ge=1, le=40)]
    """How far ahead the fleet is planned."""


class Traffic(Spec):
    """Load over time. The rate of a workload's ``arrivals`` is its mean over all of it.

    A fleet is planned for the load that ``plan_for`` names; what it attains in every other
    period is listed in the plan. With ``adapt: hourly`` each period has its own share of it.
    """

    profiles: tuple[Profile, ...] = Field(min_length=1)
    """Load over time, by workload; a workload in none of them has the same load always."""

    plan_for: str = "peak"
    """``peak`` (each workload at its busiest), ``mean``, or a quantile over time, such as
    ``p95``."""

    peak_factor: Annotated[float, Field(ge=1, le=100, allow_inf_nan=False)] = 1.0
    """How much higher than its mean the load of a window may be for minutes; multiplies what is
    planned for."""

    adapt: Literal["never", "hourly"] = "never"
    """``hourly``: the fleet has as many replicas in each period as it takes, and accelerators are
    held on the ``terms`` that suit; ``never``: one fleet for all periods."""

    growth: Growth | None = None
    """Growth until the time that is planned for."""

    clusters: Annotated[int, Field(ge=1, le=200)] = 12
    """Periods at most; windows of like load are put together, but never with the peak."""

    @model_validator(mode="after")
    def _known_target(self) -> Traffic:
        if self.plan_for in ("peak", "mean"):
            return self
        quantile = self.plan_for.removeprefix("p")
        digits = quantile.replace(".", "", 1)
        if not self.plan_for.startswith("p") or not (digits.isascii() and digits.isdigit()):
            raise mistake(f"{self.plan_for!r}: expected peak, mean or such as p95", "plan_for")
        if not 0 < float(quantile) < 100:
            raise mistake("a quantile lies between p0 and p100", "plan_for")
        return self

    @model_validator(mode="after")
    def _each_workload_once(self) -> Traffic:
        seen: set[str | None] = set()
        for i, profile in enumerate(self.profiles):
            for name in profile.workloads or (None,):
                if name in seen:
                    who = "the rest of the workloads" if name is None else repr(name)
                    raise mistake(f"{who} has two profiles; keep one", "profiles", i)
                seen.add(name)
        return self
