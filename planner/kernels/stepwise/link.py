"""The link that carries KV from prefill to decode replicas, shared first come or fairly."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from planner.kernels.stepwise.options import LinkOptions


@dataclass(slots=True, eq=False)
class Transfer:
    """One request's KV on its way.

    Attributes:
        rank: Whose.
        tokens: Tokens of KV.
        start: Tick at which its first byte moves.
        end: Tick at which it is complete, latency included; -1 until known.
    """

    rank: int
    tokens: int
    start: int = -1
    end: int = -1


class Link(Protocol):
    """What both kinds of link offer."""

    def begin(self, transfer: Transfer, now: int) -> None:
        """Accept a transfer."""

    def next_event(self) -> int | None:
        """Return the tick at which :meth:`advance` must be called next; ``None`` if idle."""

    def advance(self, now: int) -> list[Transfer]:
        """Move to ``now``; return the transfers that are complete, in the order accepted."""


class FifoLink:
    """One transfer at a time on each channel, in the order accepted.

    The latency of a transfer does not keep the next one from starting.
    """

    def __init__(self, options: LinkOptions) -> None:
        self._options = options
        self._free_at = [0] * options.channels
        self._under_way: list[Transfer] = []

    def begin(self, transfer: Transfer, now: int) -> None:
        """Accept a transfer; it starts when those before it are through."""
        transfer.start = max(now, heappop(self._free_at))
        sent = transfer.start + transfer.tokens * self._options.ticks_per_token
        heappush(self._free_at, sent)
        transfer.end = sent + self._options.latency
        self._under_way.append(transfer)

    def next_event(self) -> int | None:
        """Return when the first transfer is complete."""
        return min((transfer.end for transfer in self._under_way), default=None)

    def advance(self, now: int) -> list[Transfer]:
        """Return the transfers that are complete by ``now``."""
        done = [transfer for transfer in self._under_way if transfer.end <= now]
        self._under_way = [transfer for transfer in self._under_way if transfer.end > now]
        return done


class FairLink:
    """Processor sharing: m transfers move at 1/m of the link's rate each; on k channels at k/m.

    None moves faster than a channel.

    Work left is an exact fraction; a transfer leaves at the first whole tick at or after the
    end of its work, and the shares change at whole ticks only.
    """

    def __init__(self, options: LinkOptions) -> None:
        self._options = options
        self._moving: list[tuple[Transfer, Fraction]] = []  # with the ticks of work left
        self._landing: list[Transfer] = []  # all bytes sent, latency left
        self._updated = 0

    def begin(self, transfer: Transfer, now: int) -> None:
        """Accept a transfer; it starts at once."""
        self._drain(now)
        transfer.start = now
        work = transfer.tokens * self._options.ticks_per_token
        self._moving.append((transfer, Fraction(work)))

    def next_event(self) -> int | None:
        """Return when the next transfer has sent its last byte, or is complete."""
        ticks = [transfer.end for transfer in self._landing]
        if self._moving:
            least = max(Fraction(0), min(left for _, left in self._moving))
            ticks.append(self._updated + -(-least / self._pace() // 1))
        return min(ticks) if ticks else None

    def advance(self, now: int) -> list[Transfer]:
        """Move to ``now``; return the transfers that are complete."""
        self._drain(now)
        done = [transfer for transfer in self._landing if transfer.end <= now]
        self._landing = [transfer for transfer in self._landing if transfer.end > now]
        return done

    def _pace(self) -> Fraction:
        """Return the share of a channel's rate at which each transfer moves."""
        return min(Fraction(1), Fraction(self._options.channels, len(self._moving)))

    def _drain(self, now: int) -> None:
        """Move every transfer on to ``now``, and take out those whose bytes are sent."""
        if self._moving and now > self._updated:
            share = (now - self._updated) * self._pace()
            self._moving = [(transfer, left - share) for transfer, left in self._moving]
        self._updated = now
        for transfer, left in self._moving:
            if left <= 0:
                transfer.end = now + self._options.latency
                self._landing.append(transfer)
        self._moving = [(transfer, left) for transfer, left in self._moving if left > 0]


def make_link(options: LinkOptions) -> Link:
    """Return an idle link of the chosen kind."""
    return FairLink(options) if options.sharing == "fair" else FifoLink(options)
