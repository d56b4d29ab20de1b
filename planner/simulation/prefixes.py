"""Names of prompt blocks, for engines that keep KV of prefixes.

Equal names are equal contents up to there. The names of a request are a stretch of one list, and
stretches overlap: all turns of a session share one, however many there are. A block that no
other request begins with is not named: nobody can hit it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from planner.measurements.request_trace import PrefixBlocks
    from planner.problem.prefixes import SharedPrefixes

    Ints = NDArray[np.int64]

FINEST: Final = 10**6
"""Largest denominator of a constant hit rate."""


@dataclass(frozen=True, slots=True)
class Prefixes:
    """Names of the leading blocks of each prompt."""

    start: Ints
    """Names of request i are ``name[start[i]:start[i] + count[i]]``; shape ``(n,)``."""
    count: NDArray[np.int32]
    name: NDArray[np.int32]
    """Shape ``(m,)``, from 0."""
    block_tokens: int

    def of(self, rows: Ints) -> Prefixes:
        """Return the names of some requests, in their order."""
        return Prefixes(self.start[rows], self.count[rows], self.name, self.block_tokens)


def ragged(start: Ints, count: Ints) -> Ints:
    """Return ``start[i]``, ``start[i] + 1``, ... ``count[i]`` of them, one i after the other."""
    ends = np.cumsum(count)
    within = np.arange(int(ends[-1]) if ends.size else 0) - np.repeat(ends - count, count)
    return np.asarray(np.repeat(start, count) + within)


def of_trace(prefix: PrefixBlocks, rows: Ints, instance: Ints) -> Prefixes:
    """Return the names of requests that are replayed, each time as others' requests.

    A block that most requests of the trace begin with, such as a system prompt, is the same in
    every instance; all others are not, so a trace that is gone through again finds nothing of
    its first time.

    Args:
        prefix: Blocks of the trace.
        rows: Which request of the trace each one is.
        instance: Which time through the trace it belongs to.
    """
    times = np.bincount(prefix.name, minlength=int(prefix.name.max(initial=-1)) + 1)
    common = times > (prefix.start.size - 1) / 2
    held = np.diff(prefix.start)
    request = np.repeat(np.arange(held.size), held)
    count = np.bincount(request, weights=times[prefix.name] > 1, minlength=held.size)
    count = count.astype(np.int64)[rows]
    name = prefix.name[ragged(prefix.start[rows], count)].astype(np.int64)
    lap = np.where(common[name], 0, np.repeat(instance, count))
    _, dense = np.unique(name + lap * np.int64(times.size), return_inverse=True)
    start = np.cumsum(count) - count
    return Prefixes(start, count.astype(np.int32), dense.astype(np.int32), prefix.block_tokens)


def of_sessions(
    session: Ints,
    prompt: NDArray[np.int32],
    whole: NDArray[np.bool_],
    system_tokens: int,
    block_tokens: int,
) -> Prefixes:
    """Return the names of prompts that hold the history of their session.

    What an answer adds is named in the next turn, whose prompt holds it, not before.

    Args:
        session: Which session each turn belongs to, from 0, ascending; turns in their order.
        prompt: Prompt tokens.
        whole: Whether its history is whole; where it was trimmed to fit a context, nothing
            but the system prompt is as it was, now or later.
        system_tokens: Beginning of every prompt.
        block_tokens: Tokens of a block.
    """
    blocks = prompt.astype(np.int64) // block_tokens
    system = min(system_tokens // block_tokens, int(blocks.max(initial=0)))
    told = np.where(whole, blocks, 0)
    same = session[1:] == session[:-1]
    later = np.zeros_like(told)
    later[:-1] = np.where(same & whole[1:], told[1:], 0)
    earlier = np.zeros_like(told)
    earlier[1:] = np.where(same, told[:-1], 0)
    shared = np.minimum(told, np.maximum(later, earlier))
    count = np.maximum(shared, np.minimum(blocks, system))
    sessions = int(session[-1]) + 1 if session.size else 0
    longest = np.full(sessions, system, np.int64)
    np.maximum.at(longest, session, count)
    first = np.cumsum(longest) - longest
    name = np.arange(int(longest.sum())) + system
    name[ragged(first, np.full(sessions, system))] = np.tile(np.arange(system), sessions)
    return Prefixes(first[session], count.astype(np.int32), name.astype(np.int32), block_tokens)


def of_shared(
    law: SharedPrefixes, choice: NDArray[np.int32], prompt: NDArray[np.int32], block_tokens: int
) -> Prefixes:
    """Return the names of prompts that begin with a system prompt and one of several texts.

    Args:
        law: What they begin with.
        choice: Which text, from 0; -1 for none.
        prompt: Prompt tokens.
        block_tokens: Tokens of a block.
    """
    longest = int(prompt.max(initial=0)) // block_tokens
    system = min(law.system_tokens // block_tokens, longest)
    most = min((law.system_tokens + law.tokens) // block_tokens, longest)
    used, text, times = np.unique(choice, return_inverse=True, return_counts=True)
    again = (used >= 0) & (times > 1)
    reach = np.where(again, most, system)
    first = np.cumsum(reach) - reach
    name = np.arange(int(reach.sum())) + system
    name[ragged(first, np.full(used.size, system))] = np.tile(np.arange(system), used.size)
    count = np.minimum(prompt // block_tokens, reach[text])
    return Prefixes(first[text], count.astype(np.int32), name.astype(np.int32), block_tokens)


def choose_texts(law: SharedPrefixes, n: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Return which text each of ``n`` requests goes on with, -1 for none; stratified."""
    u = ((np.arange(n) + 0.5) / n)[rng.permutation(n)]
    if law.count == 0:
        return np.full(n, -1, np.int32)
    weight = np.arange(1, law.count + 1, dtype=np.float64) ** -law.zipf
    edge = np.cumsum(weight) * (law.share / weight.sum())
    found = np.searchsorted(edge, u, side="right")
    found = np.where(u < law.share, np.minimum(found, law.count - 1), -1)
    return found.astype(np.int32)


def constant_hits(rate: float, prompt: NDArray[np.int32], block_tokens: int) -> NDArray[np.int32]:
    """Return the tokens found of each prompt at a constant hit rate.

    Whole blocks, and never a prompt's last token. What rounding takes from one request the next
    one gets, so that all together have found this share of their whole blocks, to the block.

    Args:
        rate: Share of the whole blocks of prompts.
        prompt: Prompt tokens, in order of arrival.
        block_tokens: Tokens of a block.
    """
    share = Fraction(rate).limit_denominator(FINEST)
    most = (prompt.astype(np.int64) - 1) // block_tokens
    due = np.cumsum(prompt.astype(np.int64) // block_tokens)
    # shares of whole and broken parts apart, so that no product leaves 64 bits
    whole, broken = np.divmod(due, share.denominator)
    due = whole * share.numerator + broken * share.numerator // share.denominator
    room = np.cumsum(most)
    # found so far = min(due, found before + most): a queue that is served at ``most``
    so_far = room + np.minimum(0, np.minimum.accumulate(due - room))
    return np.asarray(np.diff(so_far, prepend=0) * block_tokens, np.int32)


def merged(parts: Sequence[tuple[Ints, Prefixes]], n: int) -> Prefixes | None:
    """Put the names of several streams together; streams share no names. None if there are none.

    Args:
        parts: Where the requests of a stream stand among all, and their names.
        n: All requests; those of no part have no names.

    Raises:
        ValueError: The streams' blocks are of different sizes.
    """
    sizes = {prefixes.block_tokens for _, prefixes in parts}
    if not sizes:
        return None
    if len(sizes) > 1:
        raise ValueError(f"blocks of {sorted(sizes)} tokens cannot be put together")
    if len(parts) == 1 and parts[0][0].size == n:  # rows ascend: they are all, in order
        return parts[0][1]
    start, count = np.zeros(n, np.int64), np.zeros(n, np.int32)
    names, places, used = [], 0, 0
    for rows, prefixes in parts:
        start[rows] = prefixes.start + places
        count[rows] = prefixes.count
        names.append(prefixes.name.astype(np.int64) + used)
        places += prefixes.name.size
        used += int(prefixes.name.max(initial=-1)) + 1
    return Prefixes(start, count, np.concatenate(names).astype(np.int32), sizes.pop())
