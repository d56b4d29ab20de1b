"""Measured requests as parts that can be charged, as far as the data tell them apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.attribution.shapley import Split
from planner.attribution.stage_split import STAGES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from planner.measurements.staged import StagedRun

    Floats = NDArray[np.float64]

OWN: Final = (
    "prefill",
    "decode_solo",
    "kv_transfer",
    "handoff",
    "first_decode_step",
    "prefill_floor",
    "decode_floor",
)
"""Parts that a request has even alone."""
FASTEST: Final = 0.05
"""Quantile of the measured times that stands for an unloaded request where no curve is given."""
BINS: Final = 12
UNSPLIT: Final = {
    "ttft_company": "queueing, shared prefill steps and lost blocks before the first token",
    "decode_company": "other decodes, others' prefill chunks and lost blocks after it",
    "outside_engine": "frontend, router and network, which the engine's own times leave out",
    "prefill_floor": "what even the fastest of the measured took: alone, or in company that never"
    " left; a curve of what served tells which",
    "decode_floor": "the pace that even the fastest of the measured had: alone, or in company that"
    " never left; a curve of what served tells which",
    "decode_gap": "the longest gap between two tokens: a chunk of others' prefill, or lost blocks",
    "prefill_interference": "prefill steps shared with others; lost blocks before the first token"
    " are in it where preemptions are not told",
}
"""What the names of parts that data do not tell apart stand for."""


@dataclass(frozen=True, slots=True)
class Unloaded:
    """What requests take alone, seconds; arrays of shape ``(requests,)``.

    Attributes:
        prefill_s: To the first token.
        decode_s: From there to the last.
        source: Where that is known from.
        floor: Whether it is only what the fastest measured took, which is never less.
    """

    prefill_s: Floats
    decode_s: Floats
    source: str
    floor: bool = False

    @property
    def names(self) -> tuple[str, str]:
        """What its two parts are called."""
        return ("prefill_floor", "decode_floor") if self.floor else ("prefill", "decode_solo")


@dataclass(frozen=True, slots=True)
class MeasuredGap:
    """The longest gap between two tokens, and the mean time without it."""

    longest: Floats
    pace: Floats

    def without(self, removed: Collection[str]) -> Floats:
        """Return the longest gap without what these parts added."""
        return self.pace if "decode_gap" in removed else self.longest

    def rows(self, chosen: NDArray[np.int64]) -> MeasuredGap:
        """Return those of chosen requests."""
        return MeasuredGap(self.longest[chosen], self.pace[chosen])


def fastest(run: StagedRun, others: Sequence[StagedRun] = ()) -> Unloaded:
    """Estimate what requests take alone from the fastest that were measured.

    A line through the fastest prefills by length, and the fastest pace. In runs that were never
    idle this is too slow, and what it calls a request's own is too much.

    Args:
        run: Whose requests.
        others: Runs of the same pool under other loads.
    """
    lines, paces = [], []
    for one in (run, *others):
        of = one.records
        prefill = np.where(np.isfinite(of.prefill_s), of.prefill_s, of.ttft_s)
        done = of.completed
        line = _lower_line(_lengths(one)[done], prefill[done])
        several = done & (of.output_tokens > 1) & np.isfinite(of.tpot_s)
        if line is not None:
            lines.append(line)
        if several.any():
            paces.append(float(np.quantile(of.tpot_s[several], FASTEST)))
    prompt = _lengths(run)
    steps = np.maximum(np.nan_to_num(run.records.output_tokens, nan=1.0) - 1, 0)
    first = [base + slope * prompt for base, slope in lines] or [np.zeros(prompt.shape)]
    return Unloaded(
        np.min(first, axis=0),
        min(paces, default=0.0) * steps,
        f"the fastest {FASTEST:.0%} of the requests measured",
        floor=True,
    )


def _lengths(run: StagedRun) -> Floats:
    return np.nan_to_num(run.records.prompt_tokens, nan=1.0)


def _lower_line(x: Floats, y: Floats) -> tuple[float, float] | None:
    """Return intercept and slope, both ≥ 0, of a line through the least values along x."""
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if not x.size:
        return None
    from scipy.optimize import nnls

    order = np.argsort(x, kind="stable")
    groups = [g for g in np.array_split(order, min(BINS, x.size)) if g.size]
    rows = np.array([[1.0, x[g].mean()] for g in groups])
    low = np.array([np.quantile(y[g], FASTEST) for g in groups])
    (base, slope), _ = nnls(rows / np.maximum(low, 1e-12)[:, None], np.ones(low.size))
    return float(base), float(slope)


def measured_split(run: StagedRun, unloaded: Unloaded) -> Split:
    """Split the time of completed requests; ``nan`` rows of failed ones are zeros.

    What the run's format tells is kept. Of prefill and decode, as much as a request takes alone is
    its own; the rest is company. Parts sum to TTFT, and to the time after it.
    """
    of = run.records
    ttft = np.nan_to_num(of.ttft_s)
    rest = np.maximum(np.nan_to_num(of.e2e_s) - ttft, 0.0)
    if run.whole:
        return _whole(run)
    prefill, decode = unloaded.names
    company: dict[str, Floats] = {}
    own: dict[str, Floats] = {}
    left = ttft.copy()
    for name, column in run.before.items():
        known = np.minimum(np.nan_to_num(column), left)
        left = left - known
        if name == "prefill":
            own[prefill] = np.minimum(known, unloaded.prefill_s)
            company["prefill_interference"] = known - own[prefill]
        else:
            (own if name in OWN else company)[name] = known
    if "prefill" in run.before:
        company["outside_engine"] = left
    else:
        own[prefill] = np.minimum(left, unloaded.prefill_s)
        company["ttft_company"] = left - own[prefill]
    solo = np.minimum(rest, unloaded.decode_s)
    slow = rest - solo
    after = {}
    if np.isfinite(of.max_itl_s).any():
        gap = np.clip(np.nan_to_num(of.max_itl_s) - _pace(run, solo), 0.0, slow)
        after["decode_gap"] = gap
        slow = slow - gap
    after["decode_company"] = slow
    return Split(company, after, own, {decode: solo})


def _whole(run: StagedRun) -> Split:
    sides = [
        {name: np.nan_to_num(column) for name, column in side.items() if name in STAGES}
        for side in (run.before, run.after)
    ]
    own = [{n: c for n, c in side.items() if n in OWN} for side in sides]
    company = [{n: c for n, c in side.items() if n not in OWN} for side in sides]
    return Split(company[0], company[1], own[0], own[1])


def gaps_of(run: StagedRun, unloaded: Unloaded) -> MeasuredGap:
    """Return the longest gaps, with the mean time between tokens as what stays without them."""
    return MeasuredGap(np.nan_to_num(run.records.max_itl_s), _pace(run, unloaded.decode_s))


def _pace(run: StagedRun, decode_s: Floats) -> Floats:
    steps = np.maximum(np.nan_to_num(run.records.output_tokens) - 1, 1)
    return np.asarray(decode_s / steps)


def missing(run: StagedRun) -> tuple[str, ...]:
    """Name what the data do not hold and a full account needs, with what would tell it."""
    of, told = run.records, []
    if run.whole:
        return ()
    if "queue" not in run.before and "prefill_leg" not in run.before:
        told.append("queue time (gen_ai.latency.time_in_queue): waiting and prefill are one part")
    if "prefill" not in run.before:
        told.append("prefill time (gen_ai.latency.time_in_model_prefill)")
    if not np.isfinite(of.output_tokens).any():
        told.append("output tokens: TPOT is not known")
    if not np.isfinite(of.max_itl_s).any():
        told.append("longest gap between tokens (itls, --save-detailed): stalls are not told")
    told.append(
        "preemptions by request: vLLM counts queue time to the first scheduling only, so time lost"
        " to preemption hides in prefill or decode"
    )
    told.append("batch size and chunks by step: other decodes and others' chunks are one part")
    if not np.isfinite(of.start_s).any():
        told.append("arrival times: bursts cannot be told, and nothing can be simulated again")
    return tuple(told)
