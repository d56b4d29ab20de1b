"""A step law fitted through the simulator, so that predicted runs match measured ones.

The a-priori law is the prior: its parts are scaled by factors whose logarithms have the spread
that such laws are known to have. Few loads already move the parts that they see; parts that
they do not see stay where they were, and the covariance says so (Laplace approximation).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.calibration.least_squares import solved
from planner.calibration.run import Client, Outcome, simulate_run
from planner.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from planner.calibration.constants import EngineConstants
    from planner.calibration.points import System
    from planner.curves.step_law import StepLaw

    Floats = NDArray[np.float64]

PARTS: Final = {
    "decode_log": 0.25,
    "prefill_log": 0.35,
    "context_log": 0.4,
    "attention_log": 0.4,
    "mixed_context_log": 0.7,
    "cached_reread": 0.3,
    "host_step_s": 0.8e-3,
    "path_s": 30e-3,
}
"""What is fitted, and how far a-priori laws are usually off (ln, or seconds)."""

PLANNED: Final = tuple(n for n in PARTS if n not in ("mixed_context_log", "cached_reread"))
"""What a plan's simulator can express: its law has no term of its own for these two."""

USUAL_ERROR: Final = {
    "ttft_mean_s": 0.12, "ttft_p50_s": 0.05, "ttft_p90_s": 0.12, "ttft_p99_s": 0.25,
    "tpot_mean_s": 0.03, "tpot_p50_s": 0.03, "tpot_p90_s": 0.04, "tpot_p99_s": 0.06,
    "request_rps": 0.03,
}  # fmt: skip
"""Repeatability of a run and what the simulator leaves out, in ln."""


@dataclass(frozen=True, slots=True)
class Observation:
    """A run and what was measured of it, by the names of ``Outcome``."""

    client: Client
    measured: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class FittedLaw:
    """A calibrated step law."""

    law: StepLaw
    constants: EngineConstants
    kv_tokens: int
    system: System
    parts: Mapping[str, float]
    """Fitted values of ``PARTS``: factors as logarithms, times as additions in seconds."""
    sd: Mapping[str, float]
    """Their standard deviations."""
    left_over: float
    """Root mean square of the misfit, in usual errors."""

    def outcome(self, client: Client) -> Outcome:
        """Predict a run."""
        return simulate_run(self.law, self.constants, self.kv_tokens, self.system, client)


def fit_law(
    law: StepLaw,
    constants: EngineConstants,
    kv_tokens: int,
    system: System,
    seen: Sequence[Observation],
    names: Sequence[str] = tuple(PARTS),
) -> FittedLaw:
    """Fit the parts of a law to measured runs.

    Args:
        law: The a-priori law, without the engine's factors.
        constants: The engine's constants, the start of host and path times.
        kv_tokens: Cache of the replica.
        system: What serves.
        seen: Measured runs, at least one.
        names: Which of ``PARTS`` may move; the others stay where the prior has them.

    Raises:
        InputError: Nothing was measured that the fit understands.
    """
    wanted = [
        (o.client, [(name, np.log(v)) for name, v in o.measured.items() if name in USUAL_ERROR])
        for o in seen
    ]
    if not any(values for _, values in wanted):
        raise InputError(f"no measured quantity; understood are {', '.join(USUAL_ERROR)}")
    scale = np.array([PARTS[name] for name in names])

    def made(x: Floats) -> tuple[StepLaw, EngineConstants]:
        moved = dict.fromkeys(PARTS, 0.0) | dict(zip(names, x * scale, strict=True))
        host = replace(
            constants,
            **{n: getattr(constants, n) + v for n, v in moved.items() if n.endswith("_log")},
            host_step_s=max(0.0, constants.host_step_s + moved["host_step_s"]),
            cached_reread=min(1.0, max(0.0, constants.cached_reread + moved["cached_reread"])),
            path_s=max(0.0, constants.path_s + moved["path_s"]),
        )
        return host.applied_to(law), host

    def cost(x: Floats) -> Floats:
        scaled, host = made(x)
        errors: list[float] = []
        for client, values in wanted:
            if not values:
                continue
            found = simulate_run(scaled, host, kv_tokens, system, client)
            errors += [(np.log(getattr(found, n)) - v) / USUAL_ERROR[n] for n, v in values]
        return np.array([*errors, *x])

    found = solved(cost, len(names), rounds=15)
    spread = np.sqrt(np.diag(np.linalg.inv(found.jac.T @ found.jac)))
    scaled, host = made(found.x)
    misfit = cost(found.x)[: -len(names)]
    return FittedLaw(
        law=scaled,
        constants=host,
        kv_tokens=kv_tokens,
        system=system,
        parts=dict(zip(names, (found.x * scale).tolist(), strict=True)),
        sd=dict(zip(names, (spread * scale).tolist(), strict=True)),
        left_over=float(np.sqrt(np.mean(misfit**2))),
    )
