"""One class of traffic, and the promise made to it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from planner.ids import Slug
from planner.scenario.adapters import Adapters
from planner.scenario.arrivals import Arrivals
from planner.scenario.lengths import Lengths
from planner.scenario.prefix import Prefix
from planner.scenario.slo import Slo
from planner.spec import Spec
from planner.units import Seconds

KvDtype = Literal["bf16", "fp8"]


class Workload(Spec):
    """Requests of one kind for one model."""

    id: Slug
    """Unique in the scenario; appears in tables, row names and plots."""

    model: str
    """Which model serves it: an id or alias of ``planner catalogue list llms``."""

    precisions: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Weight precisions whose answers are good enough; the model's own where left out."""

    kv_dtypes: tuple[KvDtype, ...] | None = Field(default=None, min_length=1, max_length=2)
    """Formats of the KV cache whose answers are good enough, such as ``[bf16, fp8]``: replicas in
    each are searched side by side. Where left out, the one in which step times were measured."""

    adapters: Adapters | None = None
    """Low-rank adapters (LoRA) that its requests name; none, where left out."""

    arrivals: Arrivals
    """The offered load."""

    lengths: Lengths
    """Prompt and output lengths."""

    prefix: Prefix | None = None
    """What prompts begin with, where a cache could find it; without it every prompt is computed
    whole."""

    origin: Slug | None = None
    """Where its users are: one of ``topology.users``; next to the fleet where left out."""

    slo: Slo
    """Its deadlines, and the share of requests that must meet them all."""

    completion_window: Seconds | None = None
    """Work that may wait: within this time it must be done, by units that other workloads leave
    free; deadlines count from when the planner lets it go. Needs ``traffic``."""

    regions: tuple[Slug, ...] | None = Field(default=None, min_length=1, max_length=100)
    """Regions of ``nodes`` or of the topology in which it may be served; any, where left out."""

    value: Annotated[float, Field(ge=1e-9, le=1e9, allow_inf_nan=False)] = 1.0
    """What a compliant request is worth, relative to those of other workloads: weighs goodput in
    the goodput objectives. Every promise must be kept whatever the values."""

    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    """Lower is served first, as in the engine, where workloads share replicas that schedule by
    priority (``policies.scheduling_policy``)."""

    @field_validator("kv_dtypes")
    @classmethod
    def _each_once(cls, value: tuple[KvDtype, ...] | None) -> tuple[KvDtype, ...] | None:
        if value is not None and len(set(value)) != len(value):
            raise ValueError(f"a value is listed twice in {list(value)}; keep one")
        return value
