"""How far a fitted step law is off runs that it has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from planner.calibration.through import FittedLaw, Observation

FOLDS: Final = 3
STATISTICS: Final = ("mean", "p50", "p90", "p99")
"""Of a latency, the first that is stated is compared."""
_LEAST_SD: Final = 0.03
"""Repeatability of TPOT and what the simulator leaves out, in ln."""
_MEAN_OF_NORMAL: Final = float(np.sqrt(2 / np.pi))
_P95_OF_NORMAL: Final = 1.96


@dataclass(frozen=True, slots=True)
class Errors:
    """|predicted / measured − 1| of each run that has the metric, and how they were found."""

    tpot: tuple[float, ...]
    ttft: tuple[float, ...]
    basis: str
    tpot_compared: tuple[str, ...] = ()
    """The statistics that the errors compare."""
    ttft_compared: tuple[str, ...] = ()

    def mean(self, metric: str) -> float | None:
        """Return the mean error of ``tpot`` or ``ttft``; None where no run has it."""
        values = getattr(self, metric)
        return float(np.mean(values)) if values else None

    def quantile(self, metric: str, share: float) -> float | None:
        """Return a quantile of the errors of ``tpot`` or ``ttft``."""
        values = getattr(self, metric)
        return float(np.quantile(values, share)) if values else None


def errors_of(fit: FittedLaw, runs: Sequence[Observation]) -> Errors:
    """Return the errors of a law on runs, each by the first of ``STATISTICS`` that it states."""
    errors: dict[str, list[float]] = {"tpot": [], "ttft": []}
    compared: dict[str, set[str]] = {"tpot": set(), "ttft": set()}
    for run in runs:
        found = fit.outcome(run.client)
        for metric, values in errors.items():
            stated = (s for s in STATISTICS if run.measured.get(f"{metric}_{s}_s"))
            if (statistic := next(stated, None)) is not None:
                name = f"{metric}_{statistic}_s"
                values.append(abs(getattr(found, name) / run.measured[name] - 1))
                compared[metric].add(statistic)
    tpot, ttft = (tuple(s for s in STATISTICS if s in compared[m]) for m in ("tpot", "ttft"))
    basis = "on the runs that were fitted"
    return Errors(tuple(errors["tpot"]), tuple(errors["ttft"]), basis, tpot, ttft)


def held_out(
    fit: FittedLaw,
    runs: Sequence[Observation],
    fitted: Callable[[Sequence[Observation]], FittedLaw],
) -> Errors:
    """Return the errors on runs that a fit to the others predicts.

    Runs are ordered by their load and dealt out in turn, so that each third spans the loads. Of
    fewer runs than thirds the spread that the fit itself states stands for them.

    Args:
        fit: The fit to all runs.
        runs: The runs.
        fitted: Fits a law to some of them.
    """
    if len(runs) < FOLDS:
        sd = float(np.hypot(fit.sd["decode_log"], _LEAST_SD))
        spread = (sd * _MEAN_OF_NORMAL, sd * _P95_OF_NORMAL)
        return Errors(spread, (), "too few runs to hold one out: the spread that the fit states")
    order = sorted(range(len(runs)), key=lambda i: (runs[i].client.users, runs[i].client.rate_rps))
    tpot: list[float] = []
    ttft: list[float] = []
    for k in range(FOLDS):
        out = set(order[k::FOLDS])
        others = fitted([r for i, r in enumerate(runs) if i not in out])
        errors = errors_of(others, [runs[i] for i in sorted(out)])
        tpot += errors.tpot
        ttft += errors.ttft
    return Errors(tuple(tpot), tuple(ttft), "error of runs held out of the fit, a third at a time")
