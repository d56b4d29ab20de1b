"""What goes into the simulator of a pool and what comes out: numbers only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Law(NamedTuple):
    """The time of one engine step, quantised once to integer picoseconds.

    A step of ``P`` prefill tokens and ``B`` decoding sequences takes
    ``L(P + B) + c_X X + c_K K + c_N N + c_C C``. Integers make every sum exact, so that
    compiled, plain and per-step simulators agree to the bit.
    """

    tokens_ps: NDArray[np.int64]
    """``L(n)`` at n = 0 .. ``max_num_batched_tokens``, ps; any shape, >= 1 from n = 1 on."""
    square_ps_2p15: int = 0
    """``c_X`` in ps per token², times 2**15: ``c_X`` may be a few ps. The step's term is
    ``(square_ps_2p15 * 2X) >> 16`` with ``2X`` = sum of new * (2 * cached_before + new)."""
    context_ps: int = 0
    """``c_K``: ps per token of context of the decoding sequences, computed tokens included."""
    sequence_ps: int = 0
    """``c_N``: ps per request scheduled in the step."""
    chunk_context_ps: int = 0
    """``c_C``: ps per token of (cached_before + new) of the prefill chunks."""


class Limits(NamedTuple):
    """What one replica may hold and compute at once; the engine's own names."""

    max_num_seqs: int
    """Requests running at once; 1 .. ``max_num_batched_tokens``."""
    max_num_batched_tokens: int
    """Tokens computed per step."""
    kv_blocks: int
    """Usable KV blocks: the engine's own null block is already taken off."""
    block_size: int = 16
    """Tokens per KV block; 16 is the fastest, any other is possible."""
    reserve_full_prompt: bool = True
    """Admit only when blocks for all current tokens are free, not just for the first chunk."""
    watermark_blocks: int = 0
    """Blocks that must stay free on admission while anything runs."""


class Stages(NamedTuple):
    """Where each request's time went; with two columns of :class:`Records` it is all of it.

    ``queue + kv_block_wait + prefill_own + prefill_stretch + decode_solo + decode_batch`` plus
    the records' ``decode_stall`` and ``preempted`` is ``finish - arrival``, to the picosecond.
    ``docs/simulation.md`` defines each stage. int64 ps, shape ``(n,)``; -1 where rejected. Where
    ``L`` falls, sharing a step can be a gain, and stretch, batch and stall negative.
    """

    queue_ps: NDArray[np.int64]
    """From arrival to the first step that computed any of its tokens, but for the next."""
    kv_block_wait_ps: NDArray[np.int64]
    """Steps at whose start it headed the queue, with a seat and budget left, and was refused for
    lack of free blocks."""
    prefill_own_ps: NDArray[np.int64]
    """Its chunks before the first token, each as if alone in a step."""
    prefill_stretch_ps: NDArray[np.int64]
    """The rest of the steps that computed these chunks: decodes and chunks of others."""
    decode_solo_ps: NDArray[np.int64]
    """Its decode steps as if each had been alone: ``L(1) + c_N + c_K * context``."""
    decode_batch_ps: NDArray[np.int64]
    """What the other decoding requests added to these steps."""


class Gaps(NamedTuple):
    """The longest time between two tokens of each request, and what it is made of.

    Each is the largest over the request's tokens after the first, by itself; 0 where there is
    none. int64 ps, shape ``(n,)``; -1 where rejected.
    """

    decode_ps: NDArray[np.int64]
    """A decode step."""
    unstalled_ps: NDArray[np.int64]
    """A decode step, less what chunks of others added to it."""
    stall_ps: NDArray[np.int64]
    """What chunks of others added to a decode step, at least 0."""
    solo_ps: NDArray[np.int64]
    """A decode step as if alone: its last one."""
    preempted_ps: NDArray[np.int64]
    """From losing its blocks, a token behind it, to its next token."""

    def longest_ps(self) -> NDArray[np.int64]:
        """Return the longest time between two tokens; 0 for one-token outputs."""
        return np.maximum(self.decode_ps, self.preempted_ps)


class Records(NamedTuple):
    """One row per request, in order of arrival, and totals of the pool.

    Times are ps on the clock of the arrivals, int64; counts int32. A rejected request, whose
    prompt + output - 1 tokens exceed the KV cache of a replica, has -1 in every column.
    """

    first_scheduled_ps: NDArray[np.int64]
    """Start of the first step that computed any of its tokens."""
    first_token_ps: NDArray[np.int64]
    finish_ps: NDArray[np.int64]
    decode_stall_ps: NDArray[np.int64]
    """Time that prefill chunks of others added to its decode steps. Negative only if L falls."""
    preempted_ps: NDArray[np.int64]
    """From losing its blocks to its next token, summed over preemptions."""
    preemptions: NDArray[np.int32]
    replica: NDArray[np.int32]
    """Index of the replica that served it."""
    steps: int
    """Engine steps, over all replicas."""
    events: int
    """Spans of steps that were simulated at once; a measure of work, not a result."""
    busy_ps: int
    """Time in steps, summed over replicas."""
    peak_kv_blocks: int
    """Most blocks that any one replica held in a step."""
    stages: Stages | None = None
    """If asked for."""
    gaps: Gaps | None = None
    """If asked for."""

    def preempted_early_ps(self) -> NDArray[np.int64]:
        """Return the part of ``preempted_ps`` before the first token; 0 where rejected.

        Raises:
            ValueError: The stages were not asked for.
        """
        if self.stages is None:
            raise ValueError("stages: not recorded")
        s = self.stages
        decode = s.decode_solo_ps + s.decode_batch_ps + self.decode_stall_ps
        late = self.finish_ps - self.first_token_ps - decode
        return np.where(self.finish_ps < 0, np.int64(0), self.preempted_ps - late)


class Sources(NamedTuple):
    """Who sends which request; every source has an order and permits of its own."""

    source: NDArray[np.int32]
    """Source of each request, from 0; shape ``(n,)``."""
    permits: NDArray[np.int64]
    """Permits of each source; one with none is open: its requests are sent when they come.
    Shape ``(sources,)``."""


def one_source(requests: int, permits: int) -> Sources:
    """Return the one source of requests that share all permits."""
    return Sources(np.zeros(requests, np.int32), np.array([permits], np.int64))


class ClientRecords(NamedTuple):
    """Records of requests that clients sent when a permit was free."""

    sent_ps: NDArray[np.int64]
    """When the client sent it, rejected or not: the arrival at the router; shape ``(n,)``. -1
    where it was not sent, as another source had come to its end."""
    records: Records
    """Times are on the same clock; the queue stage begins with the sending. -1 where not sent."""


LAST_PS = 2**62
"""Simulated time ends here, after 53 days: sums of two times stay in 64 bits."""
