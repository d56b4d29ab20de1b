"""What stands behind the misses of a simulated run, in words of what one could change.

Charges say in which part of their time requests were late. Where that part is waiting, what was
ahead of them, and whether there was too much work all the time or only at times, tells more.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from planner.kernels.stepwise import Colocated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from planner.attribution.traced import TracedRun
    from planner.kernels.engine.records import TracedStep

Cause = Literal[
    "head_of_line_blocking",
    "big_chunks",
    "preemption_storm",
    "slow_link",
    "too_few_prefill_replicas",
    "too_few_replicas",
    "too_few_decode_replicas",
    "burst",
    "admission_too_open",
    "shared_prefill",
    "too_slow_alone",
    "refused",
    "nothing_missed",
]
LONG: Final = 4.0
"""Multiple of the median prompt from which one is long enough to block others."""
MOSTLY: Final = 0.5
FULL: Final = 0.85
"""Share of the time between first and last arrival in steps, above which there is too much work
all the time, not only at times."""

WAITING: Final = ("queue", "kv_block_wait")
_BY_PART: Final[dict[str, Cause]] = {
    "decode_interference": "big_chunks",
    "decode_batch": "admission_too_open",
    "preemption": "preemption_storm",
    "kv_transfer": "slow_link",
    "kv_transfer_wait": "slow_link",
    "handoff": "slow_link",
    "prefill_interference": "shared_prefill",
    "prefill": "too_slow_alone",
    "decode_solo": "too_slow_alone",
    "failed": "refused",
}


@dataclass(frozen=True, slots=True)
class RootCause:
    """The cause behind most misses of a run.

    Attributes:
        cause: Its name.
        share: Of the misses, those charged to its parts.
        because: What speaks for it.
    """

    cause: Cause
    share: float
    because: str


def root_cause(run: TracedRun) -> RootCause:
    """Name what stands behind most misses of the counted requests."""
    charges = run.charges(run.counted)
    missed = int((~run.met[run.counted]).sum())
    if not missed:
        return RootCause("nothing_missed", 0.0, "every counted request met its deadlines")
    waiting = sum(float(charges[part].sum()) for part in WAITING) / missed
    groups: dict[Cause, float] = {}
    for part, charged in charges.items():
        if part not in WAITING:
            name = _BY_PART[part]
            groups[name] = groups.get(name, 0.0) + float(charged.sum()) / missed
    cause, share = max(groups.items(), key=lambda item: (item[1], item[0]))
    if waiting >= share:
        return _of_waiting(run, charges, waiting)
    parts = [part for part, of in _BY_PART.items() if of == cause and part in charges]
    return RootCause(cause, share, f"{share:.0%} of misses lie in {', '.join(sorted(parts))}")


def _of_waiting(
    run: TracedRun, charges: Mapping[str, NDArray[np.float64]], share: float
) -> RootCause:
    blocked = _behind_long_prompts(run, charges["queue"] + charges["kv_block_wait"])
    if blocked > MOSTLY:
        because = f"{blocked:.0%} of their waiting passed while prompts {LONG:g} times as long as"
        return RootCause("head_of_line_blocking", share, f"{because} the median were computed")
    busy = _busy(run)
    engine, most = max(enumerate(busy), key=lambda item: item[1])
    if most < FULL:
        because = f"requests wait, though no engine is busy more than {most:.0%} of the time"
        return RootCause("burst", share, because)
    because = f"requests wait, and engines are busy up to {most:.0%} of the time"
    if isinstance(run.setup, Colocated):
        return RootCause("too_few_replicas", share, because)
    prefill = engine < run.setup.prefill_engines
    return RootCause(
        "too_few_prefill_replicas" if prefill else "too_few_decode_replicas", share, because
    )


def _busy(run: TracedRun) -> list[float]:
    """Return the share of the time between first and last arrival that each engine is in steps."""
    assert run.records.steps is not None
    first, last = int(run.traffic.arrival[0]), int(run.traffic.arrival[-1])
    span = max(last - first, 1)
    return [
        sum(max(0, min(step.end, last) - max(step.start, first)) for step in steps) / span
        for steps in run.records.steps
    ]


def _behind_long_prompts(run: TracedRun, weight: NDArray[np.float64]) -> float:
    """Return which share of the waiting that is charged passed while long prompts were computed."""
    assert run.records.steps is not None
    prompt = run.traffic.prompt
    long = prompt >= LONG * float(np.median(prompt))
    clocks = [_clock(steps, long) for steps in run.records.steps]
    waited = blocked = 0.0
    for at in np.flatnonzero(weight > 0):
        rank = int(run.counted[at])
        since, until = int(run.traffic.arrival[rank]), int(run.records.first_scheduled[rank])
        if until <= since or long[rank]:
            waited += weight[at] * max(until - since, 0)
            continue
        ends, total = clocks[int(run.records.replica[rank])]
        blocked += weight[at] * (_read(ends, total, until) - _read(ends, total, since))
        waited += weight[at] * (until - since)
    return blocked / waited if waited > 0 else 0.0


def _clock(steps: tuple[TracedStep, ...], long: NDArray[Any]) -> tuple[list[int], list[float]]:
    """Return the ends of steps, and how long by then long prompts have been computed."""
    ends, total, sofar = [], [], 0.0
    for step in steps:
        tokens = sum(item[1] for item in step.items)
        theirs = sum(item[1] for item in step.items if not item[3] and long[item[0]])
        sofar += (step.end - step.start) * theirs / max(tokens, 1)
        ends.append(step.end)
        total.append(sofar)
    return ends, total


def _read(ends: list[int], total: list[float], tick: int) -> float:
    at = bisect_right(ends, tick)
    return total[at - 1] if at else 0.0
