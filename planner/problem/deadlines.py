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
"""A deadline that does not exist."""


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

    def met(
        self,
        workload: NDArray[np.int32],
        lengths: tuple[NDArray[np.int32], NDArray[np.int32]],
        ttft_ps: NDArray[Any],
        decode_ps: NDArray[Any],
    ) -> NDArray[np.bool_]:
        """Tell which requests meet all their deadlines; all arrays of shape ``(n,)``.

        Args:
            workload: Index of the workload.
            lengths: Prompt and output tokens.
            ttft_ps: Arrival to first token.
            decode_ps: First token to last.
        """
        prompt, output = lengths
        good = prompt.astype(np.int64) + output <= self.context_tokens[workload]
        good &= ttft_ps <= self.ttft_limit_ps(workload, prompt)
        good &= decode_ps <= self.tpot_ps[workload] * (output.astype(np.int64) - 1)
        if self.e2e_ps is not None:
            good &= ttft_ps + decode_ps <= self.e2e_ps[workload]
        return np.asarray(good)


def deadlines_of(slos: Sequence[Slo], contexts: Sequence[int]) -> Deadlines:
    """Write down the deadlines of workloads, in the order of the problem."""
    ends = [NEVER_PS if slo.e2e is None else round(slo.e2e * 1e12) for slo in slos]
    buckets = tuple(
        (
            np.array([int(bucket.up_to) for bucket in slo.ttft_by_prompt], np.int64),
            np.array(
                [round(s * 1e12) for s in (*(b.ttft for b in slo.ttft_by_prompt), slo.ttft)],
                np.int64,
            ),
        )
        for slo in slos
    )
    return Deadlines(
        ttft_ps=np.array([round(slo.ttft * 1e12) for slo in slos], np.int64),
        tpot_ps=np.array([round(slo.tpot * 1e12) for slo in slos], np.int64),
        context_tokens=np.array(contexts, np.int64),
        e2e_ps=np.array(ends, np.int64) if any(slo.e2e is not None for slo in slos) else None,
        by_prompt=buckets if any(slo.ttft_by_prompt for slo in slos) else None,
    )
