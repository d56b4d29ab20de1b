"""Which requests of a run missed which deadline, and what each miss is charged to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from planner.attribution.measured import UNSPLIT, fastest, gaps_of, measured_split, missing
from planner.attribution.shapley import Allowed, charge
from planner.errors import InputError
from planner.simulation.interval import attainment_interval
from planner.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from planner.attribution.measured import Unloaded
    from planner.attribution.shapley import Split
    from planner.measurements.staged import StagedRun

    Floats = NDArray[np.float64]

LEVELS: Final = (0.5, 0.9, 0.99)
BATCHES: Final = 10
FEWEST: Final = 1_000
"""Requests from which batch means give an interval."""
SHOWN: Final = 5
"""Late requests that are told one by one."""


@dataclass(frozen=True, slots=True)
class Due:
    """Deadlines in seconds; None: no such deadline."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    max_itl_s: float | None = None
    e2e_s: float | None = None

    def items(self) -> dict[str, float]:
        """Return the deadlines that there are, by name."""
        named = {
            "ttft": self.ttft_s,
            "tpot": self.tpot_s,
            "max_itl": self.max_itl_s,
            "e2e": self.e2e_s,
        }
        return {name: value for name, value in named.items() if value is not None}


class DeadlineShare(Spec):
    """One deadline by itself."""

    deadline: Literal["ttft", "tpot", "max_itl", "e2e"]
    allowed_s: float
    met: float
    """Share of the requests that meet it; failed ones do not."""


class QuantileSum(Spec):
    """What comes of adding quantiles of stages, beside the quantile itself."""

    of: Literal["ttft", "e2e"]
    level: float
    stages: tuple[str, ...]
    sum_of_quantiles_s: float
    quantile_s: float


class StageTime(Spec):
    """A part of the time of completed requests."""

    stage: str
    side: Literal["before first token", "after first token"]
    own: bool
    """What a request takes alone."""
    mean_s: float
    p50_s: float
    p99_s: float
    means: str = ""
    """What it stands for, where data do not tell several things apart."""


class MissCause(Spec):
    """What misses are charged to."""

    cause: str
    share: float
    """Of the requests; those of all causes sum to 1 - attainment."""
    of_misses: float


class LateRequest(Spec):
    """One late request, part by part."""

    request: int
    """Its number in the run, from 1 in order of the data."""
    prompt_tokens: int | None
    output_tokens: int | None
    ttft_s: float
    e2e_s: float | None
    cause: str
    stages_s: dict[str, float]
    """In order of time; those before the first token first."""


class RunDiagnosis(Spec):
    """One run: its compliance, its stages, and the causes of its misses."""

    run: str
    pool: str
    format: str
    requests: int
    failed: int
    attainment: float
    """Joint: completed and within all deadlines."""
    low: float | None
    high: float | None
    """95 % interval by batch means in order of arrival; null for fewer than 1,000 requests."""
    deadlines: tuple[DeadlineShare, ...]
    product_of_shares: float
    """What multiplying the shares would give; wrong unless deadlines are missed independently."""
    least_possible: float
    """The least joint share that these shares allow."""
    quantile_sums: tuple[QuantileSum, ...]
    stages: tuple[StageTime, ...]
    unloaded: str
    """Where it is known from what a request takes alone."""
    misses: tuple[MissCause, ...]
    late: tuple[LateRequest, ...]
    missing: tuple[str, ...]
    """What the data do not hold."""
    notes: tuple[str, ...] = ()


def diagnose_runs(runs: Sequence[StagedRun], due: Due) -> list[RunDiagnosis]:
    """Diagnose the runs of a file; runs of one pool at several loads tell its fastest together."""
    found = []
    for run in runs:
        others = [one for one in runs if one is not run and _system(one) == _system(run)]
        found.append(diagnose_run(run, due, fastest(run, others)))
    return found


def _system(run: StagedRun) -> tuple[str, str]:
    return run.name.split(" at ", maxsplit=1)[0], run.pool


def compliant(run: StagedRun, due: Due) -> tuple[NDArray[np.bool_], dict[str, NDArray[np.bool_]]]:
    """Tell which requests meet all deadlines, and which meet each; shape ``(requests,)``.

    Raises:
        InputError: No request of the run tells what a deadline is about.
    """
    of = run.records
    each = {}
    values = {"ttft": of.ttft_s, "tpot": of.tpot_s, "max_itl": of.max_itl_s, "e2e": of.e2e_s}
    for name, allowed in due.items().items():
        if of.completed.any() and not np.isfinite(values[name][of.completed]).any():
            raise InputError(
                f"{run.name}: the data do not tell {name} of any request; leave --"
                f"{name.replace('_', '-')} out, or give data that do"
            )
        with np.errstate(invalid="ignore"):
            each[name] = of.completed & (values[name] <= allowed)
    joint = of.completed.copy()
    for met in each.values():
        joint &= met
    return joint, each


def diagnose_run(run: StagedRun, due: Due, unloaded: Unloaded | None = None) -> RunDiagnosis:
    """Diagnose one run.

    Args:
        run: Requests with what is known of their stages.
        due: Deadlines; at least one.
        unloaded: What requests take alone; of the fastest measured if left out.

    Raises:
        InputError: The data do not tell what a deadline is about.
    """
    of, n = run.records, len(run.records)
    joint, each = compliant(run, due)
    alone = unloaded or fastest(run)
    split = measured_split(run, alone)
    charges = _charges(run, due, split, alone, joint)
    shares = {name: float(met.mean()) for name, met in each.items()}
    interval = _interval(run, joint)
    return RunDiagnosis(
        run=run.name,
        pool=run.pool,
        format=run.format,
        requests=n,
        failed=int((~of.completed).sum()),
        attainment=float(joint.mean()),
        low=None if interval is None else interval[0],
        high=None if interval is None else interval[1],
        deadlines=tuple(
            DeadlineShare.model_validate({"deadline": name, "allowed_s": by, "met": shares[name]})
            for name, by in due.items().items()
        ),
        product_of_shares=float(np.prod(list(shares.values()))),
        least_possible=max(0.0, sum(shares.values()) - len(shares) + 1),
        quantile_sums=tuple(_quantile_sums(run, split)),
        stages=tuple(_stages(run, split)),
        unloaded="of the simulation's own account" if run.whole else f"of {alone.source}",
        misses=_misses(charges, n, int((~joint).sum())),
        late=_late(run, split, charges, joint),
        missing=missing(run),
        notes=run.notes,
    )


def _charges(
    run: StagedRun, due: Due, split: Split, alone: Unloaded, joint: NDArray[np.bool_]
) -> dict[str, Floats]:
    """Return the share of each miss by cause; those of a request that missed sum to 1."""
    of = run.records
    done = np.flatnonzero(of.completed)
    n = done.size
    steps = np.maximum(np.nan_to_num(of.output_tokens[done]) - 1, 0)
    far = np.full(n, np.inf)
    allowed = Allowed(
        first=far if due.ttft_s is None else np.full(n, due.ttft_s),
        # A pace is held by the sum of its gaps; what rounding adds must not make a miss.
        rest=far if due.tpot_s is None else due.tpot_s * steps,
        whole=None if due.e2e_s is None else np.full(n, due.e2e_s),
        gap=None if due.max_itl_s is None else np.full(n, due.max_itl_s),
        gaps=None if due.max_itl_s is None else gaps_of(run, alone).rows(done),
    )
    found = charge(split.rows(done), allowed)
    charges = {}
    told = sum(found.values(), np.zeros(n))
    late = ~joint[done]
    for name, share in found.items():
        column = np.zeros(len(of))
        column[done] = np.where(late & (told > 0), share / np.where(told > 0, told, 1.0), 0.0)
        charges[name] = column
    unknown = np.zeros(len(of))
    unknown[done] = late & (told <= 0)
    if unknown.any():
        charges["unknown"] = unknown
    return charges | {"failed": (~of.completed).astype(np.float64)}


def _misses(charges: Mapping[str, Floats], n: int, missed: int) -> tuple[MissCause, ...]:
    totals = {name: float(column.sum()) for name, column in charges.items()}
    rows = [
        MissCause(cause=name, share=total / n, of_misses=total / max(missed, 1))
        for name, total in totals.items()
        if total > 1e-12
    ]
    return tuple(sorted(rows, key=lambda row: (-row.share, row.cause)))


def _interval(run: StagedRun, joint: NDArray[np.bool_]) -> tuple[float, float] | None:
    start = run.records.start_s
    known = np.isfinite(start).all()
    order = np.argsort(start, kind="stable") if known else np.arange(joint.size)
    return joint_interval(joint[order])


def joint_interval(joint: NDArray[np.bool_]) -> tuple[float, float] | None:
    """Return the 95 % interval of a joint share by batch means; None for too few requests.

    Args:
        joint: Whether each request meets all deadlines, in order of arrival.
    """
    if joint.size < FEWEST:
        return None
    means = [float(part.mean()) for part in np.array_split(joint, BATCHES)]
    found = attainment_interval(means, joint.size)
    return found.low, found.high


def _named(split: Split) -> dict[str, tuple[str, bool, Floats]]:
    """Return parts by name and side, own ones first."""
    found = {}
    for side, own, parts in (
        ("before first token", True, split.own_before),
        ("before first token", False, split.company_before),
        ("after first token", True, split.own_after),
        ("after first token", False, split.company_after),
    ):
        for name, column in parts.items():
            found[f"{name}|{side}"] = (side, own, np.asarray(column, np.float64))
    return found


def _stages(run: StagedRun, split: Split) -> list[StageTime]:
    done, rows = run.records.completed, []
    for key, (side, own, column) in _named(split).items():
        values, name = column[done], key.split("|")[0]
        if not values.size or not values.any():
            continue
        p50, p99 = np.quantile(values, (0.5, 0.99)).tolist()
        rows.append(
            StageTime.model_validate(
                {
                    "stage": name,
                    "side": side,
                    "own": own,
                    "mean_s": float(values.mean()),
                    "p50_s": p50,
                    "p99_s": p99,
                    "means": "" if run.whole else UNSPLIT.get(name, ""),
                }
            )
        )
    return rows


def _quantile_sums(run: StagedRun, split: Split) -> list[QuantileSum]:
    done = run.records.completed
    if not done.any():
        return []
    ttft, e2e = run.records.ttft_s[done], run.records.e2e_s[done]
    parts = {k: c[done] for k, (side, _, c) in _named(split).items() if side.startswith("before")}
    both = {"ttft": ttft, "after first token": e2e - ttft}
    rows = []
    for of, whole, stages in (("ttft", ttft, parts), ("e2e", e2e, both)):
        known = {k.split("|")[0]: c for k, c in stages.items() if np.isfinite(c).all() and c.any()}
        if len(known) < 2 or not np.isfinite(whole).all():
            continue
        rows += [
            QuantileSum.model_validate(
                {
                    "of": of,
                    "level": level,
                    "stages": tuple(known),
                    "sum_of_quantiles_s": sum(float(np.quantile(c, level)) for c in known.values()),
                    "quantile_s": float(np.quantile(whole, level)),
                }
            )
            for level in LEVELS
        ]
    return rows


def _late(
    run: StagedRun, split: Split, charges: Mapping[str, Floats], joint: NDArray[np.bool_]
) -> tuple[LateRequest, ...]:
    """Return a late request of each of the causes that count most: the one of median length."""
    of, named, rows = run.records, _named(split), []
    names = [name for name in charges if name not in ("failed", "unknown")]
    late = np.flatnonzero(of.completed & ~joint)
    if not late.size or not names:
        return ()
    table = np.array([charges[name][late] for name in names])
    main = table.argmax(axis=0)
    by_cause = sorted(range(len(names)), key=lambda i: (-table[i].sum(), names[i]))
    for i in by_cause[:SHOWN]:
        mine = late[main == i]
        if not mine.size:
            continue
        at = int(mine[np.argsort(of.e2e_s[mine], kind="stable")[mine.size // 2]])
        stages: dict[str, float] = {}
        for side in ("before first token", "after first token"):
            for key, (where, _, column) in named.items():
                if where == side and column[at] > 0:
                    name = key.split("|")[0]
                    stages[name if name not in stages else f"{name} (after first token)"] = float(
                        column[at]
                    )
        rows.append(
            LateRequest(
                request=at + 1,
                prompt_tokens=_whole(of.prompt_tokens[at]),
                output_tokens=_whole(of.output_tokens[at]),
                ttft_s=float(of.ttft_s[at]),
                e2e_s=float(of.e2e_s[at]) if np.isfinite(of.e2e_s[at]) else None,
                cause=names[i],
                stages_s=stages,
            )
        )
    return tuple(rows)


def _whole(value: float) -> int | None:
    return int(value) if np.isfinite(value) else None
