"""Where the time of finished requests went, part by part and without remainder."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from planner.kernels.engine import FleetStages

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.kernels import Records


class Parts(NamedTuple):
    """The time of requests by part, in any one unit; arrays of shape ``(n,)``.

    Before the first token: queue, kv_block_wait, prefill, prefill_interference, kv_transfer,
    handoff and preemption_before; after it: decode_solo, decode_batch, decode_interference and
    preemption_after. A negative part (sharing a step can be a gain) counts as it is.
    """

    queue: NDArray[np.int64]
    kv_block_wait: NDArray[np.int64]
    prefill: NDArray[np.int64]
    prefill_interference: NDArray[np.int64]
    preemption_before: NDArray[np.int64]
    decode_solo: NDArray[np.int64]
    decode_batch: NDArray[np.int64]
    decode_interference: NDArray[np.int64]
    preemption_after: NDArray[np.int64]
    kv_transfer: NDArray[np.int64]
    """Its KV on the link and waiting for it; 0 where one replica does both."""
    handoff: NDArray[np.int64]
    """From one side to the other, and the step that brings the first token there; likewise."""


class GapParts(NamedTuple):
    """The longest times between two tokens of requests, in any one unit; shape ``(n,)`` each."""

    decode: NDArray[np.int64]
    """Of a decode step."""
    unstalled: NDArray[np.int64]
    """Of a decode step, without what chunks of others added to it."""
    stall: NDArray[np.int64]
    """What chunks of others added to a decode step at most."""
    solo: NDArray[np.int64]
    """Of a decode step as if alone."""
    preempted: NDArray[np.int64]
    """From losing its blocks to the next token."""

    @property
    def longest(self) -> NDArray[np.int64]:
        """The longest of all; 0 for one-token outputs."""
        return np.maximum(self.decode, self.preempted)


def parts_of(records: Records, chosen: NDArray[np.int64], path_ps: int = 0) -> Parts:
    """Return the parts of chosen requests, in ps; those before and after the first token add up.

    Args:
        records: With stages.
        chosen: Indices of finished requests, shape ``(n,)``.
        path_ps: The way to the engine and back, which counts as queueing.
    """
    stages = records.stages
    assert stages is not None  # the caller asked the kernel for them
    early = records.preempted_early_ps()[chosen]
    return Parts(
        queue=stages.queue_ps[chosen] + path_ps,
        kv_block_wait=stages.kv_block_wait_ps[chosen],
        prefill=stages.prefill_own_ps[chosen],
        prefill_interference=stages.prefill_stretch_ps[chosen],
        preemption_before=early,
        decode_solo=stages.decode_solo_ps[chosen],
        decode_batch=stages.decode_batch_ps[chosen],
        decode_interference=records.decode_stall_ps[chosen],
        preemption_after=records.preempted_ps[chosen] - early,
        kv_transfer=np.zeros_like(early),
        handoff=np.zeros_like(early),
    )


def parts_of_replicas(
    stages: FleetStages, ttft_ps: NDArray[np.int64], chosen: NDArray[np.int64], path_ps: int = 0
) -> Parts:
    """Return the parts of chosen requests as the engine that knows blocks accounts for them.

    What of the time to the first token is neither waiting nor prefill went to preemption.

    Args:
        stages: Of colocated replicas, ps.
        ttft_ps: From the engine to the first token of each chosen request; shape ``(m,)``.
        chosen: Indices of finished requests, shape ``(m,)``.
        path_ps: The way to the engine and back, which counts as queueing.
    """
    of = FleetStages(*(column[chosen] for column in stages))
    early = ttft_ps - of.queue - of.kv_block_wait - of.prefill - of.prefill_sharing
    return Parts(
        queue=of.queue + path_ps,
        kv_block_wait=of.kv_block_wait,
        prefill=of.prefill,
        prefill_interference=of.prefill_sharing,
        preemption_before=early,
        decode_solo=of.decode_solo,
        decode_batch=of.decode_batch,
        decode_interference=of.decode_interference,
        preemption_after=of.preemption - early,
        kv_transfer=np.zeros_like(early),
        handoff=np.zeros_like(early),
    )
