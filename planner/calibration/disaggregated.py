"""Mean TTFT and TPOT of disaggregated deployments: a closed loop of two stages.

C users go round: a queue and a prefill at one of the prefill ranks, the transfer of the cache,
then output tokens at a decode rank, whose pace depends on how many are there. The loop settles
where the users add up. On top comes the client's initial burst: in the first of its rounds all
C prompts stand in the prefill queue at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from planner.calibration.physics import Means

if TYPE_CHECKING:
    from planner.calibration.constants import EngineConstants
    from planner.calibration.points import Load, Stage
    from planner.curves.step_law import StepLaw

PREFILL_BUDGET: Final = 16384
"""Tokens that a prefill rank computes in one step, if as many wait."""
_ROUNDS_TO_SETTLE: Final = 200


@dataclass(frozen=True, slots=True)
class TwoStages:
    """A disaggregated deployment as the closed loop sees it."""

    prefill: Stage
    prefill_law: StepLaw
    decode: Stage
    decode_law: StepLaw
    constants: EngineConstants
    transfer_s_per_token: float
    """Time to move the cache of one prompt token from prefill to decode."""


def disaggregated_means(it: TwoStages, load: Load) -> Means:
    """Return the means over the requests of one benchmark run."""
    share = 0.9 if load.lengths == "uniform" else 1.0
    prompt, output = share * load.prompt_tokens, share * load.output_tokens
    ranks = it.prefill.replicas * it.prefill.degrees.dp_degree
    alone, crowded = _prefill_s(it, prompt, 1), _crowded_s(it, prompt)
    moved = it.transfer_s_per_token * prompt
    wait, step = 0.0, _decode_step_s(it, 1.0, prompt, output)
    capacity = ranks / crowded
    for _ in range(_ROUNDS_TO_SETTLE):
        cycle = wait + alone + moved + it.constants.path_s + (output - 1) * step
        rate = load.users / cycle
        decoding = min(rate, capacity) * (output - 1) * step
        step += 0.3 * (_decode_step_s(it, decoding, prompt, output) - step)
        rest = cycle - wait
        queue = max(0.0, load.users / capacity - rest)
        busy = min(rate / capacity, 0.95)
        wait += 0.3 * (max(queue, crowded * busy / (2 * (1 - busy)) / ranks) - wait)
    settled = wait + alone + moved + it.constants.path_s + step
    burst = max(load.users / ranks - 1, 0) * crowded / 2 + settled - wait
    ttft = (burst + (load.rounds - 1) * settled) / load.rounds
    return Means(ttft, step)


def _prefill_s(it: TwoStages, prompt: float, prompts: float) -> float:
    c, law = it.constants, it.prefill_law
    tokens = float(law.tokens_s(prompt * prompts))
    attention = law.c_x_s_per_token2 * prompts * prompt**2 / 2
    return tokens + attention + c.host_step_s + c.host_prefill_s + c.front_token_s * prompt


def _crowded_s(it: TwoStages, prompt: float) -> float:
    """Seconds of a prefill rank per prompt while others wait."""
    together = max(1.0, PREFILL_BUDGET // prompt)
    return _prefill_s(it, prompt, together) / together


def _decode_step_s(it: TwoStages, decoding: float, prompt: float, output: float) -> float:
    ranks = it.decode.replicas * it.decode.degrees.dp_degree
    here = max(decoding / ranks, min(1.0, decoding))
    c, law = it.constants, it.decode_law
    context = here * (prompt + output / 2)
    fixed = float(law.tokens_s(here)) + law.c_k_s_per_token * context
    return fixed + c.host_step_s + c.host_sequence_s * here
