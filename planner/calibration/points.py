"""One measured operating point of a deployment, in the planner's words and units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from planner.catalogue import Accelerator, Llm
    from planner.curves.roofline import Degrees

Mode = Literal["colocated", "disaggregated"]
Lengths = Literal["uniform", "fixed"]


@dataclass(frozen=True, slots=True)
class Stage:
    """Equal replicas of one role."""

    degrees: Degrees
    replicas: int


@dataclass(frozen=True, slots=True)
class System:
    """What served: everything but the load."""

    llm: Llm
    precision: str
    accelerator: Accelerator
    engine: str
    engine_version: str
    mode: Mode
    main: Stage
    """The colocated replicas, or those that decode."""
    prefill: Stage | None = None
    multi_node_runtime: bool = False
    """Behind a distributed runtime's own router and front end, not the engine's."""

    @property
    def accelerators(self) -> int:
        """Devices of the whole deployment."""
        ahead = self.prefill.replicas * self.prefill.degrees.accelerators if self.prefill else 0
        return self.main.replicas * self.main.degrees.accelerators + ahead

    @property
    def group(self) -> str:
        """The system without its engine's version: what one would call one configuration."""
        parts = [self.llm.id, self.precision, self.accelerator.id, self.engine, self.mode]
        for stage in (self.prefill, self.main):
            if stage is not None:
                d = stage.degrees
                parts.append(f"{stage.replicas}x{d.accelerators}.dp{d.dp_degree}.ep{d.ep_degree}")
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Load:
    """A benchmark client: how many users, what they send."""

    users: int
    """Requests in flight, over the whole deployment."""
    prompt_tokens: int
    """Nominal; ``uniform`` lengths lie in [0.8, 1.0] of it."""
    output_tokens: int
    lengths: Lengths
    rounds: int = 10
    """Requests per user."""

    @property
    def mean_output_tokens(self) -> float:
        """Output tokens of a request on average."""
        return (0.9 if self.lengths == "uniform" else 1.0) * self.output_tokens


@dataclass(frozen=True, slots=True)
class Point:
    """One row: a system under a load, and what was measured (None where it was not)."""

    row: int
    """Index in the file, from 0."""
    id: str
    system: System
    load: Load
    ttft_s: float | None
    """Mean over requests."""
    tpot_s: float | None
    curve: str
    """Points of one curve differ in the number of users only; empty: of none."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Unusable:
    """A row that no point could be made of, and why."""

    row: int
    id: str
    reason: str
