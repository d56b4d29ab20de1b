"""Seven causes of misses, each planted in a simulation that keeps its deadlines without it.

A tick is a microsecond. A step takes 5 ms, 25 us for each token and 50 us for each request.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from planner.attribution.root_cause import root_cause
from planner.attribution.traced import TracedRun, no_deadline
from planner.kernels.engine import Traffic, simulate_fleet
from planner.kernels.stepwise import (
    Colocated,
    Disaggregated,
    EngineOptions,
    LinkOptions,
    affine,
)

pytestmark = pytest.mark.minutes_in_plain

LAW = affine(5_000, 25, 50)
MS, S = 1_000, 1_000_000
ENGINE = EngineOptions(64, 2_048)
FAR = 2**62


@dataclass
class Planted:
    """Traffic and deadlines; the fleet with the cause, and without."""

    traffic: Traffic
    ill: Colocated | Disaggregated
    well: Colocated | Disaggregated | None = None
    """None: the same fleet with ``calm`` traffic."""
    calm: Traffic | None = None
    ttft: int | np.ndarray = FAR
    tpot: int = FAR
    gap: int = FAR

    def run(self, *, ill: bool) -> TracedRun:
        traffic = self.traffic if ill or self.calm is None else self.calm
        setup = self.ill if ill or self.well is None else self.well
        n = traffic.arrival.size
        whole = isinstance(self.ttft, int)
        first = np.full(n, self.ttft) if whole else self.ttft[traffic.prompt]
        steps = np.maximum(traffic.output.astype(np.int64) - 1, 1)
        rest = no_deadline(n) if self.tpot == FAR else self.tpot * steps
        return TracedRun(
            "planted",
            1e-6,
            traffic,
            setup,
            simulate_fleet(traffic, setup, stages=True, keep_steps=True),
            ("w",),
            np.zeros(n, np.int32),
            ("m",),
            first,
            rest,
            no_deadline(n),
            np.full(n, self.gap),
            np.arange(n // 10, n),
        )


def poisson(seed: int, n: int, per_s: float, prompt: int, output: int) -> Traffic:
    rng = np.random.default_rng(seed)
    arrival = np.cumsum(rng.exponential(S / per_s, n)).astype(np.int64)
    return Traffic(arrival, np.full(n, prompt, np.int32), np.full(n, output, np.int32))


def together(one: Traffic, two: Traffic) -> Traffic:
    order = np.argsort(np.concatenate([one.arrival, two.arrival]), kind="stable")
    return Traffic(
        *(np.concatenate([getattr(one, x), getattr(two, x)])[order] for x in Traffic._fields[:3])
    )


def head_of_line(seed: int) -> Planted:
    """Short prompts at 10 req/s; every few seconds one of 30,000 tokens, 0.8 s of prefill."""
    short, long = poisson(seed, 600, 10, 100, 20), poisson(seed + 1, 24, 0.4, 30_000, 5)
    ttft = np.full(30_001, 300 * MS)
    ttft[30_000] = 20 * S
    return Planted(together(short, long), Colocated(ENGINE, LAW), calm=short, ttft=ttft)


def big_chunks(seed: int) -> Planted:
    """Prompts of 6,000 tokens, whole in a step of 155 ms or in pieces of 30 ms; gaps up to 60."""
    engine = replace(ENGINE, max_num_batched_tokens=8_192)
    small = replace(ENGINE, max_num_batched_tokens=1_024)
    traffic = poisson(seed, 300, 3, 6_000, 100)
    return Planted(traffic, Colocated(engine, LAW), Colocated(small, LAW), gap=60 * MS)


def preemption_storm(seed: int) -> Planted:
    """Outputs of 600 tokens, and KV of 4,000: admitted by their first chunk, 20 at once."""
    few = replace(ENGINE, usable_blocks=250, reserve_full_isl=False)
    traffic = poisson(seed, 400, 4, 100, 600)
    return Planted(traffic, Colocated(few, LAW), Colocated(ENGINE, LAW), ttft=FAR, tpot=12 * MS)


def slow_link(seed: int) -> Planted:
    """Prompts of 500 tokens at 2 req/s, whose KV takes 400 ms or 5 ms on the link."""
    traffic = poisson(seed, 300, 2, 500, 20)
    slow = Disaggregated(ENGINE, LAW, ENGINE, LAW, LinkOptions(800, 0), 2, 2)
    return Planted(traffic, slow, replace(slow, link=LinkOptions(10, 0)), ttft=250 * MS)


def prefill_worker(seed: int) -> Planted:
    """Prompts of 2,000 tokens, 55 ms each, at 25 req/s: more than one prefill replica can do."""
    traffic = poisson(seed, 800, 25, 2_000, 20)
    one = Disaggregated(ENGINE, LAW, ENGINE, LAW, LinkOptions(1, 0), 1, 2)
    return Planted(traffic, one, replace(one, n_prefill=3), ttft=800 * MS)


def burst(seed: int) -> Planted:
    """8 req/s for a minute, which leaves most of the time free, and 200 requests at once."""
    calm = poisson(seed, 480, 8, 1_000, 5)
    at_once = Traffic(
        np.full(200, 30 * S), np.full(200, 1_000, np.int32), np.full(200, 5, np.int32)
    )
    return Planted(together(calm, at_once), Colocated(ENGINE, LAW), calm=calm, ttft=900 * MS)


def open_admission(seed: int) -> Planted:
    """120 seats, whose decodes make steps of 14 ms, or 40; a token is due every 10 ms."""
    engine = replace(ENGINE, max_num_seqs=120)
    few = replace(ENGINE, max_num_seqs=40)
    traffic = poisson(seed, 1_200, 50, 20, 200)
    return Planted(traffic, Colocated(engine, LAW), Colocated(few, LAW), tpot=10 * MS)


PLANTED = {
    "head_of_line_blocking": (head_of_line, "queue"),
    "big_chunks": (big_chunks, "decode_interference"),
    "preemption_storm": (preemption_storm, "preemption"),
    "slow_link": (slow_link, "kv_transfer"),
    "too_few_prefill_replicas": (prefill_worker, "queue"),
    "burst": (burst, "queue"),
    "admission_too_open": (open_admission, "decode_batch"),
}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("cause", PLANTED)
def test_a_planted_cause_is_found(cause, seed):
    make, part = PLANTED[cause]
    planted = make(seed)
    ill, well = planted.run(ill=True), planted.run(ill=False)
    missed = 1 - ill.met[ill.counted].mean()
    assert missed > 0.05, "the planted cause does harm"
    assert 1 - well.met[well.counted].mean() < missed / 5, "and without it there is little"
    found = root_cause(ill)
    assert found.cause == cause, found
    assert found.share > 0.5
    charges = {name: share.sum() for name, share in ill.charges(ill.counted).items()}
    charges["kv_transfer"] = charges.get("kv_transfer", 0) + charges.pop("kv_transfer_wait", 0)
    assert max(charges, key=charges.get) == part, charges


def test_where_nothing_is_missed_nothing_is_blamed():
    planted = slow_link(1)
    planted.ttft = FAR
    assert root_cause(planted.run(ill=True)).cause == "nothing_missed"
