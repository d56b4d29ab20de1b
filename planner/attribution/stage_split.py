"""The accounts of a fleet simulator as parts that can be charged, colocated or disaggregated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from planner.attribution.shapley import Split

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.kernels.engine import FleetRecords

STAGES = (
    "queue",
    "kv_block_wait",
    "prefill",
    "prefill_interference",
    "kv_transfer",
    "kv_transfer_wait",
    "handoff",
    "decode_solo",
    "decode_batch",
    "decode_interference",
    "preemption",
)
"""Parts of a request's time; ``kv_transfer`` is its own bytes, ``kv_transfer_wait`` the link's
other traffic. Plans count both as ``kv_transfer``."""


def split_of(
    records: FleetRecords,
    arrival: NDArray[np.int64],
    chosen: NDArray[Any],
    path: int = 0,
) -> Split:
    """Return the parts of chosen, finished requests, ticks.

    With a pull, transfer, hand-off and one decode step stand before the first token; with a push
    they stand after it. Stages are sums, so of what the decode side adds before the first token
    the decode step is taken as the mean one, and what chunks add to it as far as TTFT reaches.

    Args:
        records: With stages.
        arrival: Of every request.
        chosen: Which.
        path: The way to the engine and back, which counts as queueing.
    """
    stages = records.stages
    assert stages is not None  # the caller asked for them
    of = {name: column[chosen] for name, column in stages._asdict().items()}
    ttft = records.first_token[chosen] - arrival[chosen]
    before = of["queue"] + of["kv_block_wait"] + of["prefill"] + of["prefill_sharing"]
    if records.kv_end is None:
        early = ttft - before
        return Split(
            company_before={
                "queue": of["queue"] + path,
                "kv_block_wait": of["kv_block_wait"],
                "prefill_interference": of["prefill_sharing"],
                "preemption": early,
            },
            company_after={
                "decode_batch": of["decode_batch"],
                "decode_interference": of["decode_interference"],
                "preemption": of["preemption"] - early,
            },
            own_before={"prefill": of["prefill"]},
            own_after={"decode_solo": of["decode_solo"]},
        )
    return _crossed(of, ttft, records.tokens[chosen].astype(np.int64), path)


def _crossed(
    of: dict[str, NDArray[np.int64]],
    ttft: NDArray[np.int64],
    tokens: NDArray[np.int64],
    path: int,
) -> Split:
    waiting = of["queue"] + of["kv_block_wait"]
    reached = np.minimum(waiting + of["prefill"] + of["prefill_sharing"], ttft)
    late = waiting + of["prefill"] + of["prefill_sharing"] - reached  # queued behind a push
    queued = np.minimum(late, of["queue"])
    blocked = late - queued
    left = ttft - reached
    before: dict[str, NDArray[np.int64]] = {}
    after: dict[str, NDArray[np.int64]] = {}
    for stage, most in (
        ("transfer", of["transfer"]),
        ("transfer_wait", of["transfer_wait"]),
        ("hand_off", of["hand_off"]),
        ("decode_solo", -(-of["decode_solo"] // np.maximum(tokens, 1))),
        ("decode_batch", -(-of["decode_batch"] // np.maximum(tokens, 1))),
        ("decode_interference", of["decode_interference"]),
        ("preemption", of["preemption"]),
        ("decode_solo", of["decode_solo"]),
        ("decode_batch", of["decode_batch"]),
    ):
        had = before.get(stage, np.zeros_like(left))
        here = np.minimum(most - np.minimum(had, most), left)
        before[stage] = had + here
        after[stage] = of[stage] - before[stage]
        left = left - here
    return Split(
        company_before={
            "queue": of["queue"] - queued + path,
            "kv_block_wait": of["kv_block_wait"] - blocked,
            "prefill_interference": of["prefill_sharing"],
            "kv_transfer_wait": before["transfer_wait"],
            "decode_batch": before["decode_batch"],
            "decode_interference": before["decode_interference"],
            "preemption": before["preemption"],
        },
        company_after={
            "queue": queued,
            "kv_block_wait": blocked,
            "kv_transfer_wait": after["transfer_wait"],
            "decode_batch": after["decode_batch"],
            "decode_interference": after["decode_interference"],
            "preemption": after["preemption"],
        },
        own_before={
            "prefill": of["prefill"],
            "kv_transfer": before["transfer"],
            "handoff": before["hand_off"],
            "decode_solo": before["decode_solo"],
        },
        own_after={
            "kv_transfer": after["transfer"],
            "handoff": after["hand_off"],
            "decode_solo": after["decode_solo"],
        },
    )
