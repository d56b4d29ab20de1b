"""Charging misses to any parts of a request's time: Shapley shares of the counterfactual.

The parts that company adds are players first: removing a set of them brings a late request within
its deadlines or does not. Where even without all company it is late, its own parts are players.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    Times = NDArray[Any]
    Floats = NDArray[np.float64]

AT_ONCE: Final = 4_096
"""Late requests that are charged at once: a table of subsets × requests is made."""
MOST_PLAYERS: Final = 12


@dataclass(frozen=True, slots=True)
class Split:
    """The time of requests by part, any one unit; arrays of shape ``(n,)``.

    A part may stand before and after the first token. Parts before sum to TTFT, parts after to the
    time from first token to last.

    Attributes:
        company_before: What an empty replica would not have, before the first token.
        company_after: The same after it.
        own_before: What a request takes alone, before the first token.
        own_after: The same after it.
    """

    company_before: Mapping[str, Times]
    company_after: Mapping[str, Times]
    own_before: Mapping[str, Times]
    own_after: Mapping[str, Times]

    @property
    def company(self) -> tuple[str, ...]:
        """Names of what company adds."""
        return tuple(dict.fromkeys((*self.company_before, *self.company_after)))

    @property
    def own(self) -> tuple[str, ...]:
        """Names of what a request takes alone."""
        return tuple(dict.fromkeys((*self.own_before, *self.own_after)))

    def rows(self, chosen: NDArray[Any]) -> Split:
        """Return the split of chosen requests."""
        return Split(
            *(
                {name: column[chosen] for name, column in part.items()}
                for part in (
                    self.company_before,
                    self.company_after,
                    self.own_before,
                    self.own_after,
                )
            )
        )


class Gaps(Protocol):
    """The longest time between two tokens of requests, as some of its causes are removed."""

    def without(self, removed: Collection[str]) -> Times:
        """Return the longest gap without what these parts added; shape ``(n,)``."""

    def rows(self, chosen: NDArray[Any]) -> Gaps:
        """Return those of chosen requests."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """Time allowed to each request, same unit as its parts; None: no such deadline."""

    first: Times
    rest: Times
    whole: Times | None = None
    gap: Times | None = None
    gaps: Gaps | None = None
    """What the deadline ``gap`` is held against; both or none."""

    def rows(self, chosen: NDArray[Any]) -> Allowed:
        """Return the deadlines of chosen requests."""
        return Allowed(
            self.first[chosen],
            self.rest[chosen],
            None if self.whole is None else self.whole[chosen],
            None if self.gap is None else self.gap[chosen],
            None if self.gaps is None else self.gaps.rows(chosen),
        )


def charge(split: Split, allowed: Allowed) -> dict[str, Floats]:
    """Share each miss among its causes.

    Returns:
        By cause, the share charged per request, shape ``(n,)``: they sum to 1 for a late request,
        to 0 for one in time.

    Raises:
        ValueError: More than 12 parts of one kind.

    Cost:
        O(late requests × 2^parts).
    """
    if max(len(split.company), len(split.own)) > MOST_PLAYERS:
        raise ValueError(f"at most {MOST_PLAYERS} parts can be charged")
    shares = {
        name: np.zeros(allowed.first.shape) for name in dict.fromkeys((*split.company, *split.own))
    }
    late = np.flatnonzero(~_in_time(split, allowed, (), ()))
    for begin in range(0, late.size, AT_ONCE):
        rows = late[begin : begin + AT_ONCE]
        part, due = split.rows(rows), allowed.rows(rows)
        found = _shapley(
            [_in_time(part, due, removed, ()) for removed in _subsets(split.company)],
            split.company,
        )
        for name, share in found.items():
            shares[name][rows] += share
        alone = sum(found.values(), np.zeros(rows.size)) < 0.5
        if alone.any():
            _charge_own(shares, part.rows(alone), due.rows(alone), rows[alone])
    return shares


def _charge_own(
    shares: dict[str, Floats], split: Split, allowed: Allowed, rows: NDArray[np.int64]
) -> None:
    """Charge what is late without any company to what it takes alone."""
    found = _shapley(
        [_in_time(split, allowed, split.company, gone) for gone in _subsets(split.own)],
        split.own,
    )
    unexplained = sum(found.values(), np.zeros(rows.size)) < 0.5
    for name, share in found.items():
        shares[name][rows] += share + unexplained / len(split.own)


def _subsets(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return all subsets, in the order of their bit masks."""
    return [
        tuple(name for bit, name in enumerate(names) if mask >> bit & 1)
        for mask in range(1 << len(names))
    ]


def _in_time(
    split: Split, allowed: Allowed, removed: tuple[str, ...], own: tuple[str, ...]
) -> NDArray[np.bool_]:
    zero = np.zeros(allowed.first.shape, allowed.first.dtype)
    first = sum((v for k, v in split.company_before.items() if k not in removed), zero)
    first = first + sum((v for k, v in split.own_before.items() if k not in own), zero)
    rest = sum((v for k, v in split.company_after.items() if k not in removed), zero)
    rest = rest + sum((v for k, v in split.own_after.items() if k not in own), zero)
    good = (first <= allowed.first) & (rest <= allowed.rest)
    if allowed.whole is not None:
        good = good & (first + rest <= allowed.whole)
    if allowed.gap is not None and allowed.gaps is not None:
        slow = {"decode_solo", "decode_floor"} & set(own)
        longest = zero if slow else allowed.gaps.without(removed)
        good = good & (longest <= allowed.gap)
    return np.asarray(good, np.bool_)


def _shapley(worth: list[NDArray[np.bool_]], names: tuple[str, ...]) -> dict[str, Floats]:
    """Return the Shapley value of each name; ``worth`` by bit mask.

    A set is worth what its best part is worth, so that more removed is never worse; what is in
    time with nothing removed is nobody's.
    """
    n = len(names)
    value = [np.asarray(v, np.bool_) for v in worth]
    for bit in range(n):
        for mask in range(1 << n):
            if mask >> bit & 1:
                value[mask] = value[mask] | value[mask ^ 1 << bit]
    found = {}
    for bit, name in enumerate(names):
        orders = np.zeros(value[0].shape, np.int64)  # in which this one turns the outcome
        for mask in range(1 << n):
            if not mask >> bit & 1:
                size = mask.bit_count()
                turns = value[mask | 1 << bit] & ~value[mask]
                orders += factorial(size) * factorial(n - size - 1) * turns
        found[name] = orders / factorial(n)
    return found
