"""One benchmark run against one system, request by request: means, percentiles, goodput."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from planner.calibration.physics import engine_times, rank_law
from planner.calibration.points import Load
from planner.calibration.settings import settings_of
from planner.kernels.closed_loop import serve_arrivals, serve_users

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.calibration.constants import EngineConstants
    from planner.calibration.points import System
    from planner.curves.step_law import StepLaw

Arrivals = Literal["closed", "poisson", "constant"]

_SEED: Final = 20_260_702
_OPEN_REQUESTS: Final = 4000
"""Requests of an open-loop prediction: its goodput's own noise is then under 1 %."""
_WARM_UP: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """What a benchmark client did: a closed loop of users, or arrivals at a rate."""

    arrivals: Arrivals
    users: int = 0
    rate_rps: float = 0.0
    requests: int = 0
    """Requests sent; 0: unknown."""
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    """Leading tokens of every prompt that are served from the prefix cache."""
    max_num_batched_tokens: int | None = None
    """None: the engine's default."""
    max_num_seqs: int | None = None
    ttft_slo_s: float | None = None
    tpot_slo_s: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run shows, in seconds and requests per second, at the client."""

    ttft_mean_s: float
    ttft_p50_s: float
    ttft_p90_s: float
    ttft_p99_s: float
    tpot_mean_s: float
    tpot_p50_s: float
    tpot_p90_s: float
    tpot_p99_s: float
    request_rps: float
    goodput_rps: float | None
    """Compliant requests per second of the run; None without deadlines."""
    attainment: float | None


def simulate_run(
    law: StepLaw, constants: EngineConstants, kv_tokens: int, system: System, client: Client
) -> Outcome:
    """Simulate a run of one replica.

    Args:
        law: Step law, host constants applied.
        constants: Host constants of the engine.
        kv_tokens: Cache of the replica.
        system: What serves; its scheduler counts.
        client: What is sent. Open loops of any length are predicted for a long run, its first
            tenth not counted.

    Raises:
        InputError: The engine is not known.
    """
    load = _load_of(client)
    settings = settings_of(system, load, max(client.users, 1))
    if client.max_num_batched_tokens is not None:
        budget = client.max_num_batched_tokens
        seqs = min(settings.max_num_seqs, budget)
        settings = replace(settings, max_num_batched_tokens=budget, max_num_seqs=seqs)
    if client.max_num_seqs is not None:
        settings = replace(settings, max_num_seqs=client.max_num_seqs)
    times = engine_times(settings, constants, kv_tokens)._replace(
        cached_tokens=client.cached_tokens
    )
    closed = client.arrivals == "closed"
    n = (client.requests or 10 * client.users) if closed else _OPEN_REQUESTS
    prompt = np.full(n, client.prompt_tokens, dtype=np.int32)
    output = np.full(n, client.output_tokens, dtype=np.int32)
    if closed:
        records = serve_users(rank_law(law), times, client.users, prompt, output)
        counted = slice(0, n)
    else:
        records = serve_arrivals(rank_law(law), times, _sent_s(client, n), prompt, output)
        counted = slice(int(_WARM_UP * n), n)
    ttft = (records.first_token_s - records.sent_s + times.path_out_s)[counted]
    tpot = ((records.finish_s - records.first_token_s) / np.maximum(output - 1, 1))[counted]
    span = float(records.finish_s.max() - records.sent_s[counted][0])
    rate = ttft.size / span
    good = None
    if client.ttft_slo_s is not None and client.tpot_slo_s is not None:
        good = float(((ttft <= client.ttft_slo_s) & (tpot <= client.tpot_slo_s)).mean())
    offered = rate if closed else min(client.rate_rps, rate)
    t, o = np.quantile(ttft, (0.5, 0.9, 0.99)), np.quantile(tpot, (0.5, 0.9, 0.99))
    return Outcome(
        ttft_mean_s=float(ttft.mean()),
        ttft_p50_s=float(t[0]),
        ttft_p90_s=float(t[1]),
        ttft_p99_s=float(t[2]),
        tpot_mean_s=float(tpot.mean()),
        tpot_p50_s=float(o[0]),
        tpot_p90_s=float(o[1]),
        tpot_p99_s=float(o[2]),
        request_rps=rate,
        goodput_rps=None if good is None else good * offered,
        attainment=good,
    )


def _sent_s(client: Client, n: int) -> NDArray[np.float64]:
    gaps = np.full(n, 1 / client.rate_rps)
    if client.arrivals == "poisson":
        gaps = np.random.default_rng(_SEED).exponential(1 / client.rate_rps, n)
    return np.cumsum(gaps)


def _load_of(client: Client) -> Load:
    return Load(max(client.users, 1), client.prompt_tokens, client.output_tokens, "fixed")
