"""The step law of replicas that draft tokens and verify them, told per token.

A verification computes k + 1 tokens of each of B sequences and takes

    T(B) = L((k+1) B) + c_K K + c_N B + k d (L(B) + c_K K + c_N B),

with d the cost of drafting one token as a share of a plain decode step; a sequence gains E tokens
of it in the mean. Engine and simulation keep to one token a step: a step of the law here is the
E-th part of a verification, so that decoding takes T / E a token, and so do the queues and the
memory that follow from it. Prefill adds to a verification what it adds to a plain step, and is
counted once, whole. The law is

    f(n) = (L((k+1) n) + k d L(n)) / E                         for n up to S = max_num_seqs,
    f(n) = f(S) + (1 + d) (L(n + k S) - L((k+1) S))            beyond (prefill; the draft's too).

What it does not know: that tokens come E at a time, so a prompt waits for the end of a whole
verification, and is computed in one. Both together are 1.5 verifications, less the same of its own
steps. That is added to every TTFT, for the slowest verification that there is: all seats taken, the
cache full, but no slower than the deadlines allow; so TTFT is told too long at light loads. It
takes E for certain: the last step of an answer gives tokens that nobody wants, and answers differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.curves.step_law import StepLaw

if TYPE_CHECKING:
    from planner.curves.curve import Curve


@dataclass(frozen=True, slots=True)
class Speculation:
    """Drafting and verifying, as numbers."""

    name: str
    """Such as ``eagle3``."""
    method: str
    draft_tokens: int
    """k."""
    acceptance: float | None
    """None where tokens per step were given."""
    gained: float
    """E: tokens of a sequence in a verification."""
    draft_cost: float
    """d."""
    draft_memory: float
    """Bytes on each device."""
    draft_kv: float


def verification_s(law: StepLaw, spec: Speculation, sequences: int, context: float = 0.0) -> float:
    """Return T(B): one verification of some sequences, drafting included, seconds.

    Args:
        law: Of plain steps.
        spec: What is drafted.
        sequences: B.
        context: K, tokens of all of them.
    """
    k = spec.draft_tokens
    rest = law.c_k_s_per_token * context + law.c_n_s_per_request * sequences
    plain = float(law.tokens_s(sequences)) + rest
    return float(law.tokens_s((k + 1) * sequences)) + rest + k * spec.draft_cost * plain


def plain_step_s(law: StepLaw, sequences: int, context: float = 0.0) -> float:
    """Return a decode step of some sequences without drafts, seconds."""
    rest = law.c_k_s_per_token * context + law.c_n_s_per_request * sequences
    return float(law.tokens_s(sequences)) + rest


def speculative_law(law: StepLaw, spec: Speculation, max_num_seqs: int) -> StepLaw:
    """Return the law of one token's part of a verification; exact at whole numbers of tokens.

    Args:
        law: Of plain steps.
        spec: What is drafted.
        max_num_seqs: S, above which tokens of a step are prefill.
    """
    k, d, gained, seats = spec.draft_tokens, spec.draft_cost, spec.gained, max_num_seqs

    def decode_s(n: int) -> float:
        return (float(law.tokens_s((k + 1) * n)) + k * d * float(law.tokens_s(n))) / gained

    bends = {1, seats, *law.knots}
    bends |= {m // (k + 1) + more for m in law.knots for more in (0, 1)}
    inside = sorted(n for n in bends if 1 <= n <= seats)
    beyond = [m - k * seats for m in law.knots if m - k * seats > seats]
    full, start = decode_s(seats), float(law.tokens_s((k + 1) * seats))
    times = [decode_s(n) for n in inside]
    times += [full + (1 + d) * (float(law.tokens_s(n + k * seats)) - start) for n in beyond]
    drawn = (1 + k * d) / gained
    return StepLaw(
        knots=(*inside, *beyond),
        step_s=tuple(times),
        slope_beyond_s_per_token=(1 + d) * law.slope_beyond_s_per_token,
        c_x_s_per_token2=(1 + d) * law.c_x_s_per_token2,
        c_k_s_per_token=drawn * law.c_k_s_per_token,
        c_n_s_per_request=drawn * law.c_n_s_per_request,
        c_c_s_per_token=(1 + d) * law.c_c_s_per_token,
    )


def added_ttft_s(
    law: StepLaw, spec: Speculation, max_num_seqs: int, kv_tokens: int, slowest_tpot_s: float
) -> float:
    """Return what steps told per token leave out of a TTFT, seconds.

    Args:
        law: Of plain steps.
        spec: What is drafted.
        max_num_seqs: Seats of a replica.
        kv_tokens: Its cache, tokens.
        slowest_tpot_s: Loosest deadline between tokens: a verification that takes longer than
            that for each of its tokens breaks it.
    """
    slowest_s = verification_s(law, spec, max_num_seqs, kv_tokens)
    return 1.5 * (1 - 1 / spec.gained) * min(slowest_s, spec.gained * slowest_tpot_s)


def speculative(curve: Curve, max_num_seqs: int, kv_tokens: int, slowest_tpot_s: float) -> Curve:
    """Return the curve of replicas that speculate, for a number of seats; others as they are.

    Args:
        curve: Says what is drafted.
        max_num_seqs: Seats of a replica.
        kv_tokens: Its cache, tokens.
        slowest_tpot_s: Loosest deadline between tokens.
    """
    spec = curve.speculation
    if spec is None:
        return curve
    law = curve.step_law
    return replace(
        curve,
        step_law=speculative_law(law, spec, max_num_seqs),
        token_by_token=law,
        added_ttft_s=added_ttft_s(law, spec, max_num_seqs, kv_tokens, slowest_tpot_s),
    )
