"""Random numbers as data: one draw of requests, common to every candidate.

All candidates see the same gaps, classes and lengths (common random numbers), so that their
differences are paired and no candidate is judged on an easier draw.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planner.problem.arrivals import PoissonArrivals, UserArrivals
from planner.problem.prefixes import ConstantHits, HistoryPrefixes, SharedPrefixes, TracePrefixes
from planner.simulation.arrivals import UserStream, make_stream
from planner.simulation.content_key import content_key
from planner.simulation.lengths import draw_lengths
from planner.simulation.prefixes import choose_texts, constant_hits, merged, of_shared

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.problem.arrivals import ArrivalLaw
    from planner.problem.lengths import LengthLaw
    from planner.problem.prefixes import PrefixLaw
    from planner.simulation.arrivals import Stream
    from planner.simulation.prefixes import Prefixes

_GAPS, _CLASSES, _LENGTHS, _STREAMS, _TEXTS = 0, 1, 2, 3, 4

HORIZON_S: Final = 4.0e6
"""Longest simulated span, in seconds (46 days); integer picoseconds hold 106 days."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests as a pool sees them, in order of arrival; arrays of shape ``(n,)``."""

    arrival_ps: NDArray[np.int64]
    workload: NDArray[np.int32]
    prompt: NDArray[np.int32]
    output: NDArray[np.int32]
    prefix: Prefixes | None = None
    """Names of the prompts' blocks, where they were asked for and a workload has them."""
    cached: NDArray[np.int32] | None = None
    """Prompt tokens that are found by assumption, where it was asked for and one is made."""

    def most_found(self) -> NDArray[np.int64]:
        """Return the most tokens of each prompt that a cache could ever find."""
        most = np.zeros(self.prompt.size, np.int64)
        if self.prefix is not None:
            most = self.prefix.count * np.int64(self.prefix.block_tokens)
        if self.cached is not None:
            most = np.maximum(most, self.cached)
        return np.asarray(np.minimum(most, self.prompt - 1))


@dataclass(frozen=True, slots=True)
class Draw:
    """Requests without a clock: ``gap`` has mean 1 and is divided by a rate to give time.

    Arrays of shape ``(n,)``: unit-mean gaps, index of the workload, prompt and output tokens.
    Where a workload does not arrive as a Poisson process, the gaps hold for no workload: each
    has its own stream, and the streams are merged at the rate that is asked for.
    """

    gap: NDArray[np.float64]
    workload: NDArray[np.int32]
    prompt: NDArray[np.int32]
    output: NDArray[np.int32]
    streams: tuple[tuple[int, float, Stream], ...] = ()
    """Workload, its share of the rate, and its stream; none where all arrive as one Poisson
    process."""
    prefixes: tuple[PrefixLaw | None, ...] = ()
    """Of each workload; empty if none has any."""
    text: NDArray[np.int32] | None = None
    """Which of several texts each prompt begins with, -1 for none; where there are any."""

    @property
    def name(self) -> bytes | None:
        """None: it is not told what they were drawn from, as :class:`NamedDraw` does."""
        return None

    @property
    def size(self) -> int:
        """How many there are."""
        return self.gap.size

    def drawn(self) -> Draw:
        """Return the requests, which are these."""
        return self

    @property
    def closed(self) -> bool:
        """Whether some requests wait for the answer to the one before."""
        return any(isinstance(stream, UserStream) for _, _, stream in self.streams)

    def at(self, rate_rps: float, *, block_tokens: int | None = None) -> Traffic:
        """Return the requests at a total rate in requests per second.

        A draw of streams may give fewer requests than it has: it ends where its first stream
        does.

        Args:
            rate_rps: All workloads together.
            block_tokens: Say what of prompts can be found in blocks of this size, for an engine
                that keeps prefixes.

        Raises:
            ValueError: A trace names blocks of another size, or the draw is closed: users wait
                for answers that only a pool gives.
        """
        if self.streams:
            return self._merged(rate_rps, block_tokens)
        traffic = Traffic(self.arrival_ps(rate_rps), self.workload, self.prompt, self.output)
        return self._with_prefixes(traffic, self.text, [], block_tokens)

    def _with_prefixes(
        self,
        traffic: Traffic,
        text: NDArray[np.int32] | None,
        named: list[tuple[NDArray[np.int64], Prefixes]],
        block_tokens: int | None,
    ) -> Traffic:
        """Say what of prompts can be found: what streams named, shared texts, what is assumed."""
        if block_tokens is None or not any(self.prefixes):
            return traffic
        prompt, cached = traffic.prompt, None
        for w, law in enumerate(self.prefixes):
            mine = np.flatnonzero(traffic.workload == w)
            if isinstance(law, SharedPrefixes) and text is not None:
                named.append((mine, of_shared(law, text[mine], prompt[mine], block_tokens)))
            elif isinstance(law, ConstantHits) and law.rate > 0:
                cached = np.zeros(prompt.size, np.int32) if cached is None else cached
                cached[mine] = constant_hits(law.rate, prompt[mine], block_tokens)
        return replace(traffic, prefix=merged(named, prompt.size), cached=cached)

    def arrival_ps(self, rate_rps: float) -> NDArray[np.int64]:
        """Return arrival times in ps of a draw without streams, at a total rate.

        Gaps are cut where the span would pass ``HORIZON_S``: only at rates so low that
        requests do not meet, and towards denser traffic, so never optimistic.

        Raises:
            ValueError: The draw has streams; :meth:`at` merges them.
        """
        if self.streams:
            raise ValueError("a draw of streams has no gaps of its own; ask at() for its requests")
        gap_s = np.minimum(self.gap / rate_rps, HORIZON_S / self.gap.size)
        return np.cumsum(np.rint(gap_s * 1e12).astype(np.int64))

    def _merged(self, rate_rps: float, block_tokens: int | None) -> Traffic:
        parts, blocks = [], []
        for w, share, stream in self.streams:
            own = self._names_itself(w)
            arrived = stream.at(rate_rps * share, block_tokens=block_tokens if own else None)
            if arrived.time_s.size == 0:
                continue
            mine = np.flatnonzero(self.workload == w)[: arrived.time_s.size]
            prompt, output = arrived.lengths or (self.prompt[mine], self.output[mine])
            text = np.full(mine.size, -1, np.int32) if self.text is None else self.text[mine]
            parts.append((arrived.time_s, np.full(mine.size, w, np.int32), prompt, output, text))
            blocks.append(arrived.prefix)
        time_s, workload, prompt, output, text = (
            np.concatenate([part[column] for part in parts]) for column in range(5)
        )
        if len(parts) > 1:
            order = np.argsort(time_s, kind="stable")
            together = np.searchsorted(time_s[order], min(part[0][-1] for part in parts), "right")
            order = order[: int(together)]
            time_s, workload, prompt, output, text = (
                a[order] for a in (time_s, workload, prompt, output, text)
            )
        named = []
        for part, prefix in zip(parts, blocks, strict=True):
            if prefix is not None:  # times of a stream ascend: its first requests are those left
                rows = np.flatnonzero(workload == part[1][0])
                named.append((rows, prefix.of(np.arange(rows.size))))
        if time_s[-1] > HORIZON_S:
            time_s = time_s * (HORIZON_S / time_s[-1])
        arrival_ps = np.rint(time_s * 1e12).astype(np.int64)
        traffic = Traffic(arrival_ps, workload, prompt, output)
        return self._with_prefixes(traffic, text, named, block_tokens)

    def _names_itself(self, w: int) -> bool:
        """Tell whether a workload's stream knows what its prompts begin with."""
        law = self.prefixes[w] if self.prefixes else None
        return isinstance(law, TracePrefixes | HistoryPrefixes)


@dataclass(frozen=True, slots=True)
class NamedDraw:
    """Requests that have a name before they are drawn: whoever knows their fate need not draw."""

    draws: Draws
    rates_rps: tuple[float, ...]
    size: int
    replication: int
    stream: int

    @property
    def name(self) -> bytes:
        """By all that the requests are made from; equal names are equal requests."""
        return self.draws.name_of(self.rates_rps, self.size, self.replication, self.stream)

    @property
    def closed(self) -> bool:
        """Whether some requests wait for the answer to the one before."""
        present = zip(self.draws.arrivals, self.rates_rps, strict=True)
        return any(isinstance(law, UserArrivals) and rate > 0 for law, rate in present)

    def drawn(self) -> Draw:
        """Return the requests."""
        return self.draws.get(self.rates_rps, self.size, self.replication, self.stream)


MOST_KEPT: Final = 8_000_000
"""Requests of kept draws, 20 bytes each; the oldest draw goes first."""


RAREST: Final = 1e-3
"""Least share of a workload in a draw. One that is rarer beside others in a pool would come so
seldom that no run tells whether its promise holds; it is drawn this often, in place of others."""


def _that_tell(arrivals: tuple[ArrivalLaw, ...]) -> tuple[ArrivalLaw, ...]:
    """Return arrival laws without what no draw depends on: the rate of a Poisson process."""
    return tuple(PoissonArrivals(1.0) if isinstance(a, PoissonArrivals) else a for a in arrivals)


def _mix_of(rates_rps: tuple[float, ...]) -> tuple[float, ...]:
    """Return the proportions of a load, none of its workloads rarer than ``RAREST``."""
    total = sum(rates_rps)
    drawn = [max(rate, RAREST * total) if rate > 0 else 0.0 for rate in rates_rps]
    return tuple(round(rate / sum(drawn), 12) for rate in drawn)


class Draws:
    """Draws by mix, size and replication; kept as long as there is room.

    Args:
        laws: Length law of each workload, in the order of the problem.
        seed: Same seed, same draws.
        arrivals: Arrival law of each workload; Poisson where left out.
        prefixes: What each workload's prompts begin with; nothing known where left out.
    """

    def __init__(
        self,
        laws: tuple[LengthLaw, ...],
        seed: int,
        arrivals: tuple[ArrivalLaw, ...] | None = None,
        prefixes: tuple[PrefixLaw | None, ...] | None = None,
    ) -> None:
        self.laws = laws
        self.seed = seed
        self.arrivals = arrivals or tuple(PoissonArrivals(1.0) for _ in laws)
        self.prefixes = prefixes or ()
        self._kept: dict[tuple[tuple[float, ...], int, int, int], Draw] = {}
        self._lock = Lock()
        self._recipe: bytes | None = None

    def __getstate__(self) -> tuple[object, ...]:
        """Say what draws are made from; those that were made stay behind."""
        return self.laws, self.seed, self.arrivals, self.prefixes

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Make the same draws elsewhere."""
        laws, seed, arrivals, prefixes = state
        self.__init__(laws, seed, arrivals, prefixes)  # type: ignore[misc]

    @property
    def recipe(self) -> bytes:
        """The name of what draws are made from: lengths, arrivals and prefixes."""
        if self._recipe is None:  # traces are long: once
            self._recipe = content_key(self.laws, _that_tell(self.arrivals), self.prefixes)
        return self._recipe

    def named(
        self, rates_rps: tuple[float, ...], n: int, replication: int, stream: int
    ) -> NamedDraw:
        """Return the draw of one replication, not drawn yet; arguments as :meth:`get`."""
        return NamedDraw(self, rates_rps, n, replication, stream)

    def name_of(self, rates_rps: tuple[float, ...], n: int, replication: int, stream: int) -> bytes:
        """Return the name of a draw; arguments as :meth:`get`."""
        return content_key(self.recipe, _mix_of(rates_rps), n, self.seed, replication, stream)

    def get(self, rates_rps: tuple[float, ...], n: int, replication: int, stream: int) -> Draw:
        """Return the draw of one replication.

        Args:
            rates_rps: Load of each workload; only their proportions matter.
            n: Requests.
            replication: 0, 1, ...: independent of each other.
            stream: Purpose; draws of different streams are independent (searching and
                verifying must not share luck).
        """
        mix = _mix_of(rates_rps)
        key = (mix, n, replication, stream)
        with self._lock:
            if key not in self._kept:
                while self._kept and sum(k[1] for k in self._kept) + n > MOST_KEPT:
                    del self._kept[next(iter(self._kept))]
                self._kept[key] = self._make(mix, n, (self.seed, stream, replication))
            return self._kept[key]

    def fresh(
        self, rates_rps: tuple[float, ...], n: int, replication: int, stream: int, *, chunk: int
    ) -> Draw:
        """Return one chunk of a replication without keeping it; arguments as :meth:`get`.

        Chunks are independent of each other, and each is stratified in itself.
        """
        return self._make(_mix_of(rates_rps), n, (self.seed, stream, replication, chunk))

    def _make(self, mix: tuple[float, ...], n: int, entropy: tuple[int, ...]) -> Draw:
        u = (np.arange(n) + 0.5) / n
        gap = -np.log(u)[np.random.default_rng([*entropy, _GAPS]).permutation(n)]
        gap /= gap.mean()
        order = np.random.default_rng([*entropy, _CLASSES]).permutation(n)
        last = max(w for w, share in enumerate(mix) if share > 0)
        index = np.searchsorted(np.cumsum(mix), u, side="right")[order]
        workload: NDArray[np.int32] = np.minimum(index, last).astype(np.int32)
        prompt, output = np.ones(n, np.int32), np.ones(n, np.int32)
        for w, law in enumerate(self.laws):
            mine = np.flatnonzero(workload == w)
            if mine.size:
                rng = np.random.default_rng([*entropy, _LENGTHS, w])
                prompt[mine], output[mine] = draw_lengths(law, mine.size, rng)
        for array in (gap, workload, prompt, output):
            array.flags.writeable = False
        streams = self._streams(mix, workload, entropy)
        text = self._texts(workload, entropy)
        return Draw(gap, workload, prompt, output, streams, self.prefixes, text)

    def _texts(
        self, workload: NDArray[np.int32], entropy: tuple[int, ...]
    ) -> NDArray[np.int32] | None:
        """Choose the texts that prompts begin with, where there are any to choose from."""
        if not any(isinstance(law, SharedPrefixes) for law in self.prefixes):
            return None
        text = np.full(workload.size, -1, np.int32)
        for w, law in enumerate(self.prefixes):
            if isinstance(law, SharedPrefixes):
                mine = np.flatnonzero(workload == w)
                rng = np.random.default_rng([*entropy, _TEXTS, w])
                text[mine] = choose_texts(law, mine.size, rng)
        return text

    def _streams(
        self, mix: tuple[float, ...], workload: NDArray[np.int32], entropy: tuple[int, ...]
    ) -> tuple[tuple[int, float, Stream], ...]:
        """Return a stream for each workload, unless all are Poisson: their sum is one, too."""
        counts = np.bincount(workload, minlength=len(mix))
        present = [w for w in range(len(mix)) if counts[w]]
        if all(isinstance(self.arrivals[w], PoissonArrivals) for w in present):
            return ()
        return tuple(
            (w, mix[w], make_stream(self.arrivals[w], int(counts[w]), (*entropy, _STREAMS, w)))
            for w in present
        )
