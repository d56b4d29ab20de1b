"""How long one step of a replica takes: t = L(n) + c_X X + c_K K + c_N N + c_C C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.errors import InputError
from planner.kernels import Law

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

_PS_PER_S: Final = 1e12
_MAX_PS: Final = 2.0**62


@dataclass(frozen=True, slots=True)
class StepLaw:
    """One engine step as a function of what it computes.

    n = P + B are the tokens computed (P of prefill, B decoding sequences), X = Σ new · (cached +
    new/2) over prefill chunks in tokens², K the context of the decoding sequences in tokens, N
    the requests scheduled, C = Σ (cached + new) over prefill chunks in tokens.
    """

    knots: tuple[int, ...]
    """Tokens per step at which L is given, ascending, from 1."""

    step_s: tuple[float, ...]
    """L at the knots, seconds."""

    slope_beyond_s_per_token: float
    """Slope of L beyond the last knot."""

    c_x_s_per_token2: float
    """Causal attention of prefill."""

    c_k_s_per_token: float
    """Reading the KV cache of decoding sequences."""

    c_n_s_per_request: float = 0.0
    """Overhead of each scheduled request."""

    c_c_s_per_token: float = 0.0
    """Reading the KV cache of prefill chunks."""

    def __post_init__(self) -> None:
        if len(self.knots) != len(self.step_s) or not self.knots or self.knots[0] != 1:
            raise InputError("a step law needs one time a knot, and its first knot at 1 token")
        if any(b <= a for a, b in zip(self.knots, self.knots[1:], strict=False)):
            raise InputError("the knots of a step law must ascend")
        coefficients = (
            *self.step_s,
            self.slope_beyond_s_per_token,
            self.c_x_s_per_token2,
            self.c_k_s_per_token,
            self.c_n_s_per_request,
            self.c_c_s_per_token,
        )
        if not np.isfinite(coefficients).all() or min(coefficients) < 0 or self.step_s[0] <= 0:
            raise InputError("the times of a step law must be finite and not negative")

    def tokens_s(self, tokens: ArrayLike) -> Floats:
        """Return L for numbers of tokens, any shape, in seconds.

        Piecewise linear between the knots; below one token, which happens only to averages,
        L(1); a step of no tokens takes no time.
        """
        n = np.asarray(tokens, dtype=np.float64)
        inside = np.interp(n, self.knots, self.step_s)
        beyond = np.maximum(n - self.knots[-1], 0.0) * self.slope_beyond_s_per_token
        return np.where(n > 0, inside + beyond, 0.0)

    def slowed(self, factor: float) -> StepLaw:
        """Return a law whose every step takes ``factor`` times as long."""
        return StepLaw(
            knots=self.knots,
            step_s=tuple(factor * t for t in self.step_s),
            slope_beyond_s_per_token=factor * self.slope_beyond_s_per_token,
            c_x_s_per_token2=factor * self.c_x_s_per_token2,
            c_k_s_per_token=factor * self.c_k_s_per_token,
            c_n_s_per_request=factor * self.c_n_s_per_request,
            c_c_s_per_token=factor * self.c_c_s_per_token,
        )

    def step_s_of(
        self,
        tokens: ArrayLike,
        square: ArrayLike,
        context: ArrayLike,
        requests: ArrayLike = 0.0,
        chunk_context: ArrayLike = 0.0,
    ) -> Floats:
        """Return seconds of many steps from their sums n, X, K, N and C; the arrays broadcast."""
        return np.asarray(
            self.tokens_s(tokens)
            + self.c_x_s_per_token2 * np.asarray(square, dtype=np.float64)
            + self.c_k_s_per_token * np.asarray(context, dtype=np.float64)
            + self.c_n_s_per_request * np.asarray(requests, dtype=np.float64)
            + self.c_c_s_per_token * np.asarray(chunk_context, dtype=np.float64)
        )

    def one_step_s(
        self, chunks: Sequence[tuple[int, int]] = (), contexts: Sequence[int] = ()
    ) -> float:
        """Return seconds of one step.

        Args:
            chunks: Prefill chunks as (tokens cached before, new tokens).
            contexts: Context length of each decoding sequence, tokens.
        """
        new = sum(n for _, n in chunks)
        square = sum(n * (cached + n / 2) for cached, n in chunks)
        chunk_context = sum(cached + n for cached, n in chunks)
        scheduled = len(chunks) + len(contexts)
        sums = (new + len(contexts), square, sum(contexts), scheduled, chunk_context)
        return float(self.step_s_of(*sums))


def law_fields(law: StepLaw, max_num_batched_tokens: int) -> Law:
    """Quantise a step law to whole picoseconds, once, for kernels that must agree to the bit.

    Each coefficient is rounded to the nearest ps (the quadratic one to 2^-15 ps), so that a
    step is off by at most 1 ps + 0.5 ps per token of context.

    Raises:
        InputError: A coefficient does not fit in 64 bits, or the budget holds no token.
    """
    if max_num_batched_tokens < 1:
        raise InputError(f"max_num_batched_tokens must be at least 1; got {max_num_batched_tokens}")
    seconds = law.tokens_s(np.arange(max_num_batched_tokens + 1))
    square = law.c_x_s_per_token2 * _PS_PER_S * 2**16 / 2
    if max(float(seconds.max()) * _PS_PER_S, square) > _MAX_PS:
        raise InputError("a step of this law is longer than 53 days; its unit must be seconds")
    table = np.rint(seconds * _PS_PER_S).astype(np.int64)
    table[1:] = np.maximum(table[1:], 1)  # the kernels' clock must move
    table.flags.writeable = False
    return Law(
        tokens_ps=table,
        square_ps_2p15=round(square),
        context_ps=round(law.c_k_s_per_token * _PS_PER_S),
        sequence_ps=round(law.c_n_s_per_request * _PS_PER_S),
        chunk_context_ps=round(law.c_c_s_per_token * _PS_PER_S),
    )
