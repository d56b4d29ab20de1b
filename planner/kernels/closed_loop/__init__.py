"""One engine rank under a benchmark client: a fixed number of users, or given arrivals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.kernels.closed_loop import compiled, plain
from planner.kernels.closed_loop.records import ClientRecords, EngineTimes, RankLaw, Scheduler

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ClientRecords", "EngineTimes", "RankLaw", "Scheduler", "serve_arrivals", "serve_users"]


def serve_users(
    law: RankLaw,
    engine: EngineTimes,
    users: int,
    prompt_tokens: NDArray[np.int32],
    output_tokens: NDArray[np.int32],
) -> ClientRecords:
    """Serve requests for a closed loop: each user sends the next one when theirs has finished.

    All users start at time 0, as benchmark clients with a concurrency limit do.

    Args:
        law: Step law of the rank.
        engine: Scheduler, limits and host times.
        users: Requests in flight at most, >= 1.
        prompt_tokens: In order of sending; shape ``(n,)``, int32, >= 1.
        output_tokens: Shape ``(n,)``, int32, >= 1.

    Raises:
        ValueError: Arrays of wrong type or length, or numbers out of range.
    """
    if users < 1:
        raise ValueError("users: must be at least 1")
    sent = np.zeros(len(prompt_tokens))
    return _serve(law, engine, users, prompt_tokens, output_tokens, sent)


def serve_arrivals(
    law: RankLaw,
    engine: EngineTimes,
    sent_s: NDArray[np.float64],
    prompt_tokens: NDArray[np.int32],
    output_tokens: NDArray[np.int32],
) -> ClientRecords:
    """Serve requests that are sent at given times, whatever becomes of those before.

    Args:
        law: Step law of the rank.
        engine: Scheduler, limits and host times.
        sent_s: Ascending, seconds; shape ``(n,)``.
        prompt_tokens: Shape ``(n,)``, int32, >= 1.
        output_tokens: Shape ``(n,)``, int32, >= 1.

    Raises:
        ValueError: Arrays of wrong type, length or order, or numbers out of range.
    """
    if len(sent_s) and not (np.diff(sent_s) >= 0).all():
        raise ValueError("sent_s: must ascend")
    return _serve(law, engine, 0, prompt_tokens, output_tokens, np.array(sent_s, dtype=np.float64))


def _serve(
    law: RankLaw,
    engine: EngineTimes,
    users: int,
    prompt_tokens: NDArray[np.int32],
    output_tokens: NDArray[np.int32],
    sent: NDArray[np.float64],
) -> ClientRecords:
    run = compiled.serve if compiled.COMPILED else plain.serve
    first, finish = np.zeros((2, len(sent)))
    steps, preemptions = run(law, engine, users, prompt_tokens, output_tokens, sent, first, finish)
    return ClientRecords(sent, first, finish, steps, preemptions)
