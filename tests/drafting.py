"""Speculative decoding step by step, every draft drawn: slow, and with nothing left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.curves.step_law import StepLaw


def serve_drafting(
    law: StepLaw,
    arrival_s: NDArray[np.float64],
    prompt: NDArray[np.int32],
    output: NDArray[np.int32],
    engine: tuple[int, int],
    drafting: tuple[int, float, float],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return TTFT and TPOT, seconds, of requests on one replica with endless memory.

    A step verifies k drafted tokens and one of the model's own for each sequence, fills what is
    left of its budget with prompts in the order of arrival, and takes the law's time for all of
    it plus k passes of the draft; each sequence gains one token and the run of accepted drafts.
    The draft computes prompts too.

    Args:
        law: Of plain steps.
        arrival_s: Ascending.
        prompt: Tokens.
        output: Tokens, at least 2.
        engine: max_num_seqs and max_num_batched_tokens.
        drafting: k, acceptance of a token, cost of a drafted token over a decode step.
    """
    (seats, budget), (k, acceptance, cost) = engine, drafting
    rng, n = np.random.default_rng(5), arrival_s.size
    left, gained = prompt.astype(float), np.zeros(n)
    first, last, now = np.full(n, np.nan), np.full(n, np.nan), 0.0
    running: list[int] = []
    following = 0
    while np.isnan(last).any():
        if not running and arrival_s[following] > now:
            now = float(arrival_s[following])
        while following < n and arrival_s[following] <= now and len(running) < seats:
            running.append(following)
            following += 1
        decoding = np.array([r for r in running if left[r] == 0], int)
        room = budget - (k + 1) * decoding.size
        chunks, square = [], 0.0
        for r in running:
            new = min(left[r], room)
            if new > 0:
                room -= new
                square += new * (prompt[r] - left[r] + new / 2)
                chunks.append((r, new))
        context = float((prompt[decoding] + gained[decoding]).sum())
        prefill = sum(new for _, new in chunks)
        rest = law.c_k_s_per_token * context
        took = float(law.tokens_s(prefill + (k + 1) * decoding.size)) + rest
        took += law.c_x_s_per_token2 * square * (1 + cost)
        verified = float(law.tokens_s((k + 1) * decoding.size))
        took += cost * (float(law.tokens_s(prefill + (k + 1) * decoding.size)) - verified)
        if decoding.size:
            took += k * cost * (float(law.tokens_s(decoding.size)) + rest)
        now += took
        for r, new in chunks:
            left[r] -= new
            if left[r] == 0:
                first[r], gained[r] = now, 1
        accepted = (rng.random((decoding.size, k)) < acceptance).cumprod(axis=1).sum(axis=1)
        gained[decoding] += 1 + accepted
        done = {r for r in decoding.tolist() if gained[r] >= output[r]}
        last[list(done)] = now
        running = [r for r in running if r not in done]
    return first - arrival_s, (last - first) / (output - 1)
