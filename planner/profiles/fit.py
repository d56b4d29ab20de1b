"""The workload of a scenario that is like a trace, and how like it is.

Arrivals are judged by what makes queues: the index of dispersion of counts from a second to ten
minutes. Each candidate is drawn at the trace's rate for the trace's span and measured as the
trace was; the one whose dispersion is nearest over all scales is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.problem.arrivals import BurstArrivals, PoissonArrivals, RenewalArrivals
from planner.problem.lengths import JointLengths
from planner.profiles.arrivals import dispersion
from planner.profiles.marginals import MarginalFit, fit_marginal
from planner.profiles.profile import heat_map
from planner.scenario.arrivals import Arrivals, Bursts, Renewal
from planner.scenario.lengths import Lengths
from planner.simulation.arrivals import make_stream
from planner.simulation.lengths import draw_lengths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from planner.measurements.request_trace import RequestTrace
    from planner.problem.arrivals import ArrivalLaw
    from planner.profiles.document import ArrivalProfile, Dispersion, HeatMap, TraceProfile

    Tokens = NDArray[np.int32]

DRAWS: Final = 5
"""Draws of each candidate; what is told of it is their mean."""
MOST_DRAWN: Final = 400_000
CLOSE: Final = 1.25
"""Within this factor of the trace's dispersion at every scale, a fit counts as close."""
LEAST_INDEX: Final = 1e-3
"""A dispersion below is that of a metronome; ratios take it as this."""
CELLS_PER_OCTAVE: Final = 8


@dataclass(frozen=True, slots=True)
class ArrivalFit:
    """A candidate for the arrivals."""

    name: str
    law: ArrivalLaw
    index: tuple[float, ...]
    """Its index of dispersion at the scales of the trace."""
    worst_factor: float
    """Largest ratio to the trace's, either way, over the scales."""
    distance: float
    """Root mean square of the log ratio over the scales."""


@dataclass(frozen=True, slots=True)
class WorkloadFit:
    """What to write into a scenario, and how well it fits."""

    arrivals: ArrivalFit | None
    candidates: tuple[ArrivalFit, ...]
    """All that were tried, nearest first."""
    scales_s: tuple[float, ...]
    trace_index: tuple[float, ...]
    prompt: MarginalFit
    output: MarginalFit
    correlation: float
    histogram: HeatMap
    """The joint lengths in fine cells; this keeps tails and correlation as they are."""
    histogram_distance: float
    """Largest distance of its two marginals from the trace's distribution."""


def fit_workload(trace: RequestTrace, profile: TraceProfile) -> WorkloadFit:
    """Fit arrivals and lengths to a trace.

    Args:
        trace: The requests.
        profile: What :func:`planner.profiles.profile.profile_trace` said of them.
    """
    found: list[ArrivalFit] = []
    seen: Sequence[Dispersion] = ()
    if profile.arrivals is not None:
        seen = [d for d in profile.arrivals.dispersion if 1.0 <= d.window_s <= 600.0]
        found = [
            _judge(name, law, seen, profile.arrivals)
            for name, law in _candidates(profile.arrivals, seen)
        ]
        found.sort(key=lambda fit: (_rank(fit, seen), fit.distance))
    cells = heat_map(trace.prompt, trace.output, CELLS_PER_OCTAVE)
    drawn = draw_lengths(law_of_cells(cells), 100_000, np.random.default_rng(0))
    pairs = zip(drawn, (trace.prompt, trace.output), strict=True)
    return WorkloadFit(
        arrivals=found[0] if found else None,
        candidates=tuple(found),
        scales_s=tuple(d.window_s for d in seen),
        trace_index=tuple(d.index for d in seen),
        prompt=fit_marginal(trace.prompt),
        output=fit_marginal(trace.output),
        correlation=profile.rank_correlation,
        histogram=cells,
        histogram_distance=max(distance(one, two) for one, two in pairs),
    )


def _candidates(
    arrivals: ArrivalProfile, seen: Sequence[Dispersion]
) -> list[tuple[str, ArrivalLaw]]:
    """List the laws to try; the renewal ones by the gaps' CV and by what dispersion asks for."""
    rate = arrivals.rate_rps
    laws: list[tuple[str, ArrivalLaw]] = [("poisson", PoissonArrivals(rate))]
    by_counts = math.sqrt(max((d.index for d in seen), default=1.0))
    for cv in sorted({round(min(x, 20.0), 3) for x in (arrivals.cv, by_counts)}):
        if abs(cv - 1) > 0.05:
            laws += [
                ("gamma", RenewalArrivals(rate, cv, "gamma")),
                ("weibull", RenewalArrivals(rate, cv, "weibull")),
            ]
    bursts = fit_bursts(rate, [(d.window_s, d.index) for d in seen], _quiet_level(arrivals))
    return [*laws, ("bursts", bursts)] if bursts is not None else laws


def _rank(fit: ArrivalFit, seen: Sequence[Dispersion]) -> int:
    """Put Poisson first where the trace cannot be told from it: the simplest that fits."""
    alike = all(d.low <= 1.05 and d.high >= 0.95 for d in seen)
    return 0 if fit.name == "poisson" and alike else 1


def _quiet_level(arrivals: ArrivalProfile) -> float:
    """Return what the quiet tenth of the trace has of the mean rate."""
    quiet = float(np.quantile(arrivals.rate.rps, 0.1)) / arrivals.rate_rps
    return min(max(quiet, 0.0), 0.9)


def fit_bursts(
    rate_rps: float, index: Sequence[tuple[float, float]], quiet_level: float
) -> BurstArrivals | None:
    """Choose lengths of bursts and quiet so that dispersion grows with the window as it was seen.

    In a Markov-modulated process of two states the index in a window t is
    1 + A (1 - (1 - e^-rt) / rt). A and r are taken from a grid, by least squares on logs; the
    rest follows from the rate between bursts.

    Args:
        rate_rps: Mean rate.
        index: Windows in seconds, and the index of dispersion in each.
        quiet_level: Rate between bursts as a share of the mean.

    Returns:
        None where counts are no more uneven than Poisson's.
    """
    if len(index) < 2 or max(value for _, value in index) < 1.1:
        return None
    t, seen = np.array(index).T
    r = np.geomspace(0.1 / t[-1], 10 / t[0], 200)[:, None, None]
    top = float(seen.max())
    a = np.geomspace(0.02, 30 * top, 200)[None, :, None]
    shape = 1 - (1 - np.exp(-r * t)) / (r * t)
    off = (np.log(1 + a * shape) - np.log(np.maximum(seen, 1.0))) ** 2
    i, j = np.unravel_index(int(np.argmin(off.sum(axis=2))), off.shape[:2])
    pace, size = float(r[i, 0, 0]), float(a[0, j, 0])
    odds = size * pace / (2 * rate_rps * (1 - quiet_level) ** 2)  # of quiet to burst
    share = 1 / (1 + odds)
    return BurstArrivals(rate_rps, 1 / ((1 - share) * pace), 1 / (share * pace), quiet_level)


def _judge(
    name: str, law: ArrivalLaw, seen: Sequence[Dispersion], arrivals: ArrivalProfile
) -> ArrivalFit:
    n = int(min(max(arrivals.rate_rps * arrivals.span_s, 1_000), MOST_DRAWN))
    rows = []
    for draw in range(DRAWS):
        time_s = make_stream(law, n, (draw,)).at(law.rate_rps).time_s
        span_s = float(time_s[-1])
        rows.append(
            [dispersion(time_s, span_s, d.window_s).index for d in seen if span_s >= 2 * d.window_s]
        )
    index = np.array(rows).mean(axis=0)
    theirs = np.array([d.index for d in seen][: index.size])
    ratio = np.log(np.maximum(index, LEAST_INDEX) / np.maximum(theirs, LEAST_INDEX))
    return ArrivalFit(
        name=name,
        law=law,
        index=tuple(index.tolist()),
        worst_factor=float(np.exp(np.abs(ratio).max(initial=0.0))),
        distance=float(np.sqrt((ratio**2).mean())) if ratio.size else 0.0,
    )


def law_of_cells(heat: HeatMap) -> JointLengths:
    """Return the length law of a heat map: even within each cell."""
    p, o = np.array(heat.prompt_edges), np.array(heat.output_edges)
    counts = np.array(heat.counts)
    i, j = np.nonzero(counts)
    return JointLengths(p[i], p[i + 1] - 1, o[j], o[j + 1] - 1, counts[i, j].astype(np.float64))


def distance(one: Tokens, two: Tokens) -> float:
    """Return the largest distance of two samples' distribution functions (Kolmogorov-Smirnov)."""
    at = np.union1d(one, two)
    below = [np.searchsorted(np.sort(x), at, side="right") / x.size for x in (one, two)]
    return float(np.abs(below[0] - below[1]).max())


def arrivals_document(fit: ArrivalFit) -> Arrivals:
    """Write a fitted law of arrivals as a section of a scenario."""
    law = fit.law
    if isinstance(law, BurstArrivals):
        bursts = Bursts(
            rate=_short(law.rate_rps),
            burst=_short(law.burst_s),
            quiet=_short(law.quiet_s),
            quiet_level=round(law.quiet_level, 3),
        )
        return Arrivals(bursts=bursts)
    rate = _short(law.rate_rps)
    if isinstance(law, RenewalArrivals):
        renewal = Renewal(rate=rate, cv=law.cv)
        return Arrivals(gamma=renewal) if law.family == "gamma" else Arrivals(weibull=renewal)
    return Arrivals(poisson=rate)


def parametric_lengths(fit: WorkloadFit) -> Lengths:
    """Write the fitted marginals and their correlation as a section of a scenario."""
    correlation = round(fit.correlation, 3)
    return Lengths(
        prompt=fit.prompt.document,
        output=fit.output.document,
        correlation=correlation or None,
    )


def _short(value: float) -> float:
    return float(f"{value:.5g}")
