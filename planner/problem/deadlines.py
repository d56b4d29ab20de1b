"""Deadlines of workloads as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from planner.scenario.slo import Slo

NEVER_PS: Final = 2**62
"""A deadline that does not exist, 53 days: no request stays longer in a simulation."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Deadlines by workload, in ps, and its model's context; arrays of shape ``(workloads,)``."""

    ttft_ps: NDArray[np.int64]
    tpot_ps: NDArray[np.int64]
    context_tokens: NDArray[np.int64]
    """A request longer than this, prompt and output, is refused: a miss."""
    e2e_ps: NDArray[np.int64] | None = None
    """None: no workload has such a deadline."""
    by_prompt: tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...] | None = None
    """Of each workload, the longest prompts of its buckets, ascending, and their TTFT deadlines
    in ps with that of longer prompts at the end; None: no workload has buckets."""
    max_itl_ps: NDArray[np.int64] | None = None
    """None: no workload has such a deadline."""

    def ttft_limit_ps(
        self, workload: NDArray[np.int32], prompt: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        """Return the TTFT deadline of each request; shape ``(n,)``."""
        limit = self.ttft_ps[workload]
        for w, (edge, ttft) in enumerate(self.by_prompt or ()):
            if edge.size:
                mine = workload == w
                limit[mine] = ttft[np.searchsorted(edge, prompt[mine])]
        return limit

    def decode_limit_ps(
        self, workload: NDArray[np.int32], output: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        """Return the time from first token to last that TPOT allows each request; shape ``(n,)``.

        At most ``NEVER_PS``, however loose the deadline and however long the output.
        """
        steps = output.astype(np.int64) - 1
        tpot_ps = self.tpot_ps[workload]
        fits = tpot_ps <= NEVER_PS // np.maximum(steps, 1)
        return np.where(fits, np.where(fits, tpot_ps, 0) * steps, NEVER_PS)

    def met(
        self,
        workload: NDArray[np.int32],
        lengths: tuple[NDArray[np.int32], NDArray[np.int32]],
        ttft_ps: NDArray[Any],
        decode_ps: NDArray[Any],
        gap_ps: NDArray[Any] | None = None,
    ) -> NDArray[np.bool_]:
        """Tell which requests meet all their deadlines; all arrays of shape ``(n,)``.

        Args:
            workload: Index of the workload.
            lengths: Prompt and output tokens.
            ttft_ps: Arrival to first token.
            decode_ps: First token to last.
            gap_ps: Longest time between two tokens; needed where ``max_itl_ps`` is there.
        """
        prompt, output = lengths
        good = prompt.astype(np.int64) + output <= self.context_tokens[workload]
        good &= ttft_ps <= self.ttft_limit_ps(workload, prompt)
        good &= decode_ps <= self.decode_limit_ps(workload, output)
        if self.e2e_ps is not None:
            good &= ttft_ps + decode_ps <= self.e2e_ps[workload]
        if self.max_itl_ps is not None:
            assert gap_ps is not None  # whoever has such a deadline asks the kernel for gaps
            good &= gap_ps <= self.max_itl_ps[workload]
        return np.asarray(good)


def deadlines_of(slos: Sequence[Slo], contexts: Sequence[int]) -> Deadlines:
    """Write down the deadlines of workloads, in the order of the problem."""
    ends = [NEVER_PS if slo.e2e is None else _ps(slo.e2e) for slo in slos]
    gaps = [NEVER_PS if slo.max_itl is None else _ps(slo.max_itl) for slo in slos]
    buckets = tuple(
        (
            np.array([int(bucket.up_to) for bucket in slo.ttft_by_prompt], np.int64),
            np.array([_ps(s) for s in (*(b.ttft for b in slo.ttft_by_prompt), slo.ttft)], np.int64),
        )
        for slo in slos
    )
    return Deadlines(
        ttft_ps=np.array([_ps(slo.ttft) for slo in slos], np.int64),
        tpot_ps=np.array([_ps(slo.tpot) for slo in slos], np.int64),
        context_tokens=np.array(contexts, np.int64),
        e2e_ps=np.array(ends, np.int64) if any(slo.e2e is not None for slo in slos) else None,
        by_prompt=buckets if any(slo.ttft_by_prompt for slo in slos) else None,
        max_itl_ps=(
            np.array(gaps, np.int64) if any(slo.max_itl is not None for slo in slos) else None
        ),
    )


def _ps(seconds: float) -> int:
    """Return a deadline in whole ps; one of more than 53 days is as good as none."""
    ps = seconds * 1e12
    return NEVER_PS if ps >= NEVER_PS else round(ps)
