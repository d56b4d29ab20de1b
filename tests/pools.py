"""Random pools and traffic for the kernel tests, chosen to hit corners rather than to be real."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from planner.kernels import ClientRecords, Gaps, Law, Limits, Records, Stages, compiled, plain
from planner.kernels import plain_clients as clients
from tests import oracle

ROUTERS = ("round_robin", "least_outstanding")
SIMULATORS = (compiled.run, plain.run) if compiled.COMPILED else (plain.run,)


class Case(NamedTuple):
    law: Law
    limits: Limits
    arrival: np.ndarray
    prompt: np.ndarray
    output: np.ndarray
    replicas: int = 1
    router: str = "round_robin"

    @property
    def rejected(self) -> np.ndarray:
        cache = self.limits.kv_blocks * self.limits.block_size
        return self.prompt.astype(np.int64) + self.output - 1 > cache


def random_case(rng: np.random.Generator, *, most: int = 24) -> Case:
    """Tight and loose memory, bursts and ties, long prompts, one-token outputs, odd laws."""
    n = int(rng.integers(1, most + 1))
    tokens = int(rng.choice([2, 4, 16, 64, 256]))
    seqs = int(min(tokens, rng.choice([1, 2, 4, 16, 64])))
    block_size = int(rng.choice([1, 2, 7, 16, 16, 16, 32]))
    prompt_mean, output_mean = rng.choice([2, 10, 50, 300]), rng.choice([1, 2, 8, 30])
    prompt = np.ceil(prompt_mean * rng.lognormal(0, 0.8, n)).astype(np.int32)
    output = np.ceil(output_mean * rng.lognormal(0, 0.9, n) - 0.5).clip(1).astype(np.int32)
    if rng.random() < 0.2:
        output[:] = output_mean
    if rng.random() < 0.2:
        prompt[:] = prompt_mean
    most_blocks = int(np.max(-(-(prompt.astype(int) + output - 1) // block_size)))
    blocks = rng.choice([1, 1.03, 1.5, 3, 20, 0.5]) * most_blocks
    if rng.random() < 0.5:
        level = rng.integers(1, 10**6, tokens + 1)  # not even monotone
    else:
        level = 10**6 + int(rng.choice([1, 20_000])) * np.arange(tokens + 1)
    law = Law(
        level.astype(np.int64),
        square_ps_2p15=int(rng.choice([0, 1, 70_000])),
        context_ps=int(rng.choice([0, 1, 300, 50_000])),
        sequence_ps=int(rng.choice([0, 5_000])),
        chunk_context_ps=int(rng.choice([0, 7])),
    )
    gap = level.mean() * output_mean / min(seqs, 8) * rng.choice([0.1, 0.5, 1, 4])
    arrival = np.cumsum(rng.exponential(gap, n)).astype(np.int64)
    if rng.random() < 0.15:
        arrival[:] = 0
    if rng.random() < 0.3:  # bursts
        arrival -= arrival % int(5 * gap + 1)
    if rng.random() < 0.3:  # on a grid of step times, so that boundaries and arrivals meet
        arrival -= arrival % int(level[-1])
    limits = Limits(
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        kv_blocks=int(blocks),
        block_size=block_size,
        reserve_full_prompt=bool(rng.random() < 0.6),
        watermark_blocks=int(rng.choice([0, 0, 1, 3])),
    )
    replicas = int(rng.integers(1, 5))
    return Case(law, limits, arrival, prompt, output, replicas, str(rng.choice(ROUTERS)))


def solve(case: Case, simulator=SIMULATORS[0]) -> Records:
    return simulator(*case[:6], ROUTERS.index(case.router), stages=True, gaps=True)


class ClientCase(NamedTuple):
    """A pool, and clients whose requests are ready at its arrivals."""

    pool: Case
    think: np.ndarray
    permits: np.ndarray


CLIENT_SIMULATORS = (
    (compiled.run_clients, clients.run_clients) if compiled.COMPILED else (clients.run_clients,)
)


def random_client_case(rng: np.random.Generator, *, most: int = 24) -> ClientCase:
    """Few and many clients, at once and in turn, with and without thinking; odd ties."""
    case = random_case(rng, most=most)
    n = len(case.arrival)
    if rng.random() < 0.5:
        case = case._replace(arrival=np.zeros(n, np.int64))
    think = rng.integers(0, 3, n) * int(rng.choice([0, 0, 1, 10**6]))
    permits = rng.integers(0, 2, int(rng.integers(1, 9))) * int(rng.choice([0, 10**6]))
    return ClientCase(case, think.astype(np.int64), permits.astype(np.int64))


def solve_clients(case: ClientCase, simulator=CLIENT_SIMULATORS[0]) -> ClientRecords:
    pool = case.pool
    router = ROUTERS.index(pool.router)
    setup = (*pool[:5], case.think, case.permits, pool.replicas, router)
    return simulator(*setup, stages=True, gaps=True)


def solve_clients_by_oracle(case: ClientCase) -> ClientRecords:
    pool = case.pool
    lists = (*pool[2:5], case.think, case.permits)
    requests, fleet = oracle.simulate_clients(
        pool.law, pool.limits, *(row.tolist() for row in lists), pool.replicas, pool.router
    )
    return ClientRecords(
        np.array([r.arrival for r in requests], np.int64), records_of(requests, fleet)
    )


def solve_by_oracle(case: Case) -> Records:
    """Records in the oracle's words; it counts no events."""
    requests, fleet = oracle.simulate(
        case.law,
        case.limits,
        case.arrival.tolist(),
        case.prompt.tolist(),
        case.output.tolist(),
        case.replicas,
        case.router,
    )
    return records_of(requests, fleet)


def records_of(requests: list[oracle.Request], fleet: oracle.Fleet) -> Records:
    engines = fleet.engines

    def column(name: str, dtype: type = np.int64) -> np.ndarray:
        rows = [-1 if r.finish is None else getattr(r, name) for r in requests]
        return np.array(rows, dtype)

    return Records(
        column("first_scheduled"),
        column("first_token"),
        column("finish"),
        column("stall"),
        column("preempted"),
        column("preemptions", np.int32),
        column("replica", np.int32),
        steps=sum(e.steps for e in engines),
        events=-1,
        busy_ps=sum(e.busy for e in engines),
        peak_kv_blocks=max(e.peak for e in engines),
        stages=Stages(*(column(name.removesuffix("_ps")) for name in Stages._fields)),
        gaps=Gaps(*(column(f"gap_{name.removesuffix('_ps')}") for name in Gaps._fields)),
    )


def differences(one: Records, other: Records) -> list[str]:
    """Name the columns and totals that differ in any bit or type, the count of events apart."""
    gaps = one.gaps is not None and other.gaps is not None
    names = Records._fields[:-2] + Stages._fields + (Gaps._fields if gaps else ())
    rows = [r[:-2] + r.stages + (r.gaps if gaps else ()) for r in (one, other)]
    return [
        name
        for name, a, b in zip(names, *rows, strict=True)
        if name != "events"
        and (a != b if isinstance(a, int) else a.dtype != b.dtype or a.tobytes() != b.tobytes())
    ]
