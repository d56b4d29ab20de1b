"""Laws of attribution on random simulated runs, colocated and disaggregated, of any options."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.attribution.charge import GapDeadline, charge_misses
from planner.attribution.interference import harm
from planner.attribution.shapley import Allowed, Split, charge
from planner.attribution.traced import TracedRun
from planner.kernels.engine import COMPILED, FleetRecords, simulate_fleet
from planner.kernels.stepwise import Colocated, StepLimitError
from planner.simulation.stages import GapParts, Parts
from tests.fleets import Case, random_case

RUNS = 600 if COMPILED else 60
BATCHES = 6


def served(case: Case) -> FleetRecords | None:
    try:
        return simulate_fleet(*case, stages=True, keep_steps=True, max_steps=50_000)
    except StepLimitError:
        return None


def run_of(case: Case, records: FleetRecords, seed: int) -> TracedRun:
    """Deadlines about the middle of what was seen, so that some requests miss each."""
    rng, n = np.random.default_rng(seed), case.traffic.arrival.size
    done = records.finish >= 0
    ttft = (records.first_token - case.traffic.arrival)[done]
    rest = (records.finish - records.first_token)[done]
    gap = records.max_token_gap[done]

    def deadline(values: np.ndarray) -> np.ndarray:
        middle = int(np.quantile(values, rng.uniform(0.1, 0.9))) if values.size else 0
        return np.full(n, middle if rng.random() < 0.8 else 2**62)

    return TracedRun(
        "pool",
        1e-6,
        case.traffic,
        case.setup,
        records,
        ("a", "b", "c"),
        (np.arange(n) % 3).astype(np.int32),
        ("m", "m", "m"),
        deadline(ttft),
        deadline(rest),
        deadline(ttft),
        deadline(gap),
        np.arange(n),
    )


def total(split: Split) -> tuple[np.ndarray, np.ndarray]:
    before = [*split.company_before.values(), *split.own_before.values()]
    after = [*split.company_after.values(), *split.own_after.values()]
    return np.sum(before, axis=0), np.sum(after, axis=0)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_parts_sum_to_the_time_and_charges_to_the_misses(batch: int) -> None:
    counted = missed = 0
    for seed in range(110_000 + batch * RUNS // BATCHES, 110_000 + (batch + 1) * RUNS // BATCHES):
        case = random_case(seed)
        records = served(case)
        if records is None:
            continue
        run = run_of(case, records, seed)
        done = np.flatnonzero(run.finished)
        before, after = total(run.split(done))
        assert (before == run.ttft[done]).all(), seed
        assert (after == (records.finish - records.first_token)[done]).all(), seed
        charges = run.charges(run.counted)
        assert all((share >= 0).all() for share in charges.values())
        told = sum(charges.values())
        assert told == pytest.approx((~run.met).astype(float)), seed
        counted, missed = counted + run.counted.size, missed + int((~run.met).sum())
    assert 0 < missed < counted


def switched_off(case: Case) -> list[tuple[str, Case]]:
    """The case with one cause of trouble taken away, and the parts that must then be nothing."""
    setup, n = case.setup, case.traffic.arrival.size
    far_apart = case.traffic._replace(arrival=np.arange(n, dtype=np.int64) * 10**9, deadline=None)
    one_token = case.traffic._replace(output=np.ones(n, np.int32), limit=None)
    found = [("company", Case(far_apart, setup)), ("decode", Case(one_token, setup))]
    if isinstance(setup, Colocated):
        roomy = replace(setup, engine=replace(setup.engine, usable_blocks=None))
        found.append(("blocks", Case(case.traffic, roomy)))
        seats = replace(setup.engine, max_num_seqs=1, async_scheduling=False, pp_degree=1)
        if not setup.lock_step:
            found.append(("sharing", Case(case.traffic, replace(setup, engine=seats))))
    else:
        roomy = replace(
            setup,
            prefill=replace(setup.prefill, usable_blocks=None),
            decode=replace(setup.decode, usable_blocks=None),
        )
        found.append(("blocks", Case(case.traffic, roomy)))
        fast = replace(setup.link, ticks_per_token=0, latency=0)
        found.append(("link", Case(case.traffic, replace(setup, link=fast))))
    return found


NOTHING = {
    "company": (
        "kv_block_wait",
        "kv_transfer_wait",
        "decode_batch",
        "prefill_interference",
        "preemption",
    ),
    "blocks": ("kv_block_wait", "preemption"),
    "sharing": ("decode_batch", "decode_interference", "prefill_interference"),
    "link": ("kv_transfer", "kv_transfer_wait"),
}


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_cause_that_is_switched_off_is_charged_nothing(batch: int) -> None:
    seen = dict.fromkeys((*NOTHING, "decode"), 0)
    for seed in range(120_000 + batch * RUNS // BATCHES, 120_000 + (batch + 1) * RUNS // BATCHES):
        for cause, case in switched_off(random_case(seed)):
            if cause == "company" and _can_be_short(case):
                continue  # a request may run out of memory by itself
            records = served(case)
            if records is None:
                continue
            run = run_of(case, records, seed)
            charges = run.charges(run.counted)
            names = NOTHING.get(cause, ())
            if cause == "company" and _in_flight(case):
                names = tuple(n for n in names if n != "prefill_interference")
            for name in names:
                assert not charges.get(name, np.zeros(1)).any(), (seed, cause, name)
            if cause == "decode" and isinstance(case.setup, Colocated):
                for name in ("decode_solo", "decode_batch", "decode_interference"):
                    assert not charges[name].any(), (seed, cause, name)
            seen[cause] += 1
    assert min(seen.values()) > 0


def _can_be_short(case: Case) -> bool:
    setup = case.setup
    engines = [setup.engine] if isinstance(setup, Colocated) else [setup.prefill, setup.decode]
    longest = int((case.traffic.prompt + case.traffic.output).max()) + 64
    return any(
        e.usable_blocks is not None and e.usable_blocks * e.block_size < longest + 4 * e.block_size
        for e in engines
    )


def _in_flight(case: Case) -> bool:
    """Where steps overlap, or ranks wait for each other, a lone prefill waits between its steps."""
    setup = case.setup
    engines = [setup.engine] if isinstance(setup, Colocated) else [setup.prefill, setup.decode]
    return any(e.depth > 1 for e in engines)


@pytest.mark.parametrize("seed", range(130_000, 130_000 + RUNS // 6))
def test_any_parts_and_the_six_of_replicas_are_charged_alike(seed: int) -> None:
    """Two independent ways to the Shapley shares of colocated requests."""
    rng = np.random.default_rng(seed)
    n = 40
    nothing = np.zeros(n, np.int64)  # of transfers and hand-offs, in replicas that do both
    p = Parts(*rng.integers(-3 if seed % 3 else 0, 60, (9, n)), nothing, nothing)
    p = p._replace(prefill=np.abs(p.prefill), decode_solo=np.abs(p.decode_solo))
    first_by, rest_by = rng.integers(0, 200, (2, n))
    whole_by = rng.integers(50, 300, n) if seed % 2 else None
    gaps = GapParts(*rng.integers(0, 60, (5, n)))
    gap_by = rng.integers(0, 60, n)
    theirs = charge_misses(p, first_by, rest_by, whole_by, GapDeadline(gap_by, gaps))

    class Gaps:
        def __init__(self, rows: np.ndarray) -> None:
            self.at = rows

        def rows(self, chosen: np.ndarray) -> Gaps:
            return Gaps(self.at[chosen])

        def without(self, removed: tuple[str, ...]) -> np.ndarray:
            from planner.attribution.charge import REMOVABLE

            every = GapDeadline(gap_by, gaps)
            return every.without(tuple(REMOVABLE.index(name) for name in removed))[self.at]

    split = Split(
        {
            "queue": p.queue,
            "kv_block_wait": p.kv_block_wait,
            "prefill_interference": p.prefill_interference,
            "preemption": p.preemption_before,
        },
        {
            "decode_batch": p.decode_batch,
            "decode_interference": p.decode_interference,
            "preemption": p.preemption_after,
        },
        {"prefill": p.prefill},
        {"decode_solo": p.decode_solo},
    )
    mine = charge(split, Allowed(first_by, rest_by, whole_by, gap_by, Gaps(np.arange(n))))
    for name in ("queue", "kv_block_wait", "prefill_interference", "decode_batch", "preemption"):
        assert mine[name] == pytest.approx(theirs[name]), name
    both = ("prefill", "decode_solo")
    assert sum(mine[x] for x in both) == pytest.approx(sum(theirs[x] for x in both))


@pytest.mark.parametrize("seed", range(140_000, 140_000 + RUNS // 10))
def test_what_others_add_is_all_of_what_is_added(seed: int) -> None:
    """Tables of harm sum, by who is slowed, to what steps lasted longer than alone."""
    case = random_case(seed)
    records = served(case)
    if records is None or records.steps is None:
        return
    run = run_of(case, records, seed)
    table = harm(run)
    assert all((rows >= 0).all() for rows in table.values())
    stages = records.stages
    if (records.fate == 1).all() and not records.preemptions.any() and _plain(case):
        for w in range(3):
            mine = run.workload == w
            slowed = table["decode_batch"][w].sum()
            assert slowed == pytest.approx(stages.decode_batch[mine].sum() * 1e-6)
            chunks = table["decode_interference"][w].sum()
            assert chunks <= stages.decode_interference[mine].sum() * 1e-6 + 1e-9


def _plain(case: Case) -> bool:
    return isinstance(case.setup, Colocated) and case.setup.engine.depth == 1
