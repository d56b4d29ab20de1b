"""One workload as two, by the length of its prompts: short ones need not wait behind long ones.

A long prompt holds a replica's steps for seconds, and whoever comes meanwhile waits. Where few
requests bring much of the prompt tokens, a router that sends them elsewhere may be worth more
than the sharing that it gives up. Here a problem is turned into one in which the two parts of a
workload are workloads of their own; nothing else of the planner knows of parts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.candidates.number_formats import accepts
from planner.candidates.physics import reachable
from planner.problem.arrivals import RenewalArrivals, ReplayArrivals, SessionArrivals, UserArrivals
from planner.problem.lengths import JointLengths, MixedLengths
from planner.problem.resolve import Whole
from planner.simulation.lengths import draw_lengths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from planner.candidates.template import Build
    from planner.problem.arrivals import ArrivalLaw
    from planner.problem.lengths import LengthLaw
    from planner.problem.periods import Calendar
    from planner.problem.resolve import Demand, Problem

DRAWN: Final = 400_000
"""Requests drawn of a law whose parts have no closed form."""
LEAST_SHARE, MOST_SHARE = 5e-4, 0.2
"""Shares of long requests between which a split is considered."""
LEAST_TOKENS: Final = 0.25
"""Share of the prompt tokens that the long requests bring, at least."""
LEAST_RATIO: Final = 8.0
"""Long prompts are at least this many times as long as short ones, in the mean."""
MOST_SPLITS: Final = 3
"""Thresholds that are priced for a workload."""
STRICTEST: Final = 0.999
"""No part is promised more than this: no simulation would tell whether it holds."""


@dataclass(frozen=True, slots=True)
class Split:
    """A threshold between short and long prompts of one workload."""

    workload: int
    at_tokens: int
    """Longest prompt that counts as short."""
    share: float
    """Of requests that are long."""
    tokens: float
    """Share of the prompt tokens that they bring."""


def splits_of(demand: Demand, w: int) -> tuple[Split, ...]:
    """Return thresholds at which a workload is worth splitting; none for most workloads.

    A power of two, above which few requests have prompts that are many times as long as the
    others' and bring much of all prompt tokens.
    """
    prompt, output = draw_lengths(demand.lengths, DRAWN, np.random.default_rng(0))
    served = prompt[prompt.astype(np.int64) + output <= demand.llm.max_context].astype(float)
    found: list[Split] = []
    for power in range(9, 24):
        share = float((prompt > 2**power).mean())
        over = served > 2**power
        if not LEAST_SHARE <= share <= MOST_SHARE or not over.any():
            continue
        tokens = float(served[over].sum() / served.sum())
        ratio = float(served[over].mean() / served[~over].mean())
        same = found and share > 0.98 * found[-1].share
        if tokens >= LEAST_TOKENS and ratio >= LEAST_RATIO and not same:
            found.append(Split(w, 2**power, share, tokens))
    if len(found) > MOST_SPLITS:
        found = [found[i * (len(found) - 1) // (MOST_SPLITS - 1)] for i in range(MOST_SPLITS)]
    return tuple(found)


def cannot_split(demand: Demand) -> str | None:
    """Say why the requests of a workload cannot be told apart by length; None if they can."""
    if isinstance(demand.arrivals, SessionArrivals):
        return "the turns of a session grow from short to long and belong together"
    if isinstance(demand.arrivals, UserArrivals):
        return "users who wait send short and long prompts in turn"
    if demand.prefix is not None:
        return "its prompts share beginnings, which short and long ones may have in common"
    if demand.slo.attainment_over is not None:
        return "its promise counts over the hours, and those of parts would count each for itself"
    return None


def promises_of(
    demand: Demand, split: Split, builds: Sequence[Build]
) -> tuple[float, float] | None:
    """Return what short and long requests are each promised so that the whole promise holds.

    Both the promise of the whole, if an empty replica can keep it for long prompts. If none can,
    long ones are promised nothing, and short ones as much more as that takes.

    Returns:
        None if short requests would have to be promised too much to be told by a simulation.
    """
    slo = demand.slo
    law = part_of(demand.lengths, split.at_tokens, long=True)
    prompt, output = draw_lengths(law, 4_000, np.random.default_rng(0))
    ttft_s = np.full(prompt.size, slo.ttft)
    for bucket in reversed(slo.ttft_by_prompt):
        ttft_s[prompt <= bucket.up_to] = bucket.ttft
    within = prompt.astype(np.int64) + output <= demand.llm.max_context
    loose = slo.e2e or math.inf, slo.max_itl or math.inf
    limits = (np.where(within, ttft_s, 0.0), slo.tpot, *loose)
    for build in builds:
        if accepts(demand, build):
            found = reachable(build, prompt, output, limits, slo.attainment)
            if found.attainment >= slo.attainment:
                return slo.attainment, slo.attainment
    short = slo.attainment / (1 - split.share)
    return (short, 0.0) if short <= STRICTEST else None


def split_problem(problem: Problem, split: Split, promises: tuple[float, float]) -> Problem:
    """Return the problem with a workload in two parts, short prompts first.

    Args:
        problem: The question, none of its workloads split yet.
        split: Which workload, and where.
        promises: Attainment promised to short and to long requests.
    """
    w = split.workload
    parts = tuple(
        _part(problem.demands[w], split, promise, long=long)
        for long, promise in zip((False, True), promises, strict=True)
    )
    demands = (*problem.demands[:w], *parts, *problem.demands[w + 1 :])
    wholes = tuple(
        Whole(d, (w, w + 1), split.at_tokens) if v == w else Whole(d, (v + (v > w),))
        for v, d in enumerate(problem.demands)
    )
    calendar = problem.calendar and _doubled(problem.calendar, w)
    return replace(problem, demands=demands, wholes=wholes, calendar=calendar)


def _part(demand: Demand, split: Split, promise: float, *, long: bool) -> Demand:
    share = split.share if long else 1 - split.share
    name = "over" if long else "up-to"
    return replace(
        demand,
        id=f"{demand.id}.{name}-{split.at_tokens}",
        arrivals=_thinned(demand.arrivals, split.at_tokens, share, long=long),
        slo=demand.slo.model_copy(update={"attainment": promise}),
        lengths=part_of(demand.lengths, split.at_tokens, long=long),
        mean_rps=demand.mean_rps * share,
    )


def _thinned(law: ArrivalLaw, at_tokens: int, share: float, *, long: bool) -> ArrivalLaw:
    """Return the arrivals of a part: those of a trace are told apart, others thinned at random."""
    rate = law.rate_rps * share
    if isinstance(law, RenewalArrivals):
        return replace(law, rate_rps=rate, cv=math.sqrt(1 + share * (law.cv**2 - 1)))
    if isinstance(law, ReplayArrivals) and law.lengths is not None:
        mine = np.flatnonzero((law.lengths[0] > at_tokens) == long)
        lengths = law.lengths[0][mine], law.lengths[1][mine]
        rate = law.rate_rps * mine.size / law.time_s.size
        return replace(law, rate_rps=rate, time_s=law.time_s[mine], lengths=lengths, prefix=None)
    return replace(law, rate_rps=rate)


def part_of(law: LengthLaw, at_tokens: int, *, long: bool) -> LengthLaw:
    """Return the law of the requests whose prompts are above a threshold, or are not.

    Cells of a histogram are cut at it; of laws without cells a large draw stands in.
    """
    if isinstance(law, JointLengths):
        return _cells(law, at_tokens, long=long)
    if isinstance(law, MixedLengths):
        shares = [_share_over(part, at_tokens) for part in law.parts]
        kept = [s if long else 1 - s for s in shares]
        both = [
            (part_of(part, at_tokens, long=long), weight * s)
            for part, weight, s in zip(law.parts, law.weights, kept, strict=True)
            if s > 0
        ]
        return MixedLengths(tuple(p for p, _ in both), tuple(x for _, x in both))
    prompt, output = draw_lengths(law, DRAWN, np.random.default_rng(0))
    mine = (prompt > at_tokens) == long
    p, o = prompt[mine].astype(np.int64), output[mine].astype(np.int64)
    return JointLengths(p, p, o, o, np.ones(p.size))


def _share_over(law: LengthLaw, at_tokens: int) -> float:
    if isinstance(law, JointLengths):
        return float((law.weight * _over(law, at_tokens)).sum() / law.weight.sum())
    if isinstance(law, MixedLengths):
        shares = [_share_over(part, at_tokens) for part in law.parts]
        return float(np.average(shares, weights=law.weights))
    prompt, _ = draw_lengths(law, DRAWN, np.random.default_rng(0))
    return float((prompt > at_tokens).mean())


def _over(law: JointLengths, at_tokens: int) -> NDArray[np.float64]:
    """Return which share of each cell has prompts above a threshold."""
    width = law.prompt_high - law.prompt_low + 1
    return np.clip((law.prompt_high - at_tokens) / width, 0.0, 1.0)


def _cells(law: JointLengths, at_tokens: int, *, long: bool) -> JointLengths:
    over = _over(law, at_tokens)
    weight = law.weight * (over if long else 1 - over)
    low = np.maximum(law.prompt_low, at_tokens + 1) if long else law.prompt_low
    high = law.prompt_high if long else np.minimum(law.prompt_high, at_tokens)
    kept = weight > 0
    return JointLengths(
        low[kept], high[kept], law.output_low[kept], law.output_high[kept], weight[kept]
    )


def _doubled(calendar: Calendar, w: int) -> Calendar:
    """Return a calendar in which the two parts of a workload have its load over time."""

    def both(levels: tuple[float, ...]) -> tuple[float, ...]:
        return (*levels[: w + 1], *levels[w:])

    periods = tuple(replace(p, level=both(p.level), most=both(p.most)) for p in calendar.periods)
    return replace(calendar, periods=periods, target=both(calendar.target))
