"""The decisions that predictions lead to, graded with measurements.

For every model, accelerator, engine, precision and pair of lengths with at least six measured
operating points, and every pair of deadlines that some of them meet and some do not: choose the
point with the highest predicted rate per device among those predicted to meet both deadlines; or,
with the bands, the one whose rate times the chance that it meets both is highest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import ndtr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planner.calibration.points import Point
    from planner.calibration.predict import Estimate, Prediction

TTFT_DEADLINES_S: Final = (0.3, 0.5, 1.0, 2.0, 5.0)
TPOT_DEADLINES_S: Final = (0.008, 0.012, 0.020, 0.030, 0.050)
_LEAST: Final = 6
_BAND_SD: Final = 2 * 1.645
"""Standard deviations between the ends of a 90 % band."""


@dataclass(frozen=True, slots=True)
class Grade:
    """How good a set of decisions is."""

    decisions: int
    met: float
    """Share of decisions whose choice really meets both deadlines."""
    efficiency: float
    """Mean of measured rate per device over the best compliant one's; 0 for a choice that misses,
    and where none was made."""


def rate_per_device(point: Point, ttft_s: float, tpot_s: float) -> float:
    """Return requests per second and device by Little's law."""
    s = point.system
    cycle = ttft_s + tpot_s * (point.load.mean_output_tokens - 1)
    return point.load.users / cycle / s.accelerators


def grade(predictions: Sequence[Prediction], *, banded: bool = False) -> Grade:
    """Grade the decisions on colocated points that were measured and predicted.

    Args:
        predictions: The points.
        banded: Choose by the rate that is compliant on average over the bands, not by values.
    """
    families: dict[tuple[object, ...], list[Prediction]] = {}
    for p in predictions:
        if p.ttft_s and p.tpot_s and p.point.ttft_s and p.point.tpot_s:
            s, load = p.point.system, p.point.load
            if s.prefill is None:
                key = (s.llm.id, s.accelerator.id, s.engine, s.precision)
                lengths = (load.prompt_tokens, load.output_tokens)
                families.setdefault((*key, *lengths), []).append(p)
    outcomes = [
        outcome
        for family in families.values()
        if len(family) >= _LEAST
        for ttft in TTFT_DEADLINES_S
        for tpot in TPOT_DEADLINES_S
        if (outcome := _decide(family, ttft, tpot, banded=banded)) is not None
    ]
    n = len(outcomes)
    return Grade(
        decisions=n,
        met=sum(met for met, _ in outcomes) / n if n else 0.0,
        efficiency=sum(share for _, share in outcomes) / n if n else 0.0,
    )


def _decide(
    family: Sequence[Prediction], ttft: float, tpot: float, *, banded: bool
) -> tuple[bool, float] | None:
    """Return whether the choice meets the deadlines, and its efficiency; None: no decision."""
    truth = {
        id(p): rate_per_device(p.point, p.point.ttft_s, p.point.tpot_s)
        for p in family
        if p.point.ttft_s is not None
        and p.point.tpot_s is not None
        and p.point.ttft_s <= ttft
        and p.point.tpot_s <= tpot
    }
    if len(truth) in (0, len(family)):
        return None
    thought = [
        (rate_per_device(p.point, p.ttft_s.value, p.tpot_s.value) * chance, i)
        for i, p in enumerate(family)
        if p.ttft_s
        and p.tpot_s
        and (chance := _meets(p.ttft_s, ttft, banded) * _meets(p.tpot_s, tpot, banded))
    ]
    if not thought:
        return False, 0.0
    chosen = id(family[max(thought)[1]])
    return chosen in truth, truth.get(chosen, 0.0) / max(truth.values())


def _meets(estimate: Estimate, deadline_s: float, banded: bool) -> float:
    """Return the chance that a value keeps a deadline: 0 or 1, or by its band, normal in ln."""
    if not banded:
        return float(estimate.value <= deadline_s)
    sd = np.log(estimate.high / estimate.low) / _BAND_SD
    return float(ndtr(np.log(deadline_s / estimate.value) / max(sd, 1e-9)))
