"""An open loop of a disaggregated deployment: prompts at one stage, tokens at the other.

Each prefill rank sees its share of the arrivals and gives every request one token; when that is
there the cache moves, and a decode rank, which has the prompt but for its last token, goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.calibration.physics import configuration_of, engine_times, rank_law
from planner.calibration.predict import NETWORK_BYTES_PER_S
from planner.calibration.run import Outcome, outcome_of, settings_for
from planner.errors import InputError
from planner.kernels.closed_loop import serve_arrivals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.calibration.constants import EngineConstants
    from planner.calibration.physics import Physics
    from planner.calibration.points import Stage, System
    from planner.calibration.run import Client
    from planner.curves.step_law import StepLaw
    from planner.curves.transfer import APrioriLaw
    from planner.kernels.closed_loop import EngineTimes

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int32]

_SEED: Final = 20_260_703
_REQUESTS: Final = 4000
_WARM_UP: Final = 0.1


@dataclass(frozen=True, slots=True)
class Stages:
    """Laws of both stages, host constants, and the time to move a prompt's cache."""

    prefill: StepLaw
    law: APrioriLaw
    """Of the decode stage."""
    constants: EngineConstants
    prefill_kv_tokens: int
    transfer_s_per_token: float

    @classmethod
    def of(cls, physics: Physics, system: System) -> Stages:
        """Return the a-priori laws of a disaggregated system.

        Raises:
            InputError: The catalogue knows too little of the model or the accelerator.
        """
        if system.prefill is None:
            raise InputError("not disaggregated")
        ahead = configuration_of(system, system.prefill)
        prefill, decode = physics.law_of(ahead), physics.law(system)
        return cls(
            prefill.law,
            decode,
            physics.constants(system.engine),
            prefill.kv_tokens,
            ahead.roofline().kv_bytes_per_token / NETWORK_BYTES_PER_S,
        )

    def slowed(self, factor: float) -> Stages:
        """Return stages whose every step takes ``factor`` times as long."""
        return replace(
            self,
            prefill=self.prefill.slowed(factor),
            law=replace(self.law, law=self.law.law.slowed(factor)),
            constants=self.constants.slowed(factor),
        )


def simulate_stages(stages: Stages, system: System, client: Client) -> Outcome:
    """Simulate a run of the whole deployment.

    Args:
        stages: What serves.
        system: Its stages and engine.
        client: Poisson arrivals at the whole deployment.

    Raises:
        InputError: The engine is not known, or the arrivals are no open loop.
    """
    ahead, main = system.prefill, system.main
    if ahead is None or client.arrivals == "closed":
        raise InputError("only open loops of disaggregated deployments are simulated")
    n = client.requests or _REQUESTS
    sent = np.cumsum(np.random.default_rng(_SEED).exponential(1 / client.rate_rps, n))
    settings = settings_for(system, client)
    times = engine_times(settings, stages.constants, stages.prefill_kv_tokens)
    cached = times._replace(cached_tokens=client.cached_tokens)
    one, prompt, output = (
        np.full(n, k, dtype=np.int32) for k in (1, client.prompt_tokens, client.output_tokens)
    )
    _, start = _served(stages.prefill, cached, ahead, sent, prompt, one)
    start += stages.transfer_s_per_token * client.prompt_tokens
    order = np.argsort(start, kind="stable")
    first, finish = _served(
        stages.law.law, _decoding(times, stages, client), main, start[order], one, output
    )
    count = order >= int(_WARM_UP * n)
    ttft = (first - sent[order] + times.path_out_s)[count]
    tpot = ((finish - first) / np.maximum(output - 1, 1))[count]
    span = float(finish.max() - sent[int(_WARM_UP * n)])
    return outcome_of(ttft, tpot, ttft.size / span, client)


def _decoding(times: EngineTimes, stages: Stages, client: Client) -> EngineTimes:
    """Return times of a rank that has the prompts already: it reads them, and has room for them.

    A prompt is handed over as one token, so the reading of the others is charged by sequence, and
    as many sequences run as whole requests fit in the cache.
    """
    whole = client.prompt_tokens + client.output_tokens
    seats = max(1, min(times.max_num_seqs, stages.law.kv_tokens // whole))
    read = stages.law.law.c_k_s_per_token * (client.prompt_tokens - 1)
    return times._replace(
        kv_tokens=max(1, stages.law.kv_tokens),
        max_num_seqs=seats,
        host_sequence_s=times.host_sequence_s + read,
        path_in_s=0.0,
    )


def _served(
    law: StepLaw,
    times: EngineTimes,
    stage: Stage,
    sent: Floats,
    prompt: Ints,
    output: Ints,
) -> tuple[Floats, Floats]:
    """Return first token and finish of requests that are dealt out in turn to a stage's ranks."""
    first, finish = np.zeros(sent.size), np.zeros(sent.size)
    ranks = stage.replicas * stage.degrees.dp_degree
    for rank in range(min(ranks, sent.size)):
        own = slice(rank, None, ranks)
        found = serve_arrivals(
            rank_law(law), times, sent[own].copy(), prompt[own].copy(), output[own].copy()
        )
        first[own], finish[own] = found.first_token_s, found.finish_s
    return first, finish
