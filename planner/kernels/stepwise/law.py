"""How long one engine step takes: the step law, in whole ticks of time."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass


@dataclass(slots=True)
class StepWork:
    """What one step computes, in the terms of the step law.

    Attributes:
        tokens: n, tokens computed: those of the chunks, and one per decoding sequence.
        requests: N, requests scheduled.
        decode_context: K, sum over decoding sequences of the context after the step.
        chunk_context: C, sum over prefill chunks of (computed before + new).
        attention2: 2X, sum over prefill chunks of new * (2 * computed before + new).
    """

    tokens: int = 0
    requests: int = 0
    decode_context: int = 0
    chunk_context: int = 0
    attention2: int = 0

    def add_decode(self, computed_before: int) -> None:
        """Count one decoding sequence, which reads ``computed_before + 1`` tokens."""
        self.tokens += 1
        self.requests += 1
        self.decode_context += computed_before + 1

    def add_chunk(self, new: int, computed_before: int) -> None:
        """Count one prefill chunk of ``new`` tokens after ``computed_before`` others."""
        self.tokens += new
        self.requests += 1
        self.chunk_context += computed_before + new
        self.attention2 += new * (2 * computed_before + new)


@dataclass(frozen=True, slots=True)
class StepLaw:
    """The step law: ``L(n) + c_x * 2X + c_k * K + c_n * N + c_c * C``, in ticks.

    Coefficients are whole ticks, but for ``c_x``, which may be far below one: it counts in
    units of ``2**-shift`` ticks, and its term is rounded down. ``L`` is linear between its
    knots, rounded down, and continues its first and last pieces beyond them; one knot is a
    constant.

    Attributes:
        knots: Pairs (n, L(n)) with n ascending.
        c_x: Per unit of 2X (token²), times ``2**shift``.
        c_k: Per token of decode context.
        c_n: Per request scheduled.
        c_c: Per token of chunk context.
        shift: Binary digits after the point of ``c_x``.
    """

    knots: tuple[tuple[int, int], ...]
    c_x: int = 0
    c_k: int = 0
    c_n: int = 0
    c_c: int = 0
    shift: int = 0

    def ticks(self, work: StepWork) -> int:
        """Return the length of a step, >= 0 ticks."""
        total = (
            self._tokens(work.tokens)
            + (self.c_x * work.attention2 >> self.shift)
            + self.c_k * work.decode_context
            + self.c_n * work.requests
            + self.c_c * work.chunk_context
        )
        return max(0, total)

    def alone(self, tokens: int, budget: int) -> int:
        """Return the ticks in which an empty engine prefills ``tokens``, ``budget`` a step."""
        total = 0
        for before in range(0, tokens, budget):
            work = StepWork()
            work.add_chunk(min(budget, tokens - before), before)
            total += self.ticks(work)
        return total

    def _tokens(self, n: int) -> int:
        knots = self.knots
        if len(knots) == 1:
            return knots[0][1]
        right = min(max(bisect_right(knots, n, key=_abscissa), 1), len(knots) - 1)
        (n0, t0), (n1, t1) = knots[right - 1], knots[right]
        return t0 + (t1 - t0) * (n - n0) // (n1 - n0)


def _abscissa(knot: tuple[int, int]) -> int:
    return knot[0]


def affine(base: int, per_token: int, per_request: int = 0, per_context: int = 0) -> StepLaw:
    """Make the law ``base + per_token * n + per_request * N + per_context * (K + C)``."""
    knots = ((0, base), (1, base + per_token))
    return StepLaw(knots, c_k=per_context, c_n=per_request, c_c=per_context)
