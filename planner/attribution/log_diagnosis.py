"""What an engine's own log says about why requests waited; of single requests it knows nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from planner.spec import Spec

if TYPE_CHECKING:
    from planner.measurements.engine_log import EngineLog

FULL: Final = 0.95
"""KV use from which those who wait are taken to wait for blocks: the head may need several."""
MISSING: Final = (
    "times of single requests: whether deadlines were met, and joint compliance",
    "queue, prefill and decode times by request (spans: --otlp-traces-endpoint)",
    "what a step computed: prefill chunks beside decodes",
)


class LogDiagnosis(Spec):
    """One engine, from the samples it logs."""

    engine: str
    samples: int
    mean_running: float
    most_running: int
    mean_waiting: float
    most_waiting: int
    mean_kv_use: float
    waiting_share: float
    """Of the samples, those in which someone waits."""
    waiting_full_share: float
    """The same with the KV cache full: they wait for blocks."""
    waiting_seats_share: float
    """The same with as many running as ever were, and room in the KV cache: for seats."""
    prefix_hit_rate: float | None
    preemptions: int | None
    """Told in the log; null where the source tells none."""
    kv_recorded: bool
    """False where KV use is 0 throughout, though requests ran."""
    suspect: Literal["kv_block_wait", "queue", "nothing waits", "not told"]
    missing: tuple[str, ...]


def diagnose_log(log: EngineLog) -> LogDiagnosis:
    """Diagnose the samples of one engine."""
    waits = log.waiting > 0
    recorded = bool(log.kv_use.any()) or not log.running.any()
    full = waits & (log.kv_use >= FULL)
    seats = waits & ~full & (log.running >= log.running.max(initial=0.0))
    hits = log.prefix_hits[np.isfinite(log.prefix_hits)]
    if not waits.any():
        suspect: Literal["kv_block_wait", "queue", "nothing waits", "not told"] = "nothing waits"
    elif not recorded:
        suspect = "not told"
    else:
        suspect = "kv_block_wait" if 2 * full.sum() >= waits.sum() else "queue"
    missing = list(MISSING)
    if not recorded:
        missing.append("KV use: it is 0 throughout, so it was not recorded")
    if not log.preemptions:
        missing.append("preemptions: vLLM counts them in its metrics (vllm:num_preemptions_total)")
    return LogDiagnosis(
        engine=log.name,
        samples=log.running.size,
        mean_running=float(log.running.mean()),
        most_running=int(log.running.max()),
        mean_waiting=float(log.waiting.mean()),
        most_waiting=int(log.waiting.max()),
        mean_kv_use=float(log.kv_use.mean()),
        waiting_share=float(waits.mean()),
        waiting_full_share=float(full.mean()),
        waiting_seats_share=float(seats.mean()),
        prefix_hit_rate=float(hits[-1]) if hits.size else None,
        preemptions=log.preemptions,
        kv_recorded=recorded,
        suspect=suspect,
        missing=tuple(missing),
    )
