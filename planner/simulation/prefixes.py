"""Names of prompt blocks, for engines that keep KV of prefixes: picked, joined, made dense."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.measurements.request_trace import PrefixBlocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def ragged(start: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of the items of some rows, one row after the other.

    Args:
        start: Items of row i are at ``start[i]`` to below ``start[i + 1]``.
        rows: Which rows, in which order; a row may come again.
    """
    count = start[rows + 1] - start[rows]
    ends = np.cumsum(count)
    within = np.arange(int(ends[-1]) if ends.size else 0) - np.repeat(ends - count, count)
    return np.asarray(np.repeat(start[rows], count) + within)


def take(prefix: PrefixBlocks, rows: NDArray[np.int64]) -> PrefixBlocks:
    """Return the blocks of some requests, in their order."""
    count = prefix.start[rows + 1] - prefix.start[rows]
    start = np.concatenate([[0], np.cumsum(count)])
    return PrefixBlocks(start, prefix.name[ragged(prefix.start, rows)], prefix.block_tokens)


def replayed(
    prefix: PrefixBlocks, rows: NDArray[np.int64], instance: NDArray[np.int64]
) -> PrefixBlocks:
    """Return the blocks of requests that are replayed, each time as others' requests.

    A block that most requests of the trace begin with, such as a system prompt, is the same in
    every instance; all others are not, so a trace that is gone through again finds nothing of
    its first time.

    Args:
        prefix: Blocks of the trace.
        rows: Which request of the trace each one is.
        instance: Which time through the trace it belongs to.
    """
    taken = take(prefix, rows)
    names = int(prefix.name.max(initial=-1)) + 1
    requests = prefix.start.size - 1
    common = np.bincount(prefix.name, minlength=names) > requests / 2
    time = np.repeat(instance, np.diff(taken.start))
    own = taken.name + np.where(common[taken.name], 0, time) * np.int64(names)
    _, dense = np.unique(own, return_inverse=True)
    return PrefixBlocks(taken.start, dense.astype(np.int32), taken.block_tokens)


def session_blocks(
    session: NDArray[np.int64],
    prompt: NDArray[np.int32],
    history: NDArray[np.bool_],
    system_tokens: int,
    block_tokens: int,
) -> PrefixBlocks:
    """Name the whole blocks of prompts that hold the history of their session.

    Args:
        session: Which session each request belongs to, from 0.
        prompt: Prompt tokens.
        history: Whether its history is whole; where it was trimmed to fit a context, nothing
            but the system prompt is as it was, now or later.
        system_tokens: Beginning of every prompt.
        block_tokens: Tokens of a block.
    """
    count = prompt.astype(np.int64) // block_tokens
    start = np.concatenate([[0], np.cumsum(count)])
    block = np.arange(int(start[-1])) - np.repeat(start[:-1], count)
    widest = int(count.max(initial=0)) + 1
    sessions = int(session.max(initial=-1)) + 1
    alone = np.where(history, session, sessions + np.arange(session.size))
    own = 1 + np.repeat(alone, count)
    shared = block < system_tokens // block_tokens
    _, dense = np.unique(np.where(shared, 0, own) * widest + block, return_inverse=True)
    return PrefixBlocks(start, dense.astype(np.int32), block_tokens)


def join(parts: Sequence[PrefixBlocks | None], sizes: Sequence[int]) -> PrefixBlocks | None:
    """Put the requests of several streams one after the other; streams share no names.

    A stream without names has none for its requests. None if no stream has any.

    Raises:
        ValueError: The streams' blocks are of different sizes.
    """
    blocks = {part.block_tokens for part in parts if part is not None}
    if not blocks:
        return None
    if len(blocks) > 1:
        raise ValueError(f"blocks of {sorted(blocks)} tokens cannot be put together")
    counts, names, used = [], [], 0
    for part, size in zip(parts, sizes, strict=True):
        if part is None:
            counts.append(np.zeros(size, np.int64))
            continue
        counts.append(np.diff(part.start))
        names.append(part.name.astype(np.int64) + used)
        used += int(part.name.max(initial=-1)) + 1
    start = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    return PrefixBlocks(start, np.concatenate(names).astype(np.int32), blocks.pop())
