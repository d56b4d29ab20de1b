"""Who slows whom: what the work of one workload adds to the steps of another."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from planner.attribution.timeline import decode_ticks, law_of
from planner.kernels.stepwise.law import StepWork

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from planner.attribution.traced import TracedRun
    from planner.kernels.engine.records import TracedStep
    from planner.kernels.stepwise import StepLaw

    Harm = tuple[str, int, Mapping[int, float], int]


def harm(run: TracedRun) -> dict[str, NDArray[np.float64]]:
    """Return who slows whom, in seconds of request time over the counted requests.

    Of each decode step, what chunks added is shared among the workloads of the chunks by their
    tokens, and what other decodes added among theirs by their number; of a prefill step, what
    others added, among the others by their tokens. Waiting is nobody's.

    Returns:
        By kind (``decode_interference``, ``decode_batch``, ``prefill_interference``), a table
        ``[who is slowed, by whom]`` of shape ``(workloads, workloads)``.
    """
    k = len(run.workloads)
    kinds = ("decode_interference", "decode_batch", "prefill_interference")
    table = {kind: np.zeros((k, k)) for kind in kinds}
    counts = np.zeros(run.workload.size, bool)
    counts[run.counted] = True
    for kind, victim, by, ticks in _harms(run, counts):
        total = sum(by.values())  # 0: nobody else was there
        for other, weight in by.items():
            table[kind][victim, other] += ticks * run.tick_s * weight / total
    return table


def _harms(run: TracedRun, counts: NDArray[np.bool_]) -> Iterator[Harm]:
    assert run.records.steps is not None
    for engine, steps in enumerate(run.records.steps):
        law = law_of(run.setup, engine)
        for step in steps:
            yield from _of_step(run, counts, step, law)


def _of_step(
    run: TracedRun, counts: NDArray[np.bool_], step: TracedStep, law: StepLaw
) -> Iterator[Harm]:
    """Yield the kind of harm, who suffers it, the weights of who does it, and its ticks."""
    chunks: dict[int, float] = defaultdict(float)
    decodes: dict[int, float] = defaultdict(float)
    for rank, new, _, decode, _ in step.items:
        (decodes if decode else chunks)[int(run.workload[rank])] += new
    ticks, unstalled = step.end - step.start, decode_ticks(step, law)
    batch = min(unstalled, ticks)
    for rank, new, before, decode, _ in step.items:
        if not counts[rank]:
            continue
        mine, alone = int(run.workload[rank]), StepWork()
        others = _without(decodes if decode else chunks, mine, new)
        if decode:
            alone.add_decode(before)
            yield "decode_interference", mine, chunks, ticks - batch
            yield "decode_batch", mine, others, batch - min(law.ticks(alone), batch)
        else:
            alone.add_chunk(new, before)
            for other, tokens in decodes.items():
                others[other] = others.get(other, 0.0) + tokens
            yield "prefill_interference", mine, others, ticks - min(law.ticks(alone), ticks)


def _without(by: Mapping[int, float], mine: int, own: int) -> dict[int, float]:
    left = dict(by)
    left[mine] -= own
    return {other: weight for other, weight in left.items() if weight > 0}
