"""Requests per CPU-second of the simulators, on lengths like those of a chat service.

Lognormal lengths, 1155 prompt and 211 output tokens on average, Poisson arrivals, a law of
round numbers like an 8-billion model on one large accelerator, and its KV limit.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from planner.kernels import Law, Limits, compiled, plain, simulate_closed_loop
from tests import oracle

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.kernels import Records

pytestmark = pytest.mark.benchmark

PS = 1e12
STEP_S, TOKEN_S, CONTEXT_S, SQUARE_S = 6e-3, 25e-6, 49e-9, 1e-9
LIMITS = Limits(max_num_seqs=256, max_num_batched_tokens=2048, kv_blocks=25_700)
LAW = Law(
    np.rint((STEP_S + TOKEN_S * np.arange(2049)) * PS).astype(np.int64),
    square_ps_2p15=round(SQUARE_S * PS * 2**15),
    context_ps=round(CONTEXT_S * PS),
)


def lengths(rng: np.random.Generator, mean: float, sigma: float, n: int) -> np.ndarray:
    draw = rng.lognormal(np.log(mean) - sigma**2 / 2, sigma, n)
    return np.rint(draw).clip(1, 32_000).astype(np.int32)


def capacity_rps(prompt: np.ndarray, output: np.ndarray) -> float:
    """Mean-field limit of one replica: the least that work, seats or KV blocks allow."""
    p, decodes = prompt.astype(float), output - 1.0
    context = np.mean(decodes * (p + output / 2))
    work_s = TOKEN_S * (decodes.mean() + p.mean()) + CONTEXT_S * context
    work_s += SQUARE_S * np.mean(p * p) / 2
    seats = LIMITS.max_num_seqs / (decodes.mean() * STEP_S + LIMITS.max_num_seqs * work_s)
    cache = LIMITS.kv_blocks * LIMITS.block_size
    return min(1 / work_s, seats, cache / (context * STEP_S + cache * work_s))


def measure(
    run: Callable[..., Records],
    n: int,
    *,
    load: float,
    prompt_mean: float = 1155,
    output_mean: float = 211,
    replicas: int = 1,
    router: int = 0,
) -> float:
    """Requests per CPU-second, best of three."""
    rng = np.random.default_rng(1)
    prompt = lengths(rng, prompt_mean, 1.0, n)
    output = lengths(rng, output_mean, 0.9, n)
    rate = load * capacity_rps(prompt, output) * replicas
    arrival = np.cumsum(rng.exponential(PS / rate, n)).astype(np.int64)
    best = np.inf
    for _ in range(3):
        start = time.process_time()
        r = run(LAW, LIMITS, arrival, prompt, output, replicas, router)
        best = min(best, time.process_time() - start)
    print(
        f"\n{run.__module__.rpartition('.')[2]} load {load} {prompt_mean}/{output_mean} tokens, "
        f"{replicas} replicas, router {router}: {n / best:,.0f} requests per CPU-second "
        f"({r.steps / n:.2f} steps, {r.events / n:.2f} events, {r.preemptions.mean():.4f} "
        f"preemptions per request; peak {r.peak_kv_blocks} blocks)"
    )
    return n / best


def test_compiled_serves_8_million_requests_per_second_at_80_percent_load() -> None:
    assert compiled.COMPILED, compiled.STATUS
    assert measure(compiled.run, 1_000_000, load=0.8) >= 8e6


def test_plain_serves_150_thousand_requests_per_second_at_80_percent_load() -> None:
    assert measure(plain.run, 100_000, load=0.8) >= 150e3


@pytest.mark.parametrize("load", [0.1, 0.5, 0.95, 1.1])
def test_other_loads(load: float) -> None:
    measure(compiled.run, 500_000, load=load)
    measure(plain.run, 30_000, load=load)


def test_long_outputs_that_press_on_memory() -> None:
    measure(compiled.run, 100_000, load=0.95, prompt_mean=500, output_mean=4000)
    measure(plain.run, 5_000, load=0.95, prompt_mean=500, output_mean=4000)


@pytest.mark.parametrize("replicas", [4, 16, 64])
@pytest.mark.parametrize("router", [0, 1])
def test_many_replicas(replicas: int, router: int) -> None:
    measure(compiled.run, 500_000, load=0.8, replicas=replicas, router=router)


# --- stages ----------------------------------------------------------------------------------


def traffic(n: int, *, load: float, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    prompt, output = lengths(rng, 1155, 1.0, n), lengths(rng, 211, 0.9, n)
    rate = load * capacity_rps(prompt, output)
    return np.cumsum(rng.exponential(PS / rate, n)).astype(np.int64), prompt, output


def least_s(run: Callable[[], object], times: int = 5) -> float:
    """CPU seconds, the best of several."""
    best = np.inf
    for _ in range(times):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize("load", [0.5, 0.8, 0.95])
def test_stages_cost_little(load: float) -> None:
    n = 500_000
    requests = traffic(n, load=load)
    without = least_s(lambda: compiled.run(LAW, LIMITS, *requests, 1, 0))
    with_stages = least_s(lambda: compiled.run(LAW, LIMITS, *requests, 1, 0, stages=True))
    print(
        f"\nload {load}: {n / with_stages:,.0f} requests per CPU-second with all stages recorded, "
        f"{n / without:,.0f} with stages accounted for but not written"
    )
    few = traffic(30_000, load=load)
    without = least_s(lambda: plain.run(LAW, LIMITS, *few, 1, 0), 3)
    with_stages = least_s(lambda: plain.run(LAW, LIMITS, *few, 1, 0, stages=True), 3)
    print(f"plain: {30_000 / with_stages:,.0f} and {30_000 / without:,.0f}")


# --- against the rules taken literally -------------------------------------------------------


def literal(folder: Path) -> Callable[..., np.ndarray]:
    """Return finish times by the literal loop: in C++ if there is a compiler, else in Python."""
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        return literal_in_python
    library = folder / "literal.so"
    source = Path(__file__).with_name("literal.cpp")
    flags = ["-O3", "-std=c++17", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, str(source), "-o", str(library)], check=True)
    function = ctypes.CDLL(str(library)).literal
    function.argtypes = [ctypes.c_void_p, *[ctypes.c_int64] * 9, *[ctypes.c_void_p] * 4]

    def run(arrival: np.ndarray, prompt: np.ndarray, output: np.ndarray) -> np.ndarray:
        finish = np.empty(len(arrival), np.int64)
        arrays = (array.ctypes.data for array in (arrival, prompt, output, finish))
        function(LAW.tokens_ps.ctypes.data, *LAW[1:], *LIMITS[:4], len(arrival), *arrays)
        return finish

    return run


def literal_in_python(arrival: np.ndarray, prompt: np.ndarray, output: np.ndarray) -> np.ndarray:
    requests, _ = oracle.simulate(LAW, LIMITS, arrival, prompt, output)
    return np.array([request.finish for request in requests])


def test_speed_against_the_literal_loop(tmp_path: Path) -> None:
    run = literal(tmp_path)
    n = 2_000 if run is literal_in_python else 100_000
    for load in (0.1, 0.5, 0.8, 0.95):
        requests = traffic(n, load=load)
        assert (run(*requests) == compiled.run(LAW, LIMITS, *requests, 1, 0).finish_ps).all()
        slow = least_s(lambda requests=requests: run(*requests), 2)
        fast = least_s(lambda r=requests: compiled.run(LAW, LIMITS, *r, 1, 0, stages=True))
        print(f"\nload {load}: {slow / fast:.1f} times as fast as the literal loop, {run.__name__}")


# --- threads, clients, streams ---------------------------------------------------------------


def test_two_threads_against_one() -> None:
    """Wall time of four independent runs; a control of plain sums shows what the machine has."""
    jobs = [traffic(300_000, load=0.8, seed=seed) for seed in range(4)]

    def run(job: tuple[np.ndarray, np.ndarray, np.ndarray]) -> int:
        return compiled.run(LAW, LIMITS, *job, 1, 0).steps

    def wall(threads: int) -> tuple[float, float]:
        best, busy = np.inf, 0.0
        for _ in range(5):
            start, cpu = time.perf_counter(), time.process_time()
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(run, jobs))
            taken = time.perf_counter() - start
            if taken < best:
                best, busy = taken, (time.process_time() - cpu) / taken
        return best, busy

    (one, one_busy), (two, two_busy) = wall(1), wall(2)
    print(
        f"\ntwo threads are {one / two:.2f} times as fast as one "
        f"(cores in use: {two_busy:.2f} against {one_busy:.2f})"
    )


@pytest.mark.parametrize("clients", [1, 16, 256])
@pytest.mark.parametrize("replicas", [1, 8])
def test_closed_loop(clients: int, replicas: int) -> None:
    n = 20_000 if clients == 1 else 200_000
    _, prompt, output = traffic(n, load=0.8)
    taken = least_s(
        lambda: simulate_closed_loop(
            LAW, LIMITS, prompt, output, clients=clients * replicas, replicas=replicas
        ),
        3,
    )
    print(f"\n{clients} clients on each of {replicas}: {n / taken:,.0f} requests per CPU-second")


STREAM = """
import re, sys, time
from pathlib import Path
import numpy as np
from planner.kernels import Law, Limits
from planner.problem.deadlines import Deadlines
from planner.problem.lengths import IndependentLengths, LengthMarginal
from planner.simulation.draw import Draws
from planner.simulation.pool import PoolSetup
from planner.simulation.stream import stream_pool

n, rate = int(sys.argv[1]), float(sys.argv[2])
laws = (IndependentLengths(LengthMarginal(1155, 1.3), LengthMarginal(211, 1.1)),)
deadlines = Deadlines(*(np.array([x]) for x in (10**12, 5 * 10**10, 10**6)))
tokens = np.rint((6e-3 + 25e-6 * np.arange(2049)) * 1e12).astype(np.int64)
law, limits = Law(tokens, round(1e3 * 2**15), 49_000), Limits(256, 2048, 25_700)
pool = PoolSetup(law, limits, 1, "round_robin")
start = time.process_time()
s = stream_pool(pool, Draws(laws, 1), (rate,), deadlines, requests=n)
taken = time.process_time() - start
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())  # of Linux
mib = int(peak[1]) / 1024
print(f"{n:,} requests over {s.last_finish_ps / 8.64e16:,.1f} days at {rate} per second: "
      f"{n / taken:,.0f} per CPU-second with drawing, {mib:.0f} MiB at most")
assert sum(c.completed for c in s.classes) == n
assert mib <= 150
"""


@pytest.mark.parametrize("rate", [1.0, 14.0])
def test_a_stream_of_30_million_fits_in_150_mib(rate: float) -> None:
    assert compiled.COMPILED, compiled.STATUS
    arguments = [sys.executable, "-c", STREAM, "30000000", str(rate)]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    print("\n" + done.stdout.strip())
