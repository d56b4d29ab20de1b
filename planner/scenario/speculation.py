"""Speculative decoding: several tokens drafted, and verified together in one step."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from planner.spec import Spec, mistake
from planner.units import Bytes, Fraction


class SpeculativeDecoding(Spec):
    """A way to draft tokens that the model then verifies. Nothing of it is assumed: measure it."""

    method: Literal["draft", "eagle", "mtp", "ngram"]
    """Who drafts: a smaller model, a head of the EAGLE kind, the model's own next-token layers, or
    a look-up in the prompt. Named in the plan; what it does is what the numbers say."""

    model: Annotated[str, Field(min_length=1)] | None = None
    """Of the workloads: whose replicas it is for, as they spell it; every model's, where left
    out."""

    draft_tokens: Annotated[int, Field(ge=1, le=16)]
    """Tokens drafted for a step."""

    acceptance: Fraction | None = None
    """Probability that a drafted token is accepted when those before it were; or give
    ``tokens_per_step``."""

    tokens_per_step: Annotated[float, Field(ge=1, le=17, allow_inf_nan=False)] | None = None
    """Mean tokens that a sequence gains in a step, the model's own among them, as engines log."""

    draft_cost: Fraction
    """Time to draft one token for all sequences, as a share of the model's own decode step for
    them."""

    draft_memory: Bytes
    """Of each device: the draft's weights and buffers; ``0 B`` for a look-up."""

    draft_kv: Fraction
    """The draft's KV cache for a token, as a share of the model's; 0 for a look-up."""

    choose: Literal["search", "always"] = "search"
    """Beside replicas that decode token by token, or in their place."""

    @model_validator(mode="after")
    def _one_gain(self) -> SpeculativeDecoding:
        if (self.acceptance is None) == (self.tokens_per_step is None):
            what = "both are given" if self.acceptance is not None else "neither is given"
            raise mistake(f"give either acceptance or tokens_per_step; {what}")
        most = self.draft_tokens + 1
        if self.tokens_per_step is not None and self.tokens_per_step > most:
            raise mistake(
                f"{self.draft_tokens} drafted tokens make at most {most} a step", "tokens_per_step"
            )
        return self

    @property
    def name(self) -> str:
        """Part of a template's name, such as ``eagle3``."""
        return f"{self.method}{self.draft_tokens}"

    @property
    def gained(self) -> float:
        """Mean tokens of a sequence in a step: the sum of acceptance^i for i from 0 to k."""
        if self.tokens_per_step is not None:
            return self.tokens_per_step
        assert self.acceptance is not None  # one of the two is given
        return float(sum(self.acceptance**i for i in range(self.draft_tokens + 1)))
