"""What an engine's host adds to the accelerator's time, and by how much laws are off on average."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from planner.curves.step_law import StepLaw

DECODE_TOKENS: Final = 128
PREFILL_TOKENS: Final = 1024
"""L is scaled as decode up to the one, as prefill from the other, and in between by a ramp in
log n: steps of a few tokens read weights, steps of a thousand multiply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConstants:
    """Constants of one engine, the same for all models and accelerators."""

    host_step_s: float = 0.0
    """Scheduling, launching and sampling of a step that the accelerator does not hide."""
    host_sequence_s: float = 0.0
    """The same per running sequence."""
    host_prefill_s: float = 0.0
    """Further host time of a step with prompt tokens: no captured graph to replay."""
    front_token_s: float = 0.0
    """Serial front-end time per prompt token: tokenising and copying between processes."""
    path_s: float = 0.0
    """Client to engine and back, without load."""
    decode_log: float = 0.0
    """Logarithm of the factor on L for decode-sized steps."""
    prefill_log: float = 0.0
    """Logarithm of the factor on L for prefill-sized steps, and on c_X."""
    context_log: float = 0.0
    """Logarithm of the factor on c_K."""

    attention_log: float = 0.0
    """Logarithm of a further factor on c_X."""
    mixed_context_log: float = 0.0
    """Logarithm of the factor on c_K in steps that also compute prompts."""
    cached_reread: float = 0.2
    """Share of a cached prefix that each further request of a step reads again."""

    def applied_to(self, law: StepLaw) -> StepLaw:
        """Return a step law with its terms scaled."""
        span = np.log2(PREFILL_TOKENS / DECODE_TOKENS)
        ramp = np.clip(np.log2(np.asarray(law.knots) / DECODE_TOKENS) / span, 0.0, 1.0)
        factor = np.exp(self.decode_log * (1 - ramp) + self.prefill_log * ramp)
        level = np.maximum.accumulate(np.asarray(law.step_s) * factor)
        prefill = float(np.exp(self.prefill_log))
        return StepLaw(
            knots=law.knots,
            step_s=tuple(level.tolist()),
            slope_beyond_s_per_token=law.slope_beyond_s_per_token * prefill,
            c_x_s_per_token2=law.c_x_s_per_token2 * prefill * float(np.exp(self.attention_log)),
            c_k_s_per_token=law.c_k_s_per_token * float(np.exp(self.context_log)),
        )

    def slowed(self, factor: float) -> EngineConstants:
        """Return constants whose times of a step are ``factor`` times as long."""
        return replace(
            self,
            host_step_s=factor * self.host_step_s,
            host_sequence_s=factor * self.host_sequence_s,
            host_prefill_s=factor * self.host_prefill_s,
        )


NO_CONSTANTS: Final = EngineConstants()
