"""What scheduler settings are worth: the fleet with others, under the same requests."""

from __future__ import annotations

from pydantic import Field

from planner.fleet.figures import Count, Interval, Whole
from planner.spec import Spec


class PoolSettings(Spec):
    """How the replicas of a pool schedule."""

    pool: str
    max_num_batched_tokens: Whole
    max_num_seqs: Whole
    scheduling_policy: str
    router: str


class SettingEffect(Spec):
    """The same accelerators and the same requests under other settings."""

    change: str
    """What differs from the plan, such as ``max_num_seqs 256 → 128``; ``the plan``."""
    pools: tuple[PoolSettings, ...]
    attainment: dict[str, Interval] = Field(default_factory=dict)
    """By workload, of a short simulation; the plan's own is ``workloads[].attainment``."""
    difference: dict[str, Interval] = Field(default_factory=dict)
    """Attainment less that of the plan, both under the same requests, with the interval of the
    paired differences."""
    goodput_rps: float | None = None
    """Compliant requests per second of the whole fleet."""
    usd_per_thousand_compliant: float | None = None
    unstable: bool = False
    """A backlog grows without end; attainment is what the simulated span gave."""
    accelerators: Count | None = None
    """Fewest that keep every promise, by the mean of a few runs; only of the plan's settings and
    of the engine's defaults, null where several times the plan's do not."""
    usd_per_hour: float | None = None
    """Of these."""
    impossible: str = ""
    """Why nothing was simulated."""


class BusyPoint(Spec):
    """The plan's accelerators under some load."""

    label: str
    pools: tuple[PoolSettings, ...]
    offered_rps: float
    completed_rps: float
    """The raw rate: requests that finish, in time or not."""
    goodput_rps: float
    """Those that meet their deadlines."""
    attainment: float
    """Compliant / offered, all workloads together."""
    mfu: float | None
    """Of the raw rate."""
    busy_share: float
    """Share of time in which a replica executes a step; replicas weigh alike."""
    usd_per_thousand_compliant: float | None
    """Null where nothing is compliant."""
    unstable: bool = False


class Settings(Spec):
    """Settings as decisions: what each is worth, and what keeping accelerators busy costs."""

    plan: SettingEffect
    """In runs as short as those of the others."""
    knobs: tuple[SettingEffect, ...]
    """Each setting of each pool halved, doubled, or another of its kind."""
    engine_defaults: SettingEffect | None
    """What the engine does if it is told nothing."""
    engine_defaults_source: str
    busy: tuple[BusyPoint, ...]
    """The plan at its load; the settings of the same accelerators with the highest raw rate and
    with the highest MFU, as full as they can be kept; and loads between."""
    notes: tuple[str, ...] = ()
