"""Why the requests of a plan's pools miss their deadlines, when they do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from planner.attribution.interference import harm
from planner.attribution.root_cause import root_cause
from planner.attribution.waste import waste_of
from planner.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from planner.attribution.traced import TracedRun


class BudgetRow(Spec):
    """Misses of one workload in one pool from one cause."""

    workload: str
    cause: str
    share: float
    """Of the workload's requests in the pool."""


class HarmRow(Spec):
    """What one workload adds to the time of another."""

    kind: Literal["decode_interference", "decode_batch", "prefill_interference"]
    slowed: str
    by: str
    seconds_per_request: float
    """Of the slowed workload."""


class Lost(Spec):
    """Time of the pool that served nobody in time."""

    share: float
    """Of all time of its engines."""
    accelerators: float
    usd_per_hour: float


class PoolDiagnosis(Spec):
    """One pool of a plan, simulated request by request."""

    pool: str
    requests: int
    """Counted, after warm-up."""
    missed: int
    root_cause: str
    """What stands behind most misses."""
    root_share: float
    """Of the misses, those charged to its parts."""
    because: str
    misses: tuple[BudgetRow, ...]
    harm: tuple[HarmRow, ...]
    busy_share: float
    in_vain: Lost
    """In steps for requests that missed a deadline."""
    recomputed: Lost
    """In steps that computed again what was lost to preemption."""


def diagnose_pool(run: TracedRun) -> PoolDiagnosis:
    """Diagnose one traced pool."""
    cause, waste = root_cause(run), waste_of(run)
    return PoolDiagnosis(
        pool=run.name,
        requests=run.counted.size,
        missed=int((~run.met[run.counted]).sum()),
        root_cause=cause.cause,
        root_share=cause.share,
        because=cause.because,
        misses=tuple(_budget(run)),
        harm=tuple(_harm(run)),
        busy_share=waste.busy,
        in_vain=_lost(run, waste.in_vain),
        recomputed=_lost(run, waste.twice),
    )


def _lost(run: TracedRun, share: float) -> Lost:
    return Lost(
        share=share, accelerators=share * run.accelerators, usd_per_hour=share * run.usd_per_hour
    )


def _budget(run: TracedRun) -> Iterator[BudgetRow]:
    charges, of = run.charges(run.counted), run.workload[run.counted]
    for w, name in enumerate(run.workloads):
        mine = of == w
        if not mine.any():
            continue
        shares = {cause: float(share[mine].mean()) for cause, share in charges.items()}
        for cause, share in sorted(shares.items(), key=lambda item: (-item[1], item[0])):
            if share > 0:
                yield BudgetRow(workload=name, cause=cause, share=share)


def _harm(run: TracedRun) -> Iterator[HarmRow]:
    counts = np.bincount(run.workload[run.counted], minlength=len(run.workloads))
    rows = [
        HarmRow.model_validate(
            {
                "kind": kind,
                "slowed": run.workloads[slowed],
                "by": run.workloads[by],
                "seconds_per_request": float(table[slowed, by] / counts[slowed]),
            }
        )
        for kind, table in harm(run).items()
        for slowed, by in zip(*np.nonzero(table), strict=True)
    ]
    yield from sorted(rows, key=lambda r: (r.slowed, -r.seconds_per_request, r.kind, r.by))
