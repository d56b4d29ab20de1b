"""What goes into a run of a benchmark client against one engine rank: numbers only."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Scheduler(IntEnum):
    """How an engine shares its steps between prompts and running requests."""

    MIXED = 0
    """Running requests decode in every step; prompts fill the rest of the budget, in chunks."""
    PREFILL_FIRST = 1
    """While a prompt can be computed, nobody decodes."""
    MIXED_WHOLE = 2
    """As MIXED, but a prompt is not cut unless it exceeds the budget by itself."""


class RankLaw(NamedTuple):
    """The step law ``t = L(n) + c_X X + c_K K`` of one rank, in seconds."""

    knots: NDArray[np.float64]
    """Tokens in the step, ascending; shape ``(k,)``."""
    step_s: NDArray[np.float64]
    """L at the knots; shape ``(k,)``."""
    slope_beyond_s: float
    """Seconds per token beyond the last knot."""
    square_s: float
    """c_X, seconds per token²."""
    context_s: float
    """c_K, seconds per token of context."""


class EngineTimes(NamedTuple):
    """How an engine schedules, and what its host adds to the accelerator's time."""

    scheduler: Scheduler
    max_num_batched_tokens: int
    max_num_seqs: int
    kv_tokens: int
    reserved_output: float = 0.0
    """Share of a request's output for which cache must be free at its admission."""
    poll_steps: int = 0
    """Decode steps between two looks at the inbox; 0: in every step."""
    late_steps: int = 0
    """1: a step is planned while the one before runs, so an arrival is seen one step late."""
    host_step_s: float = 0.0
    host_sequence_s: float = 0.0
    """Per running sequence and step: sampling, detokenisation, bookkeeping."""
    host_prefill_s: float = 0.0
    """Per step that computes prompt tokens: building the batch, launching without a graph."""
    front_request_s: float = 0.0
    front_token_s: float = 0.0
    """Serial work of the front end per request, and per prompt token (tokenising, copying)."""
    path_in_s: float = 0.0
    path_out_s: float = 0.0
    """From the client to the front end, and from the engine back to the client."""
    cached_tokens: int = 0
    """Leading tokens that all prompts share and the prefix cache holds: not computed, held once,
    read once a step. At least one token of a prompt is computed."""
    mixed_context: float = 1.0
    """Factor on the context term in steps that also compute prompts: other kernels run there."""
    cached_reread: float = 0.0
    """Share of the cached prefix that each further request of a step reads again."""


class ClientRecords(NamedTuple):
    """One row per request, times in seconds at the engine; and totals."""

    sent_s: NDArray[np.float64]
    first_token_s: NDArray[np.float64]
    finish_s: NDArray[np.float64]
    steps: int
    preemptions: int
