"""A simulated run with every step of it: what a trace, a matrix of harm and charges are made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planner.attribution.shapley import Allowed, charge
from planner.attribution.stage_split import split_of
from planner.attribution.timeline import FINISHED, timelines
from planner.kernels.engine.records import NEVER, FleetGaps
from planner.kernels.stepwise import Colocated

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from planner.attribution.shapley import Floats, Split
    from planner.attribution.timeline import Piece
    from planner.kernels.engine import FleetRecords, Traffic
    from planner.kernels.stepwise import Disaggregated

MOST_TOKENS: Final = 1_200_000
"""Output tokens of a traced run: a step keeps what it did for each request, about 140 bytes."""


@dataclass(frozen=True)
class TracedRun:
    """One pool under one draw of requests, with steps and stages.

    Attributes:
        name: Of the pool.
        tick_s: Seconds of a tick.
        traffic: What arrived.
        setup: What served it.
        records: With steps and stages.
        workloads: Names of the workloads.
        workload: Index of each request's workload; shape ``(n,)``.
        models: Model of each workload.
        first_by: Ticks allowed to the first token; ``2**62`` for no deadline. Shape ``(n,)``.
        rest_by: Ticks allowed from the first token to the last.
        whole_by: Ticks allowed to the last token.
        gap_by: Ticks allowed between two tokens.
        counted: Requests after warm-up and before cool-down; indices.
        path: Ticks from the client to the engine and back, part of TTFT.
        accelerators: Of the whole pool, of which these engines may be a part.
        usd_per_hour: The same.
    """

    name: str
    tick_s: float
    traffic: Traffic
    setup: Colocated | Disaggregated
    records: FleetRecords
    workloads: tuple[str, ...]
    workload: NDArray[np.int32]
    models: tuple[str, ...]
    first_by: NDArray[np.int64]
    rest_by: NDArray[np.int64]
    whole_by: NDArray[np.int64]
    gap_by: NDArray[np.int64]
    counted: NDArray[np.int64]
    path: int = 0
    accelerators: int = 0
    usd_per_hour: float = 0.0

    @property
    def engines(self) -> tuple[str, ...]:
        """Names of the engines, prefill first."""
        if isinstance(self.setup, Colocated):
            return tuple(f"replica {i}" for i in range(self.setup.replicas))
        return (
            *(f"prefill {i}" for i in range(self.setup.prefill_engines)),
            *(f"decode {i}" for i in range(self.setup.groups * self.setup.n_decode)),
        )

    @cached_property
    def ttft(self) -> NDArray[np.int64]:
        """TTFT of every request, ticks; meaningless where it did not finish."""
        return self.records.first_token - self.traffic.arrival + self.path

    @cached_property
    def finished(self) -> NDArray[np.bool_]:
        """Which requests got all their tokens."""
        return np.asarray(self.records.fate == FINISHED)

    @cached_property
    def met(self) -> NDArray[np.bool_]:
        """Which requests are compliant: finished, and within all their deadlines."""
        rest = self.records.finish - self.records.first_token
        good = self.finished & (self.ttft <= self.first_by) & (rest <= self.rest_by)
        good &= self.ttft + rest <= self.whole_by
        return np.asarray(good & (self.records.max_token_gap <= self.gap_by))

    def split(self, chosen: NDArray[Any]) -> Split:
        """Return the parts of chosen, finished requests."""
        return split_of(self.records, self.traffic.arrival, chosen, self.path)

    def charges(self, chosen: NDArray[np.int64]) -> dict[str, Floats]:
        """Charge the misses of chosen requests; those that did not finish count as ``failed``."""
        done = self.finished[chosen]
        rows = chosen[done]
        allowed = Allowed(
            self.first_by[rows],
            self.rest_by[rows],
            self.whole_by[rows],
            self.gap_by[rows],
            SimulatedGaps.of(self.records, rows),
        )
        found = {}
        for name, share in charge(self.split(rows), allowed).items():
            column = np.zeros(chosen.size)
            column[done] = share
            found[name] = column
        return found | {"failed": (~done).astype(np.float64)}

    def timelines(self, chosen: Sequence[int]) -> dict[int, tuple[Piece, ...]]:
        """Return the pieces of chosen requests that finished; the way to the engine is queueing."""
        found = timelines(self.traffic, self.setup, self.records, chosen)
        if not self.path:
            return found
        return {rank: _sooner(pieces, self.path) for rank, pieces in found.items()}

    def pick(self, most: int, *, only_missed: bool) -> list[int]:
        """Return the first counted requests, or the first of those that missed a deadline."""
        chosen = self.counted[~self.met[self.counted]] if only_missed else self.counted
        return [int(rank) for rank in chosen[:most]]


@dataclass(frozen=True, slots=True)
class SimulatedGaps:
    """The longest times between tokens, as the engine accounts for them; ticks."""

    longest: NDArray[np.int64]
    parts: FleetGaps

    @classmethod
    def of(cls, records: FleetRecords, chosen: NDArray[Any]) -> SimulatedGaps:
        """Return those of chosen requests; records with stages have them."""
        assert records.gaps is not None
        return cls(
            records.max_token_gap[chosen], FleetGaps(*(part[chosen] for part in records.gaps))
        )

    def rows(self, chosen: NDArray[Any]) -> SimulatedGaps:
        """Return those of chosen requests."""
        return SimulatedGaps(
            self.longest[chosen], FleetGaps(*(part[chosen] for part in self.parts))
        )

    def without(self, removed: Collection[str]) -> NDArray[np.int64]:
        """Return the longest gap without what these parts added."""
        parts = self.parts
        batch, stall = "decode_batch" in removed, "decode_interference" in removed
        if batch and stall:
            step = parts.solo
        elif stall:
            step = parts.unstalled
        elif batch:
            step = np.minimum(parts.solo + parts.stall, parts.decode)
        else:  # on the way from prefill to decode a token may be late too
            lost = np.where(parts.preempted >= self.longest, 0, self.longest)
            step = np.maximum(parts.decode, lost)
        if "preemption" not in removed:
            step = np.maximum(step, parts.preempted)
        # A pull's dropped token counts in the parts, and never reaches the client.
        return np.minimum(step, self.longest)


def _sooner(pieces: tuple[Piece, ...], path: int) -> tuple[Piece, ...]:
    first = pieces[0]
    if first.stage == "queue":
        return (first._replace(start=first.start - path), *pieces[1:])
    return (first._replace(stage="queue", start=first.start - path, end=first.start), *pieces)


def no_deadline(n: int) -> NDArray[np.int64]:
    """Return deadlines that do not exist, for ``n`` requests."""
    return np.full(n, NEVER, np.int64)
