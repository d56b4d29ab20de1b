"""A request trace in memory: when requests came, how long they were, what became of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TIED: Final = 0.05
"""Share of equal neighbouring stamps above which a clock is taken to tick."""


@dataclass(frozen=True, slots=True)
class PrefixBlocks:
    """Names of the leading blocks of each prompt; equal names are equal contents up to there."""

    start: NDArray[np.int64]
    """Names of request i are ``name[start[i]:start[i + 1]]``. Shape ``(n + 1,)``."""
    name: NDArray[np.int32]
    """Dense from 0."""
    block_tokens: int


@dataclass(frozen=True, slots=True)
class RequestTrace:
    """Requests in order of arrival; arrays of shape ``(n,)``."""

    time_s: NDArray[np.float64] | None
    """From the first arrival; ``None`` where the file tells no times."""
    prompt: NDArray[np.int32]
    output: NDArray[np.int32]
    """At least 1."""
    failed: NDArray[np.bool_]
    """Failed, cancelled or rejected: it was asked for, so it stays in the demand. Its output, if
    unknown, is that of a completed request with about the same prompt."""
    client: NDArray[np.int32] | None
    """Who asked, as numbers from 0."""
    session: NDArray[np.int32] | None
    """To which conversation it belongs, as numbers from 0; -1 for none."""
    prefix: PrefixBlocks | None
    tick_s: float
    """Step of the clock that stamped the arrivals; 0 where it is finer than their gaps."""
    start: str | None
    """The first arrival, as the file writes it."""
    notes: tuple[str, ...]
    """What was assumed in reading."""

    @property
    def span_s(self) -> float:
        """Time that the trace covers: to the last arrival and one mean gap (or tick) beyond."""
        if self.time_s is None or self.time_s.size < 2:
            return 0.0
        last = float(self.time_s[-1])
        return last + max(self.tick_s, last / (self.time_s.size - 1))

    def spread_s(self) -> NDArray[np.float64]:
        """Return the arrivals with those of one tick spread over it; always the same way.

        Raises:
            ValueError: The trace has no times.
        """
        if self.time_s is None:
            raise ValueError("the trace has no arrival times")
        return spread_ticks(self.time_s, self.tick_s)


def find_tick(time_s: NDArray[np.float64]) -> float:
    """Return the step of the clock that stamped ascending times, in seconds.

    Where many neighbours are stamped alike and the rest lie steps apart, the step is the most
    common distance of unequal stamps. 0 if few are alike: the clock is then fine enough.
    """
    gap = np.diff(time_s)
    if gap.size == 0 or np.mean(gap == 0) < TIED:
        return 0.0
    apart = np.round(gap[gap > 0], 6)
    if apart.size == 0:
        return 0.0
    values, counts = np.unique(apart, return_counts=True)
    common = float(values[np.argmax(counts)])
    near = np.abs(apart / common - np.round(apart / common)) < 0.05
    return common if near.mean() > 0.5 else float(np.median(apart))


def spread_ticks(time_s: NDArray[np.float64], tick_s: float, seed: int = 0) -> NDArray[np.float64]:
    """Spread arrivals evenly at random over the tick (of at most ``tick_s``) that stamped them."""
    if tick_s <= 0:
        return time_s
    stamps, position = np.unique(time_s, return_inverse=True)
    room = np.minimum(np.diff(stamps, append=stamps[-1] + tick_s), tick_s)
    moved = time_s + room[position] * np.random.default_rng(seed).random(time_s.size)
    return np.sort(moved)


def impute_lengths(
    prompt: NDArray[np.float64], output: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fill unknown (NaN) lengths from requests that have both, of about the same prompt.

    An unknown prompt takes that of a request drawn at random, always the same one.

    Raises:
        ValueError: No request has both lengths.
    """
    whole = np.flatnonzero(~np.isnan(prompt) & ~np.isnan(output))
    if whole.size == prompt.size:
        return prompt, output
    if whole.size == 0:
        raise ValueError("no request has both lengths")
    rng = np.random.default_rng(0)
    prompt, output = prompt.copy(), output.copy()
    lacking = np.flatnonzero(np.isnan(prompt))
    prompt[lacking] = prompt[rng.choice(whole, lacking.size)]
    by_prompt = whole[np.argsort(prompt[whole], kind="stable")]
    lacking = np.flatnonzero(np.isnan(output))
    rank = np.searchsorted(prompt[by_prompt], prompt[lacking])
    near = rank + rng.integers(-8, 9, lacking.size)
    output[lacking] = output[by_prompt[np.clip(near, 0, by_prompt.size - 1)]]
    return prompt, output
