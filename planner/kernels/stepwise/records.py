"""What a simulation tells about each request, and about the whole run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from planner.kernels.stepwise.engine import Step
    from planner.kernels.stepwise.stages import Gaps, Stages

Fate = Literal["unfinished", "finished", "rejected", "failed"]


@dataclass(slots=True)
class Record:
    """What happened to one request; ticks, -1 where it did not happen.

    Attributes:
        arrival: When the router got it.
        fate: ``rejected``: it could never be served, or its deadline could not be met;
            ``failed``: dropped later; ``unfinished``: still in the system at the end.
        first_scheduled: Schedule of its first step anywhere.
        first_token: First output token at the client.
        finish: Last output token at the client.
        max_token_gap: Longest time between two tokens; 0 for one token.
        preemptions: Preemptions on all engines.
        cached_tokens: Prompt tokens found in the first engine's prefix cache.
        replica: Index of the engine that had it (disaggregated: of the prefill engine).
        decode_replica: Index of the decode engine among the decode engines.
        prefill_done: End of its last prefill step on the prefill side.
        decode_arrival: When the decode side queued it.
        kv_start: First byte of its KV on the link.
        kv_end: Its KV is complete on the decode side.
        decode_first_scheduled: Schedule of its first step on the decode side.
        token_times: When each token reached the client.
        stages: Where its time went, if asked for.
        gaps: With them, the longest times between its tokens.
    """

    arrival: int
    fate: Fate = "unfinished"
    first_scheduled: int = -1
    first_token: int = -1
    finish: int = -1
    max_token_gap: int = 0
    preemptions: int = 0
    cached_tokens: int = 0
    replica: int = -1
    decode_replica: int = -1
    prefill_done: int = -1
    decode_arrival: int = -1
    kv_start: int = -1
    kv_end: int = -1
    decode_first_scheduled: int = -1
    token_times: list[int] = field(default_factory=list)
    stages: Stages | None = None
    gaps: Gaps | None = None

    def add_token(self, now: int) -> None:
        """Note that the next token reached the client at ``now``."""
        times = self.token_times
        if not times:
            self.first_token = now
        elif now - times[-1] > self.max_token_gap:
            self.max_token_gap = now - times[-1]
        times.append(now)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one simulation.

    Attributes:
        records: One per job, in the order given.
        steps: The steps of each engine (disaggregated: prefill engines first), if kept.
        n_steps: Steps of each engine.
        makespan: Tick of the last finish; 0 if nothing finished.
    """

    records: tuple[Record, ...]
    steps: tuple[tuple[Step, ...], ...]
    n_steps: tuple[int, ...]
    makespan: int
