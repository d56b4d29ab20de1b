"""Streams of one workload: arrival times at any rate, from numbers that are drawn once.

All candidates and all loads see the same numbers (common random numbers), so a stream changes
smoothly with the rate and comparisons are paired.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainccinv, gammaln

from planner.problem.arrivals import (
    ArrivalLaw,
    BurstArrivals,
    PoissonArrivals,
    RenewalArrivals,
    ReplayArrivals,
    SessionArrivals,
    UserArrivals,
)
from planner.problem.lengths import LengthMarginal
from planner.simulation.lengths import draw_turns
from planner.simulation.marginals import quantile
from planner.simulation.prefixes import of_sessions, of_trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from planner.simulation.prefixes import Prefixes
    from planner.simulation.sessions import Turns

    Floats = NDArray[np.float64]

FEWEST_CYCLES: Final = 4
MOST_CYCLES: Final = 4096
"""Bursts laid out before they repeat."""
MOST_COPIES: Final = 1024
"""Copies of a trace laid over each other. So many are evened out nearly to a Poisson process; at
a higher rate the same ones go by faster."""
SPARSEST: Final = 0.01
"""Share of a trace below which its requests are drawn one by one, not marked in all of it."""
LEAST_SHARE: Final = 1e-12
"""Of a trace; at less, requests do not meet, and no clock holds the time between them."""
STEADIEST: Final = 1e-6
"""A coefficient of variation of gaps below which they are all alike."""
NODES: Final = 2048
"""Points at which a quantile function without a closed form is tabulated."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """Arrival times of one stream, ascending, in seconds; their lengths if the stream has them."""

    time_s: Floats
    lengths: tuple[NDArray[np.int32], NDArray[np.int32]] | None = None
    prefix: Prefixes | None = None
    """Names of the prompts' blocks, where they were asked for and the stream has them."""


@dataclass(frozen=True, slots=True)
class GapStream:
    """Gaps of a renewal process (a Poisson process among them), as exponential scores of mean 1."""

    law: PoissonArrivals | RenewalArrivals
    score: Floats

    def at(self, rate_rps: float, *, block_tokens: int | None = None) -> Arrived:
        """Return the arrivals at a rate; they have no prefixes."""
        gap = self.score
        if isinstance(self.law, RenewalArrivals):
            share = min(rate_rps / self.law.rate_rps, 1.0)
            cv = math.sqrt(1 + share * (self.law.cv**2 - 1))
            gap = renewal_gaps(self.law.family, cv, self.score)
        return Arrived(np.cumsum(gap) / rate_rps)


@dataclass(frozen=True, slots=True)
class BurstStream:
    """Poisson arrivals in operational time, and the clock that turns it into seconds."""

    score: Floats
    clock_s: Floats
    """Times at which the intensity changes, from 0; shape ``(k,)``."""
    operational: Floats
    """Integral of the relative intensity up to those times, in seconds; its mean slope is 1."""

    def at(self, rate_rps: float, *, block_tokens: int | None = None) -> Arrived:
        """Return the arrivals at a mean rate; bursts last as long at any rate. No prefixes."""
        when = np.cumsum(self.score) / rate_rps
        lap = np.floor(when / self.operational[-1])
        within = when - lap * self.operational[-1]
        seconds = np.interp(within, self.operational, self.clock_s)
        return Arrived(np.maximum.accumulate(lap * self.clock_s[-1] + seconds))


@dataclass(frozen=True, slots=True)
class ReplayStream:
    """Shifted copies of a trace, the last of them thinned."""

    law: ReplayArrivals
    n: int
    entropy: tuple[int, ...]

    def at(self, rate_rps: float, *, block_tokens: int | None = None) -> Arrived:
        """Return the first ``n`` arrivals at a rate; with names of the trace's blocks if asked.

        Raises:
            ValueError: The trace's blocks are not of ``block_tokens`` tokens.
        """
        law = self.law
        if law.squeeze:
            pace = law.trace_rps / rate_rps
            laps = math.ceil(self.n / law.time_s.size)
            time_s, index = self._copy(0, laps)
            return self._first([time_s * pace], [index], block_tokens)
        copies = rate_rps / law.trace_rps
        if copies < SPARSEST:
            return self._first(*self._few(copies), block_tokens)
        pace = min(MOST_COPIES / copies, 1.0)
        copies = min(copies, float(MOST_COPIES))
        window_s = 2 * self.n / (copies * law.trace_rps)
        times, indices = self._laid_over(copies, window_s)
        if sum(time_s.size for time_s in times) < self.n:
            times, indices = self._laid_over(copies, math.inf)
        return self._first([time_s * pace for time_s in times], indices, block_tokens)

    def _laid_over(
        self, copies: float, window_s: float
    ) -> tuple[list[Floats], list[NDArray[np.int64]]]:
        """Return times and rows of each copy up to the end of a window; the last is thinned."""
        whole = math.floor(copies)
        laps = math.ceil(self.n / (copies * self.law.trace_rps * self.law.span_s)) + 1
        times, indices = [], []
        for copy in range(whole + (copies > whole)):
            time_s, index = self._copy(copy, laps)
            kept = time_s <= window_s
            if copy == whole:
                mark = np.random.default_rng([*self.entropy, copy, 1]).random(time_s.size)
                kept &= mark < copies - whole
            times.append(time_s[kept])
            indices.append(index[kept])
        return times, indices

    def _few(self, share: float) -> tuple[list[Floats], list[NDArray[np.int64]]]:
        """Return times and rows of a small share of the trace: drawn by how many are left out."""
        size, span_s = self.law.time_s.size, self.law.span_s
        lap_s, index = self._lap(0)
        skips = np.random.default_rng([*self.entropy, 0, 1]).geometric(
            max(share, LEAST_SHARE), self.n
        )
        place = np.cumsum(skips) - 1
        lap, row = place // size, place % size
        return [lap_s[row] + lap * span_s], [index[row] + lap * size]

    def _copy(self, copy: int, laps: int) -> tuple[Floats, NDArray[np.int64]]:
        """Return times and rows of the trace, begun anywhere and gone through ``laps`` times.

        Rows count on from lap to lap: row modulo size is the trace's, row over size the lap.
        """
        lap_s, index = self._lap(copy)
        lap = np.arange(laps)[:, None]
        times = (lap_s + lap * self.law.span_s).ravel()
        return times, (index + lap * self.law.time_s.size).ravel()

    def _lap(self, copy: int) -> tuple[Floats, NDArray[np.int64]]:
        """Return times and rows of the trace, gone through once from anywhere on."""
        law = self.law
        shift = np.random.default_rng([*self.entropy, copy, 0]).random() * law.span_s
        start = int(np.searchsorted(law.time_s, shift))
        index = np.roll(np.arange(law.time_s.size), -start)
        time_s = np.where(index >= start, law.time_s[index], law.time_s[index] + law.span_s)
        return time_s - shift, index

    def _first(
        self,
        times: Sequence[Floats],
        indices: Sequence[NDArray[np.int64]],
        block_tokens: int | None,
    ) -> Arrived:
        time_s, index = np.concatenate(times), np.concatenate(indices)
        copy = np.repeat(np.arange(len(times)), [t.size for t in times])
        if len(times) > 1:
            order = np.argsort(time_s, kind="stable")
            time_s, index, copy = time_s[order], index[order], copy[order]
        time_s, index, copy = time_s[: self.n], index[: self.n], copy[: self.n]
        size = self.law.time_s.size
        row = index % size
        if self.law.lengths is None:
            return Arrived(time_s)
        names, blocks = self.law.prefix, None
        if block_tokens is not None and names is not None:
            if names.block_tokens != block_tokens:
                raise ValueError(f"the trace names blocks of {names.block_tokens} tokens")
            blocks = of_trace(names, row, index // size * len(times) + copy)
        prompt, output = self.law.lengths
        return Arrived(time_s, (prompt[row], output[row]), blocks)


@dataclass(frozen=True, slots=True)
class SessionStream:
    """Turns of sessions; the sessions begin as a Poisson process."""

    law: SessionArrivals
    n: int
    score: Floats
    """Of the beginnings of sessions."""
    turns: Turns
    offset_s: Floats
    """From the beginning of its session to each turn."""

    def at(self, rate_rps: float, *, block_tokens: int | None = None) -> Arrived:
        """Return the first ``n`` arrivals at a rate of turns, once sessions are under way.

        With names of prompts' blocks of ``block_tokens`` tokens, if that is asked for.
        """
        per_session = self.turns.session.size / self.score.size
        begin_s = np.cumsum(self.score) / (rate_rps / per_session)
        time_s = begin_s[self.turns.session] + self.offset_s
        under_way = min(float(np.quantile(self.offset_s, 0.99)), float(begin_s[-1]) / 2)
        order = np.argsort(time_s, kind="stable")
        inside = (time_s[order] >= under_way) & (time_s[order] <= begin_s[-1])
        order = order[inside][: self.n]
        blocks = None
        if block_tokens is not None:
            turns, rows = self.turns, np.sort(order)
            _, session = np.unique(turns.session[rows], return_inverse=True)
            system = self.law.lengths.system_tokens
            names = of_sessions(
                session, turns.prompt[rows], turns.whole[rows], system, block_tokens
            )
            place = np.empty(turns.session.size, np.int64)
            place[rows] = np.arange(rows.size)
            blocks = names.of(place[order])
        lengths = self.turns.prompt[order], self.turns.output[order]
        return Arrived(time_s[order] - under_way, lengths, blocks)


@dataclass(frozen=True, slots=True)
class UserStream:
    """Users who wait for their answers: when they ask is known only with the pool that answers."""

    law: UserArrivals
    score: Floats
    """Of the times to think after each request."""

    def at(self, rate_rps: float, *, block_tokens: int | None = None) -> Arrived:
        """Refuse: there are no arrivals without a pool.

        Raises:
            ValueError: Always.
        """
        raise ValueError("users wait for their answers; ask planner.simulation.users")

    @property
    def think_s(self) -> Floats:
        """Times to think, one after each request."""
        return self.law.think_s * renewal_gaps("gamma", self.law.think_cv, self.score)


Stream = GapStream | BurstStream | ReplayStream | SessionStream | UserStream


def make_stream(law: ArrivalLaw, n: int, entropy: tuple[int, ...]) -> Stream:
    """Draw what a stream of ``n`` requests needs; same entropy, same stream.

    Gaps, and the lengths of bursts, are stratified: their distribution comes out as exactly as
    their number allows.
    """
    if isinstance(law, ReplayArrivals):
        return ReplayStream(law, n, entropy)
    rng = np.random.default_rng([*entropy, 0])
    if isinstance(law, SessionArrivals):
        return _sessions(law, n, rng)
    score = exponential_scores(n, rng)
    if isinstance(law, UserArrivals):
        return UserStream(law, score)
    if not isinstance(law, BurstArrivals):
        return GapStream(law, score)
    return BurstStream(score, *_clock(law, n, rng))


def _sessions(law: SessionArrivals, n: int, rng: np.random.Generator) -> SessionStream:
    """Draw as many turns as are wanted, and those of the sessions that are under way before."""
    lasting_s = law.between_s * law.lengths.mean_turns
    wanted = n + min(round(10 * lasting_s * law.rate_rps), 4 * n)
    turns = draw_turns(law.lengths, wanted, rng)
    gap = LengthMarginal(law.between_s, law.between_cv)
    total = turns.session.size
    gap_s = quantile(gap, (np.arange(total) + 0.5) / total)[rng.permutation(total)]
    gap_s[turns.first] = 0.0
    since = np.cumsum(gap_s)
    score = exponential_scores(int(turns.session[-1]) + 1, rng)
    return SessionStream(law, n, score, turns, since - since[turns.first])


def _clock(law: BurstArrivals, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the clock of bursts, begun anywhere: times, and the integral of the intensity."""
    cycle_s = law.burst_s + law.quiet_s
    cycles = int(np.clip(n / law.rate_rps / cycle_s, FEWEST_CYCLES, MOST_CYCLES))
    span_s = cycles * cycle_s
    clocks = []
    for _ in range(law.sources):
        spell_s = np.empty(2 * cycles)
        spell_s[0::2] = exponential_scores(cycles, rng) * law.quiet_s
        spell_s[1::2] = exponential_scores(cycles, rng) * law.burst_s
        level = np.tile([law.quiet_level, law.burst_level], cycles)
        clock = np.concatenate([[0.0], np.cumsum(spell_s)])
        clocks.append(_turned(clock, np.append(0.0, np.cumsum(spell_s * level)), rng.random()))
    times = np.unique(np.concatenate([clock for clock, _ in clocks]).clip(0.0, span_s))
    together = np.mean([np.interp(times, *one) for one in clocks], axis=0)
    return times, np.asarray(together * (times[-1] / together[-1]))


def _turned(clock: Floats, operational: Floats, start: float) -> tuple[Floats, Floats]:
    """Begin a clock at a share of its span; what lay before comes at its end."""
    shift_s = start * clock[-1]
    shift = float(np.interp(shift_s, clock, operational))
    later = int(np.searchsorted(clock, shift_s, side="right"))
    turned = [
        np.concatenate([[0.0], knots[later:] - at, knots[1:later] - at + knots[-1], [knots[-1]]])
        for knots, at in ((clock, shift_s), (operational, shift))
    ]
    return turned[0], turned[1]


def exponential_scores(n: int, rng: np.random.Generator) -> Floats:
    """Return exponential quantiles of ``n`` equal slices in random order; their mean is 1."""
    score = -np.log((np.arange(n) + 0.5) / n)[rng.permutation(n)]
    return np.asarray(score / score.mean())


def renewal_gaps(family: str, cv: float, score: Floats) -> Floats:
    """Turn exponential scores into gaps of mean 1 with a coefficient of variation.

    Both have the same probability of being exceeded: the longest score becomes the longest gap.
    """
    if cv < STEADIEST:
        return np.ones_like(score)
    if family == "weibull":
        gap = score ** (1 / weibull_shape(cv))
    else:
        shape = 1 / (cv * cv)
        node = np.geomspace(score.min(), score.max(), NODES)
        gap = np.interp(score, node, gammainccinv(shape, np.exp(-node)))
    return np.asarray(gap / gap.mean())


def weibull_shape(cv: float) -> float:
    """Return the shape of the Weibull distribution with a coefficient of variation.

    From ``STEADIEST`` on; there the shape is about pi / (sqrt(6) cv).
    """

    def excess(log_shape: float) -> float:
        inverse = math.exp(-log_shape)
        spread = float(gammaln(1 + 2 * inverse) - 2 * gammaln(1 + inverse))
        return spread - math.log1p(cv * cv)

    return math.exp(brentq(excess, math.log(0.05), math.log(2 / STEADIEST)))
