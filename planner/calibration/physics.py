"""Mean TTFT and TPOT of a deployment under a benchmark client, by simulation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.calibration.constants import NO_CONSTANTS, EngineConstants
from planner.calibration.settings import EngineSettings, settings_of
from planner.curves.roofline import roofline
from planner.curves.transfer import APrioriLaw, Configuration, StepLawLibrary, mixed_law
from planner.kernels.closed_loop import EngineTimes, RankLaw, serve_users

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.calibration.parameters import Parameters
    from planner.calibration.points import Load, Stage, System
    from planner.curves.step_law import StepLaw
    from planner.kernels.closed_loop import ClientRecords

DISPERSION: Final = 0.15
"""Half-width by which equal outputs are spread where cohorts drift apart."""
_SEED: Final = 20_260_701


@dataclass(frozen=True, slots=True)
class Means:
    """Means over the requests of a run, at the client."""

    ttft_s: float
    tpot_s: float


def draw_lengths(
    load: Load, users: int, *, dispersed: bool
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return prompt and output lengths of ``rounds`` requests per user; shape ``(n,)`` each.

    Args:
        load: Nominal lengths and how they are drawn.
        users: Users of one rank.
        dispersed: Whether equal outputs are spread (see ``EngineSettings.dispersed``).
    """
    rng = np.random.default_rng(_SEED)
    n, p, o = load.rounds * users, load.prompt_tokens, load.output_tokens
    if load.lengths == "uniform":
        prompt = rng.integers(int(0.8 * p), p + 1, n)
        output = rng.integers(int(0.8 * o), o + 1, n)
    else:
        prompt, output = np.full(n, p), np.full(n, o)
        if dispersed:
            output = (output * rng.uniform(1 - DISPERSION, 1 + DISPERSION, n)).astype(np.int64)
    return np.maximum(prompt, 1).astype(np.int32), np.maximum(output, 2).astype(np.int32)


def rank_law(law: StepLaw) -> RankLaw:
    """Return a step law as the kernel takes it."""
    return RankLaw(
        np.asarray(law.knots, dtype=np.float64),
        np.asarray(law.step_s, dtype=np.float64),
        law.slope_beyond_s_per_token,
        law.c_x_s_per_token2,
        law.c_k_s_per_token,
    )


def engine_times(
    settings: EngineSettings, constants: EngineConstants, kv_tokens: int
) -> EngineTimes:
    """Return rules and host times as the kernel takes them."""
    return EngineTimes(
        scheduler=settings.scheduler,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        max_num_seqs=settings.max_num_seqs,
        kv_tokens=max(1, kv_tokens),
        reserved_output=settings.reserved_output,
        poll_steps=settings.poll_steps,
        late_steps=settings.late_steps,
        host_step_s=constants.host_step_s,
        host_sequence_s=constants.host_sequence_s,
        host_prefill_s=constants.host_prefill_s,
        front_token_s=constants.front_token_s,
        path_in_s=constants.path_s / 2,
        path_out_s=constants.path_s / 2,
        mixed_context=float(np.exp(constants.mixed_context_log)),
        cached_reread=constants.cached_reread,
    )


def users_of_rank(load: Load, stage: Stage) -> int:
    """Return the users that one attention rank of one replica sees, at least 1."""
    return max(1, round(load.users / stage.replicas / stage.degrees.dp_degree))


def means_of(records: ClientRecords, output: NDArray[np.int32], path_out_s: float) -> Means:
    """Return mean TTFT and TPOT at the client."""
    ttft = records.first_token_s - records.sent_s + path_out_s
    tpot = (records.finish_s - records.first_token_s) / np.maximum(output - 1, 1)
    return Means(float(ttft.mean()), float(tpot.mean()))


def configuration_of(system: System, stage: Stage) -> Configuration:
    """Return what a step law of one stage is wanted for."""
    return Configuration(
        system.llm, system.precision, system.accelerator, system.engine, stage.degrees
    )


class Physics:
    """Step laws, scheduling rules and host constants; nothing of the measured rows but those."""

    def __init__(self, library: StepLawLibrary, parameters: Parameters) -> None:
        self._library = library
        self._efficiency = parameters.roofline.efficiency()
        self._share = parameters.roofline_share
        self._constants = {name: e.constants() for name, e in parameters.engines.items()}
        self._laws: dict[tuple[object, ...], APrioriLaw] = {}

    def law(self, system: System) -> APrioriLaw:
        """Return the a-priori step law of a system's main stage, host constants applied.

        Raises:
            InputError: The catalogue knows too little of the model or the accelerator.
        """
        return self.law_of(configuration_of(system, system.main))

    def law_of(self, wanted: Configuration) -> APrioriLaw:
        """Return the a-priori step law of a configuration, host constants applied.

        Raises:
            InputError: The catalogue knows too little of the model or the accelerator.
        """
        w = wanted
        key = (w.llm.id, w.precision, w.accelerator.id, w.engine, w.degrees)
        if key not in self._laws:
            found = self._bare(w)
            self._laws[key] = replace(found, law=self.constants(w.engine).applied_to(found.law))
        return self._laws[key]

    def bare_law(self, system: System) -> APrioriLaw:
        """Return the a-priori step law of a system's main stage, of the accelerator alone.

        Raises:
            InputError: The catalogue knows too little of the model or the accelerator.
        """
        return self._bare(configuration_of(system, system.main))

    def _bare(self, w: Configuration) -> APrioriLaw:
        """Where the library has no law, moved laws and the fitted roofline are averaged."""
        found = self._library.law(w)
        if found.matched:
            return found
        base = roofline(w.geometry, w.formats, w.accelerator, w.degrees, self._efficiency)
        return replace(found, law=mixed_law(found.law, base.law, self._share))

    def constants(self, engine: str) -> EngineConstants:
        """Return the constants of an engine; where none are known, all zero."""
        return self._constants.get(engine, NO_CONSTANTS)

    def colocated(self, system: System, load: Load, law: APrioriLaw) -> Means:
        """Simulate the benchmark's client against one rank.

        Raises:
            InputError: The engine's scheduler is not known.
        """
        users = users_of_rank(load, system.main)
        settings = settings_of(system, load, users)
        prompt, output = draw_lengths(load, users, dispersed=settings.dispersed)
        times = engine_times(settings, self.constants(system.engine), law.kv_tokens)
        records = serve_users(rank_law(law.law), times, users, prompt, output)
        return means_of(records, output, times.path_out_s)
