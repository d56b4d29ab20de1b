"""Mean TTFT and TPOT of disaggregated deployments: a closed loop of two stages.

C users go round: a queue and a prefill at one of the prefill ranks, the transfer of the cache,
then output tokens at a decode rank, whose pace depends on how many are there. The loop settles
where the users add up; near saturation the queue grows smoothly, since lengths and routing
vary. On top comes the client's initial burst: in the first of its rounds all C prompts stand
in the prefill queue at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.calibration.physics import Means

if TYPE_CHECKING:
    from planner.calibration.constants import EngineConstants
    from planner.calibration.points import Load, Stage
    from planner.curves.step_law import StepLaw

PREFILL_BUDGET: Final = 16384
"""Tokens that a prefill rank computes in one step, if as many wait."""
_ITERATIONS: Final = 60
_DAMPING: Final = 0.3
_MOST_BUSY: Final = 50.0
"""Beyond this many softnesses the softened queue is the plain one, and exp would overflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOff:
    """Constants of disaggregated serving, the same for all engines."""

    alone_factor: float = 1.0
    """Time of a prefill alone on its rank, over what its step law says."""
    crowded_factor: float = 1.0
    """The same per prompt while others wait: batches are fuller than the budget assumed."""
    path_s: float = 0.0
    """A second hop through the router, and the decode engine's admission."""
    burst_factor: float = 1.0
    """How much longer the initial burst's queue is than that of prompts served evenly: routers
    fill one prefill rank before they know its load, and caches of first prompts are compiled."""
    softness: float = 0.05
    """Share of a user's cycle over which the queue's onset is spread."""


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
    hand_off: HandOff


def disaggregated_means(it: TwoStages, load: Load) -> Means:
    """Return the means over the requests of one benchmark run."""
    share = 0.9 if load.lengths == "uniform" else 1.0
    prompt, output = share * load.prompt_tokens, share * load.output_tokens
    ranks = it.prefill.replicas * it.prefill.degrees.dp_degree
    h = it.hand_off
    crowded = _crowded_s(it, prompt) * h.crowded_factor
    fixed = (
        _prefill_s(it, prompt, 1) * h.alone_factor
        + it.transfer_s_per_token * prompt
        + it.constants.path_s
        + h.path_s
    )
    capacity = ranks / crowded
    wait, step = 0.0, _decode_step_s(it, 1.0, prompt, output)
    for _ in range(_ITERATIONS):
        decode = (output - 1) * step
        rate = min(load.users / (wait + fixed + decode), capacity)
        step += _DAMPING * (_decode_step_s(it, rate * decode, prompt, output) - step)
        rest = fixed + decode
        wait += _DAMPING * (_softened(load.users / capacity - rest, h.softness * rest) - wait)
    settled = wait + fixed + step
    queued = max(load.users / ranks - 1, 0) * crowded / 2 * h.burst_factor
    burst = max(settled, queued + fixed + step)
    return Means((burst + (load.rounds - 1) * settled) / load.rounds, step)


def _softened(queue_s: float, softness_s: float) -> float:
    """max(queue, 0) with a smooth onset: s ln(1 + exp(queue / s))."""
    ratio = queue_s / softness_s
    return queue_s if ratio > _MOST_BUSY else softness_s * float(np.logaddexp(0.0, ratio))


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
