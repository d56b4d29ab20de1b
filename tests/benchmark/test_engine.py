"""Requests per CPU-second of the fleet simulator, on lengths like those of a chat service.

Lognormal lengths, 1155 prompt and 211 output tokens on average, Poisson arrivals, and a law of
round numbers like an 8-billion model on one large accelerator, with its KV limit.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from planner.kernels.engine import COMPILED, STATUS, Traffic, compiled, plain, simulate_fleet
from planner.kernels.stepwise import (
    Colocated,
    Disaggregated,
    EngineOptions,
    LinkOptions,
    RouterOptions,
    StepLaw,
)
from tests.benchmark.test_kernel import LIMITS, capacity_rps, lengths

if TYPE_CHECKING:
    from planner.kernels.engine import FleetRecords

pytestmark = pytest.mark.benchmark

PS = 10**12
SHIFT = 16
LAW = StepLaw(  # that of test_kernel
    ((0, 6_000_000_000), (2048, 6_000_000_000 + 25_000_000 * 2048)),
    c_x=round(1e-9 * PS * 2**15),
    c_k=49_000,
    shift=SHIFT,
)
ENGINE = EngineOptions(
    max_num_seqs=LIMITS.max_num_seqs,
    max_num_batched_tokens=LIMITS.max_num_batched_tokens,
    usable_blocks=LIMITS.kv_blocks,
)
SYSTEM_PROMPTS = 20


def traffic(n: int, load: float, *, replicas: float = 1, prefixes: bool = False) -> Traffic:
    rng = np.random.default_rng(1)
    prompt, output = lengths(rng, 1155, 1.0, n), lengths(rng, 211, 0.9, n)
    rate = load * capacity_rps(prompt, output) * replicas
    arrival = np.cumsum(rng.exponential(PS / rate, n)).astype(np.int64)
    start = names = None
    if prefixes:  # one of a few system prompts of 512 tokens
        start = np.arange(n + 1) * 32
        system = rng.integers(0, SYSTEM_PROMPTS, n)
        names = (system[:, None] * 32 + np.arange(32)).astype(np.int32).reshape(-1)
    priority = rng.integers(0, 3, n).astype(np.int32)
    return Traffic(
        arrival, prompt, output, priority=priority, prefix_start=start, prefix_name=names
    )


def report(what: str, run, requests: Traffic, setup, **options) -> float:
    """Requests per CPU-second, best of three."""
    n, best = len(requests.arrival), np.inf
    for _ in range(3):
        start = time.process_time()
        r: FleetRecords = run(requests, setup, **options)
        best = min(best, time.process_time() - start)
    print(
        f"\n{what}: {n / best:,.0f} requests per CPU-second ({sum(r.n_steps) / n:.2f} steps, "
        f"{r.preemptions.mean():.4f} preemptions, {r.cached_tokens.mean():.0f} cached tokens "
        f"per request; {(r.fate == 1).mean():.2%} finished)"
    )
    return n / best


VARIANTS = {
    "v1": {},
    "v1, prefix caching": {"prefix_caching": True},
    "v1, priority": {"policy": "priority"},
    "v1, no chunked prefill": {"enable_chunked_prefill": False, "max_num_batched_tokens": 32_768},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_one_replica_within_3_times_of_the_fast_kernel(name: str) -> None:
    assert COMPILED, STATUS
    setup = Colocated(replace(ENGINE, **VARIANTS[name]), LAW)
    assert report(name, simulate_fleet, traffic(500_000, 0.8), setup) >= 10e6 / 3


def test_shared_system_prompts() -> None:
    setup = Colocated(replace(ENGINE, prefix_caching=True), LAW)
    report("system prompts", simulate_fleet, traffic(300_000, 0.8, prefixes=True), setup)


@pytest.mark.parametrize("sharing", ["fifo", "fair"])
def test_four_prefill_and_six_decode_replicas(sharing: str) -> None:
    link = LinkOptions(ticks_per_token=600_000, latency=10**9, sharing=sharing)
    least = RouterOptions("least_outstanding")
    setup = Disaggregated(
        ENGINE,
        LAW,
        ENGINE,
        LAW,
        link,
        n_prefill=4,
        n_decode=6,
        hop=2 * 10**9,
        prefill_router=least,
        decode_router=least,
    )
    report(f"4P+6D, {sharing}", simulate_fleet, traffic(500_000, 0.8, replicas=6), setup)


@pytest.mark.parametrize("route", ["round_robin", "least_outstanding", "least_kv"])
def test_sixteen_replicas(route: str) -> None:
    setup = Colocated(ENGINE, LAW, 16, RouterOptions(route))
    report(f"16 replicas, {route}", simulate_fleet, traffic(300_000, 0.8, replicas=16), setup)


def test_long_prefills_in_pieces() -> None:
    setup = Colocated(replace(ENGINE, long_prefill_token_threshold=512), LAW)
    report("threshold 512", simulate_fleet, traffic(500_000, 0.8), setup)


def test_asynchronous_scheduling() -> None:
    setup = Colocated(replace(ENGINE, async_scheduling=True), LAW)
    report("asynchronous", simulate_fleet, traffic(500_000, 0.8), setup)


@pytest.mark.parametrize("change", [{"pp_degree": 2}, {"kind": "sarathi"}, {"kind": "v0"}])
def test_step_by_step(change: dict[str, object]) -> None:
    setup = Colocated(replace(ENGINE, **change), LAW)
    report(str(change), simulate_fleet, traffic(50_000, 0.8), setup)


def test_accounts_of_where_time_went() -> None:
    """What keeping accounts costs, beside what steps cost that are taken one by one."""
    requests = traffic(50_000, 0.8, prefixes=True)
    setup = Colocated(replace(ENGINE, prefix_caching=True), LAW)
    options = {"token_times": False, "keep_steps": False, "max_steps": 10**9}
    fast = report("skipping", compiled.run, requests, setup, **options)
    literal = report("step by step", compiled.run, requests, setup, literal=True, **options)
    kept = report("with accounts", compiled.run, requests, setup, stages=True, **options)
    print(f"\nskipping / accounts {fast / kept:.2f}, accounts / step by step {kept / literal:.1f}")


def test_against_plain_python() -> None:
    requests, setup = traffic(1_000, 0.8), Colocated(ENGINE, LAW)
    options = {"token_times": False, "keep_steps": False, "max_steps": 10**9}
    fast = report("compiled", compiled.run, requests, setup, **options)
    literal = report(
        "compiled, step by step", compiled.run, requests, setup, literal=True, **options
    )
    slow = report("plain", plain.run, requests, setup, **options)
    print(f"\ncompiled / plain {fast / slow:,.0f}, step by step / plain {literal / slow:,.0f}")
