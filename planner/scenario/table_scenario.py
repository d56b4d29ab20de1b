"""The question in another form: measured capacity per request size, in place of step laws."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from planner.ids import Slug
from planner.scenario.aim import Objective, Solver, version_as_text
from planner.scenario.supply import AcceleratorOffer, Limits
from planner.spec import Spec, mistake
from planner.units import Fraction, RequestsPerSecond, RequestsPerSecondOrNone, Share, Tokens


class Bucket(Spec):
    """Requests of about one size."""

    id: Slug
    """Unique in the table."""
    input_tokens: Tokens | None = None
    """Prompt length, for people to read."""
    output_tokens: Tokens | None = None
    """Output length, for people to read."""
    share: Fraction | None = None
    """Share of all requests; needs a ``rate`` of the table."""
    rate: RequestsPerSecondOrNone | None = None
    """Requests of this bucket, instead of a share."""

    @model_validator(mode="after")
    def _one_demand(self) -> Bucket:
        if (self.share is None) == (self.rate is None):
            what = "both are given" if self.share is not None else "neither is given"
            raise mistake(f"give either share or rate; {what}")
        return self


class MeasuredTemplate(Spec):
    """What one unit sustains of each bucket within the deadlines, serving nothing else."""

    id: Slug | None = None
    """Name in the plan; the accelerator's where left out, with ``-xN`` for N devices."""
    accelerator: str
    """An id of ``accelerators``."""
    devices: Annotated[int, Field(ge=1, le=4096)] = 1
    """Accelerators in one unit."""
    capacity: dict[str, RequestsPerSecondOrNone] = Field(min_length=1)
    """Largest rate by bucket; a bucket that is left out cannot be served."""


class CapacityTables(Spec):
    """Measured capacities, and the demand that they are to carry.

    Loads add: a rate r of a bucket takes r / capacity units. A bucket may be split between
    templates in any proportion.
    """

    file: Annotated[str, Field(min_length=1)] | None = None
    """JSON with ``gpu_info``, ``workload_distribution`` and ``total_request_rate``."""
    rate: RequestsPerSecond | None = None
    """All requests; with shares of buckets, or in place of the file's rate."""
    buckets: tuple[Bucket, ...] | None = Field(default=None, min_length=1)
    """The sizes and their demand; with a file, demand of its buckets in place of its own."""
    templates: tuple[MeasuredTemplate, ...] | None = Field(default=None, min_length=1)
    """The capacities, where no file has them."""
    shed_limit: Annotated[Share, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.0
    """Share of each bucket's requests that may be turned away; not all of them."""

    @model_validator(mode="after")
    def _one_form(self) -> CapacityTables:
        if (self.file is None) == (self.templates is None):
            what = "both are given" if self.file is not None else "neither is given"
            raise mistake(f"give exactly one of file, templates; {what}")
        return self


class TableSolver(Solver):
    """How hard to try; nothing is simulated, so that the gap is small where none is given."""

    gap: Annotated[Share, Field(ge=0, lt=1, allow_inf_nan=False)] = 1e-6
    """Relative gap to the best bound at which the program counts as solved."""


class TableScenario(Spec):
    """A question whose capacities were measured; the plan is made without simulation."""

    format_version: Annotated[Literal["1.0"], BeforeValidator(version_as_text)]
    """Version of this file format: ``1.0``."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    """Title of tables and reports."""

    capacity_tables: CapacityTables
    """What was measured, and what is demanded."""

    accelerators: tuple[AcceleratorOffer, ...] | None = Field(default=None, min_length=1)
    """What may be rented or is owned; all of the file's accelerators where left out."""

    limits: Limits = Limits()
    """What must not be exceeded."""

    objective: Objective = "max_goodput_per_usd"
    """What the plan is best at."""

    solver: TableSolver = TableSolver()
    """Seed, gap and time."""

    @model_validator(mode="after")
    def _ids_are_unique(self) -> TableScenario:
        ids = [offer.id for offer in self.accelerators or ()]
        for position, name in enumerate(ids):
            if name in ids[:position]:
                raise mistake(
                    f"{name!r} is given twice; rename one", "accelerators", position, "id"
                )
        return self
