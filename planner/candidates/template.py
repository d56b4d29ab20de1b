"""How a replica is built, and a template: a build together with the workloads it serves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from planner.candidates.groups import Group
    from planner.curves.curve import Curve
    from planner.curves.memory import Layout
    from planner.kernels import Law, Limits
    from planner.simulation.cached_pool import PrefixCache


PRIORITY: Final = ".priority"
"""Ends the name of a build with priority scheduling."""


def hardware_name(
    accelerator: str, layout: Layout, precision: str, parts: tuple[str, ...] = ()
) -> str:
    """Return a name such as ``h100-sxm.tp2.fp8``, or ``b200-sxm.tp1.dp8.ep8.nvfp4.kvfp8``."""
    degrees = (("pp", layout.pp_degree), ("dp", layout.dp_degree), ("ep", layout.ep_degree))
    others = "".join(f".{name}{degree}" for name, degree in degrees if degree > 1)
    return ".".join((f"{accelerator}.tp{layout.tp_degree}{others}.{precision}", *parts))


@dataclass(frozen=True, slots=True)
class Build:
    """One way to build and run a replica of a model."""

    model: str
    precision: str
    engine: str
    accelerator: str
    tp_degree: int
    max_num_batched_tokens: int
    max_num_seqs: int
    curve: Curve
    law: Law
    limits: Limits
    """With attention data parallel, as the two numbers above: of each rank."""
    kv_tokens: int
    """Of one rank: what a single request can hold."""
    usd_per_hour: float
    """Price of one replica: all its accelerators."""
    priority: tuple[int, ...] | None = None
    """Of each workload of the problem, lower first, where priority decides whom the engine
    admits and whom it preempts; None: who came first, and who came last."""
    cache: PrefixCache | None = None
    """How it keeps prefixes; None: it does not, or no workload of its model could find any."""
    group: Group | None = None
    """Both sides and the link, where a unit is a group of prefill and decode replicas; the fields
    above are then those of a decode replica, but for the price."""

    @property
    def devices(self) -> dict[str, int]:
        """Accelerators of a unit, by type."""
        return (
            {self.accelerator: self.devices_per_replica}
            if self.group is None
            else self.group.devices
        )

    @property
    def devices_per_replica(self) -> int:
        """Accelerators of one replica, all stages and ranks; of a group, of one decode replica."""
        return self.curve.layout.devices

    @property
    def step_wise(self) -> bool:
        """Whether replicas are lock-step ranks or pipelines, which are simulated step by step."""
        return self.curve.layout.dp_degree * self.curve.layout.pp_degree > 1

    @property
    def accelerators(self) -> int:
        """Accelerators of a unit, of all types."""
        return sum(self.devices.values())

    @property
    def id(self) -> str:
        """Name of the build, such as ``h100-sxm.tp2.fp8.b8192.s256``; may end in ``.priority``."""
        if self.group is not None:
            return self.group.id
        return f"{self.hardware}.b{self.max_num_batched_tokens}.s{self.max_num_seqs}" + (
            PRIORITY if self.priority is not None else ""
        )

    @property
    def scheduling_policy(self) -> str:
        """The engine's word for the order of admission."""
        return "fcfs" if self.priority is None else "priority"

    @property
    def variant(self) -> str:
        """In which number formats it is, and what else its name says, such as ``fp8.kvfp8``."""
        if self.group is not None:
            return f"{self.group.prefill.variant}-{self.group.decode.variant}"
        return ".".join((self.precision, *self.curve.parts))

    @property
    def hardware(self) -> str:
        """Name without the policy, such as ``h100-sxm.tp2.fp8``."""
        if self.group is not None:
            return self.group.hardware
        return hardware_name(self.accelerator, self.curve.layout, self.precision, self.curve.parts)


@dataclass(frozen=True, slots=True)
class Template:
    """A build that serves certain workloads, in the proportions of a mix."""

    build: Build
    serves: tuple[int, ...]
    """Indices of the workloads, ascending."""
    mix_rps: tuple[float, ...]
    """Load direction: one entry per workload of the problem, 0 where not served."""
    label: str
    """Ids of the workloads served, joined by ``:``."""

    @property
    def id(self) -> str:
        """Unique name: the build, ``@``, and whom it serves."""
        return f"{self.build.id}@{self.label}"


@dataclass(frozen=True, slots=True)
class Removed:
    """A build or template that was left out, and why; numbers carry units in their names."""

    name: str
    reason: str
    numbers: dict[str, float]
