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
    from planner.calibration.points import Lengths, System
    from planner.calibration.settings import EngineSettings
    from planner.curves.step_law import StepLaw
    from planner.kernels.closed_loop import EngineTimes, RankLaw

Arrivals = Literal["closed", "poisson", "constant"]

_SEED: Final = 20_260_702
_OPEN_REQUESTS: Final = 2000
"""Requests of an open-loop prediction: its goodput's own noise is then about 1 %."""
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
    lengths: Lengths = "fixed"
    """``uniform``: each length is drawn from [0.8, 1.0] of the nominal one."""
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
        client: What is sent. Of an open loop of unknown length a long run is predicted, its
            first tenth not counted; of a known length, the mean over such runs.

    Raises:
        InputError: The engine is not known.
    """
    settings = settings_for(system, client)
    times = engine_times(settings, constants, kv_tokens)._replace(
        cached_tokens=client.cached_tokens
    )
    parts = [_serve(rank_law(law), times, client, draw) for draw in range(_draws(client))]
    ttft = np.concatenate([p.ttft_s for p in parts])
    tpot = np.concatenate([p.tpot_s for p in parts])
    rate = ttft.size / sum(p.span_s for p in parts)
    return outcome_of(ttft, tpot, rate, client)


def outcome_of(
    ttft: NDArray[np.float64], tpot: NDArray[np.float64], rate: float, client: Client
) -> Outcome:
    """Return what a run shows, from the times of its counted requests.

    Args:
        ttft: Seconds, shape ``(n,)``.
        tpot: Seconds, shape ``(n,)``.
        rate: Requests per second that were served.
        client: Its deadlines decide what is compliant.
    """
    good = None
    if client.ttft_slo_s is not None and client.tpot_slo_s is not None:
        good = float(((ttft <= client.ttft_slo_s) & (tpot <= client.tpot_slo_s)).mean())
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
        goodput_rps=None if good is None else good * rate,
        attainment=good,
    )


def settings_for(system: System, client: Client) -> EngineSettings:
    """Return the rules under which a replica serves a run: its own settings, else defaults.

    Raises:
        InputError: The engine is not known.
    """
    users = max(client.users, 1)
    settings = settings_of(system, _load_of(client), users)
    if client.max_num_batched_tokens is not None:
        budget = client.max_num_batched_tokens
        seqs = min(settings.max_num_seqs, budget)
        settings = replace(settings, max_num_batched_tokens=budget, max_num_seqs=seqs)
    if client.max_num_seqs is not None:
        settings = replace(settings, max_num_seqs=client.max_num_seqs)
    return settings


@dataclass(frozen=True, slots=True)
class _Part:
    ttft_s: NDArray[np.float64]
    tpot_s: NDArray[np.float64]
    span_s: float
    """From the first counted request to the last token, as benchmarks divide by."""


def _draws(client: Client) -> int:
    """Open loops are short and random: the mean over many such runs is what is predicted."""
    if client.arrivals != "poisson" or not client.requests:
        return 1
    return max(1, -(-_OPEN_REQUESTS // client.requests))


def _serve(law: RankLaw, times: EngineTimes, client: Client, draw: int) -> _Part:
    closed = client.arrivals == "closed"
    n = client.requests or (10 * client.users if closed else _OPEN_REQUESTS)
    prompt, output = _lengths(client, n)
    if closed:
        records = serve_users(law, times, client.users, prompt, output)
    else:
        records = serve_arrivals(law, times, _sent_s(client, n, draw), prompt, output)
    first = 0 if closed or client.requests else int(_WARM_UP * n)
    ttft = (records.first_token_s - records.sent_s + times.path_out_s)[first:]
    tpot = ((records.finish_s - records.first_token_s) / np.maximum(output - 1, 1))[first:]
    return _Part(ttft, tpot, float(records.finish_s.max() - records.sent_s[first]))


def _lengths(client: Client, n: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    p, o = client.prompt_tokens, client.output_tokens
    if client.lengths == "fixed":
        return np.full(n, p, dtype=np.int32), np.full(n, o, dtype=np.int32)
    rng = np.random.default_rng(_SEED)
    prompt = rng.integers(max(1, int(0.8 * p)), p + 1, n)
    output = rng.integers(max(1, int(0.8 * o)), o + 1, n)
    return prompt.astype(np.int32), output.astype(np.int32)


def _sent_s(client: Client, n: int, draw: int) -> NDArray[np.float64]:
    gaps = np.full(n, 1 / client.rate_rps)
    if client.arrivals == "poisson":
        gaps = np.random.default_rng((_SEED, draw)).exponential(1 / client.rate_rps, n)
    return np.cumsum(gaps)


def _load_of(client: Client) -> Load:
    return Load(max(client.users, 1), client.prompt_tokens, client.output_tokens, client.lengths)
