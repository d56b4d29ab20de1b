"""Sessions of several turns: each prompt holds what was said before, so it grows and repeats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.problem.lengths import SessionLengths


@dataclass(frozen=True, slots=True)
class Turns:
    """Turns of sessions, one session after the other; arrays of shape ``(turns,)``."""

    session: NDArray[np.int64]
    """From 0."""
    first: NDArray[np.int64]
    """Row of the session's first turn, by turn."""
    prompt: NDArray[np.int32]
    """System prompt, history and new text; cut to the context with its output."""
    output: NDArray[np.int32]
    whole: NDArray[np.bool_]
    """Whether the history is whole, not cut to the context."""


def turn_counts(law: SessionLengths, sessions: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return geometric numbers of turns, stratified; at least 1 and at most the law's most."""
    if law.mean_turns <= 1:
        return np.ones(sessions, np.int64)
    u = (np.arange(sessions) + 0.5) / sessions
    count = 1 + np.floor(np.log1p(-u) / np.log1p(-1 / law.mean_turns))
    return np.asarray(np.minimum(count, law.most_turns)[rng.permutation(sessions)], np.int64)


def grow(
    law: SessionLengths,
    turns: NDArray[np.int64],
    new: tuple[NDArray[np.int32], NDArray[np.int32]],
) -> Turns:
    """Add up what was said.

    Args:
        law: System prompt and context.
        turns: Number of turns by session.
        new: New text and answer of each turn, tokens, shape ``(sum of turns,)`` each.
    """
    text, output = (part.astype(np.int64) for part in new)
    session = np.repeat(np.arange(turns.size), turns)
    first = np.repeat(np.cumsum(turns) - turns, turns)
    said = np.cumsum(text + output)
    before = said - (text + output)
    history = before - before[first]
    prompt = law.system_tokens + history + text
    output = np.minimum(output, law.context_tokens - 1)
    room = law.context_tokens - output
    whole = prompt <= room
    return Turns(
        session=session,
        first=first,
        prompt=np.minimum(prompt, room).astype(np.int32),
        output=output.astype(np.int32),
        whole=whole,
    )
