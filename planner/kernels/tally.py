"""What a stream counts: outcomes, sums of stages and histograms, by class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

OUTCOMES: Final = (
    "compliant",
    "late_ttft",
    "late_tpot",
    "late_both",
    "late_other",
    "too_long",
)
"""What became of a completed request. ``late_both``: TTFT and TPOT. ``late_other``: in time with
both, late end to end or between two tokens. ``too_long``: prompt + output above the class's
context, whatever its times."""
STAGES: Final = (
    "queue",
    "kv_block_wait",
    "prefill_own",
    "prefill_stretch",
    "decode_solo",
    "decode_batch",
    "decode_stall",
    "preempted",
)
"""Where time goes, without remainder; see :class:`planner.kernels.Stages`."""

BINS: Final = 64 * 57 + 64
MOST_SAMPLES: Final = 1024
"""Samples of the backlog at most; then every second is dropped, and half as many are taken."""
RELATIVE_ERROR: Final = 1 / 128
"""Of any value read from a histogram; values below 128 ps are exact."""


NEVER_PS: Final = 2**62
"""A deadline that does not exist."""


class Deadlines(NamedTuple):
    """By class; rows of shape ``(classes,)``, int64, >= 0. A deadline met exactly is met."""

    ttft_ps: NDArray[np.int64]
    """From arrival to the first token."""
    tpot_ps: NDArray[np.int64]
    """Mean from first to last token, per token after the first; one-token outputs have none."""
    context_tokens: NDArray[np.int64]
    """A longer request, prompt and output, is a miss."""
    e2e_ps: NDArray[np.int64] | None = None
    """From arrival to the last token; None: no class has such a deadline."""
    max_itl_ps: NDArray[np.int64] | None = None
    """The longest time between two tokens; None: no class has such a deadline."""
    by_prompt: tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...] | None = None
    """Of each class, the longest prompts of its TTFT buckets, ascending, and their deadlines (a
    deadline of longer prompts at the end is ``ttft_ps`` again); None: no class has buckets."""


def bin_of(value: int) -> int:
    """Return the bin of a value >= 0: its seven leading binary digits, and how many follow."""
    halvings = max(value.bit_length() - 7, 0)
    return 64 * halvings + (value >> halvings)


class Histogram(NamedTuple):
    """Times in bins of relative width 1/64 or less."""

    counts: NDArray[np.int64]
    """Shape ``(BINS,)``."""

    @property
    def total(self) -> int:
        """How many values are in it."""
        return int(self.counts.sum())

    def quantile_ps(self, share: float) -> float:
        """Return the smallest value that at least a share of all values do not exceed.

        Within ``RELATIVE_ERROR`` of the exact one; nan if there are none.
        """
        cumulative = np.cumsum(self.counts)
        if cumulative[-1] == 0:
            return float("nan")
        rank = max(1, int(np.ceil(share * int(cumulative[-1]))))
        at = int(np.searchsorted(cumulative, rank))
        halvings = max(at // 64 - 1, 0)
        low = (at - 64 * halvings) << halvings
        return low + ((1 << halvings) - 1) / 2


class ClassSummary(NamedTuple):
    """One class of requests; whole numbers are exact."""

    offered: int
    rejected: int
    """Too long for the KV cache of a replica."""
    outcomes: dict[str, int]
    """Completed requests by ``OUTCOMES``."""
    output_tokens: int
    """Of completed requests."""
    preemptions: int
    stages_ps: dict[str, dict[str, int]]
    """Sums over completed requests, by ``OUTCOMES`` and then ``STAGES``."""
    ttft: Histogram
    tpot: Histogram
    """Rounded down to whole ps; of outputs of two tokens and more."""

    @property
    def completed(self) -> int:
        """Requests that have their last token."""
        return sum(self.outcomes.values())

    @property
    def compliant(self) -> int:
        """Requests that met all deadlines and were not too long."""
        return self.outcomes["compliant"]


class StreamSummary(NamedTuple):
    """What a stream has shown so far; whole numbers are exact, of any size."""

    classes: tuple[ClassSummary, ...]
    steps: int
    events: int
    busy_ps: int
    """Time in steps, summed over replicas; what a stream's last push began is not in it yet."""
    peak_kv_blocks: int
    last_arrival_ps: int
    last_finish_ps: int
    backlog: NDArray[np.int64]
    """Requests waiting or preempted when every ``backlog_stride``-th request came."""
    backlog_stride: int

    @property
    def backlog_grows(self) -> bool:
        """Tell whether more requests wait at the end than before, beyond noise.

        In an overloaded queue the backlog grows by 1 - capacity / load per arrival; here the
        growth between the second and the last quarter must exceed 1 % of the arrivals between
        them. False for fewer than 100 samples.
        """
        n = len(self.backlog)
        if n < 100:
            return False
        early, late = slice(n // 4, n // 2), slice(n - n // 4, n)
        growth = self.backlog[late].mean() - self.backlog[early].mean()
        index = np.arange(n) * self.backlog_stride
        return bool(growth > 0.01 * (index[late].mean() - index[early].mean()))


class Tallies(NamedTuple):
    """The numbers of a stream as arrays, int64; wide numbers are pairs, high * 2**32 + low."""

    counts: NDArray[np.int64]
    """``(classes, 10)``: offered, rejected, six outcomes, output tokens, preemptions."""
    sums: NDArray[np.int64]
    """``(classes, outcomes, stages, 2)``, ps."""
    histograms: NDArray[np.int64]
    """``(classes, 2, BINS)``: TTFT, TPOT."""
    totals: NDArray[np.int64]
    """``(10,)``: steps, events, peak blocks, stride of the backlog; then busy time, last arrival
    and last finish, wide."""
    backlog: NDArray[np.int64]

    @classmethod
    def room(cls, classes: int) -> Tallies:
        """Return zeros for a number of classes."""
        return cls(
            np.zeros((classes, 4 + len(OUTCOMES)), np.int64),
            np.zeros((classes, len(OUTCOMES), len(STAGES), 2), np.int64),
            np.zeros((classes, 2, BINS), np.int64),
            np.zeros(10, np.int64),
            np.zeros(MOST_SAMPLES, np.int64),
        )

    def summary(self) -> StreamSummary:
        """Return what the numbers say."""
        steps, events, peak, stride, *wide = self.totals.tolist()
        busy, last_arrival, last_finish = (_whole(wide[i : i + 2]) for i in (0, 2, 4))
        return StreamSummary(
            classes=tuple(self._class(index) for index in range(len(self.counts))),
            steps=steps,
            events=events,
            busy_ps=busy,
            peak_kv_blocks=peak,
            last_arrival_ps=last_arrival,
            last_finish_ps=last_finish,
            backlog=self.backlog,
            backlog_stride=stride,
        )

    def _class(self, index: int) -> ClassSummary:
        offered, rejected, *outcomes, output_tokens, preemptions = self.counts[index].tolist()
        sums = self.sums[index].tolist()
        return ClassSummary(
            offered=offered,
            rejected=rejected,
            outcomes=dict(zip(OUTCOMES, outcomes, strict=True)),
            output_tokens=output_tokens,
            preemptions=preemptions,
            stages_ps={
                outcome: dict(zip(STAGES, map(_whole, row), strict=True))
                for outcome, row in zip(OUTCOMES, sums, strict=True)
            },
            ttft=Histogram(self.histograms[index, 0]),
            tpot=Histogram(self.histograms[index, 1]),
        )


def _whole(pair: Sequence[int]) -> int:
    high, low = pair
    return (high << 32) + low


def pair(whole: int) -> tuple[int, int]:
    """Return a whole number as high and low, ``0 <= low < 2**32``."""
    return whole >> 32, whole & 0xFFFFFFFF
