"""Prefix caches in pools: what is found, what it saves, and that nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.attribution.charge import GapDeadline, charge_misses
from planner.kernels.engine import Traffic, compiled, simulate_fleet
from planner.kernels.stepwise import Colocated, EngineOptions, affine
from planner.measurements.request_trace import PrefixBlocks
from planner.measurements.requests import read_requests
from planner.problem.arrivals import ReplayArrivals, SessionArrivals
from planner.problem.lengths import SessionLengths
from planner.problem.prefixes import ConstantHits, HistoryPrefixes, SharedPrefixes
from planner.simulation import cached_pool
from planner.simulation import pool as pool_module
from planner.simulation.arrivals import make_stream
from planner.simulation.cached_pool import PrefixCache, Replicas, serve_with_cache
from planner.simulation.draw import Draws
from planner.simulation.pool import PoolRun, PoolSetup, run_pool
from planner.simulation.prefixes import (
    choose_texts,
    constant_hits,
    merged,
    of_sessions,
    of_shared,
    of_trace,
)
from planner.simulation.stages import parts_of, parts_of_replicas
from tests.problems import affine_law, fixed, setup, spread, study
from tests.shared import SHARED, needs_shared

pytestmark = pytest.mark.minutes_in_plain

LAW = affine_law(5, 20, 2048, 20)
TEXTS = SharedPrefixes(system_tokens=320, count=40, tokens=640, zipf=1.0, share=0.9)
LONG = spread(1500, 60, 0.5)


def names(prefixes, row: int) -> list[int]:
    start = int(prefixes.start[row])
    return prefixes.name[start : start + int(prefixes.count[row])].tolist()


def cached(router: str = "round_robin", *, slack=None, blocks=4000, replicas=1) -> PoolSetup:
    pool = setup(LAW, 64, blocks=blocks, replicas=replicas, router=router)
    return replace(pool, cache=PrefixCache(16, slack))


def run(pool: PoolSetup, law, rate: float = 6.0, n: int = 3_000, lengths=LONG) -> PoolRun:
    asked = study(lengths, ttft_ms=(500,), tpot_ms=(30,), promise=(0.9,))
    draw = Draws((lengths,), 1, None, (law,)).get((1.0,), n, 0, 0)
    return run_pool(pool, draw, rate * pool.replicas, asked.deadlines, keep=True)


def hit_rate(found: PoolRun) -> float:
    return int(found.cached_tokens[0]) / int(found.prompt_tokens[0])


# -- traces ------------------------------------------------------------------------------------


@needs_shared
@pytest.mark.parametrize(
    ("name", "share"),
    [("mooncake_conversation_trace", 0.366), ("mooncake_synthetic_trace", 0.640)],
)
def test_a_cache_without_end_finds_what_is_known_of_public_traces(name, share):
    """Every named block as a whole one: prompts of 512 tokens a name, and one token more."""
    trace = read_requests(SHARED / f"data/traces/{name}.jsonl.gz")
    blocks = np.diff(trace.prefix.start)
    records = simulate_fleet(
        Traffic(
            arrival=np.arange(blocks.size) * 10**9,
            prompt=(512 * blocks + 1).astype(np.int32),
            output=np.ones(blocks.size, np.int32),
            prefix_start=trace.prefix.start,
            prefix_name=trace.prefix.name,
        ),
        Colocated(EngineOptions(4, 10**6, block_size=512, prefix_caching=True), affine(1, 0)),
    )
    assert records.cached_tokens.sum() / 512 / blocks.sum() == pytest.approx(share, abs=5e-4)


@needs_shared
def test_names_that_nobody_else_bears_are_left_out_and_cost_no_hit():
    trace = read_requests(SHARED / "data/traces/mooncake_synthetic_trace.jsonl.gz")
    rows = np.arange(trace.prompt.size)
    short = of_trace(trace.prefix, rows, np.zeros_like(rows))
    assert short.count.sum() < trace.prefix.name.size
    common = {
        "arrival": (trace.time_s * 1e9).astype(np.int64),
        "prompt": trace.prompt,
        "output": np.minimum(trace.output, 4).astype(np.int32),
    }
    fleet = Colocated(EngineOptions(64, 8192, block_size=512, prefix_caching=True), affine(9, 1))
    whole = simulate_fleet(
        Traffic(**common, prefix_start=trace.prefix.start, prefix_name=trace.prefix.name), fleet
    )
    cut = simulate_fleet(
        Traffic(
            **common,
            prefix_start=short.start,
            prefix_name=short.name,
            prefix_count=short.count,
        ),
        fleet,
    )
    assert np.array_equal(whole.cached_tokens, cut.cached_tokens)
    assert np.array_equal(whole.finish, cut.finish)


# -- names by hand -----------------------------------------------------------------------------


def test_prompts_share_the_system_prompt_and_the_text_that_another_chose_too():
    """Blocks of 10; system 25 and text 20: two blocks of all, two more of the text's."""
    law = SharedPrefixes(25, 3, 20, 1.0, 1.0)
    found = of_shared(
        law, np.array([0, 1, 0, -1, 0], np.int32), np.array([90, 90, 90, 90, 31], np.int32), 10
    )
    assert found.count.tolist() == [4, 2, 4, 2, 3]
    assert names(found, 0) == names(found, 2)
    assert names(found, 0)[:2] == names(found, 1) == names(found, 3)
    assert names(found, 4) == names(found, 0)[:3]


def test_the_popular_are_chosen_by_zipf():
    law = SharedPrefixes(0, 3, 100, 1.0, 0.5)
    chosen = choose_texts(law, 22_000, np.random.default_rng(0))
    assert np.bincount(chosen + 1).tolist() == pytest.approx([11_000, 6_000, 3_000, 2_000], abs=1)


def test_turns_share_what_a_neighbour_holds_and_the_rest_is_their_own():
    turns = np.array([50, 80, 95, 30], np.int32)
    found = of_sessions(np.array([0, 0, 0, 1]), turns, np.array([True] * 4), 25, 10)
    assert found.count.tolist() == [5, 8, 8, 2]
    assert names(found, 0) == names(found, 1)[:5]
    assert names(found, 3) == names(found, 0)[:2]


def test_streams_that_are_put_together_share_no_names():
    one = of_sessions(np.array([0, 0]), np.array([50, 80], np.int32), np.array([True] * 2), 0, 10)
    both = merged([(np.array([0, 2]), one), (np.array([1, 4]), one)], 5)
    assert both.count.tolist() == [5, 5, 5, 0, 5]
    assert not set(names(both, 0)) & set(names(both, 1))
    assert names(both, 0) == names(both, 2)
    with pytest.raises(ValueError, match="cannot be put together"):
        merged([(np.array([0, 1]), one), (np.array([2, 3]), replace(one, block_tokens=20))], 4)


# -- a constant rate ---------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.1, 0.29, 0.3, 1 / 3, 0.75])
def test_a_constant_rate_is_that_share_of_all_blocks_to_the_block(rate):
    prompt = np.random.default_rng(3).integers(1, 5_000, 9_999).astype(np.int32)
    found = constant_hits(rate, prompt, 16)
    assert (found % 16 == 0).all()
    assert (found < prompt).all()
    blocks = int((prompt // 16).sum())
    assert abs(int(found.sum()) // 16 - rate * blocks) < 2


def test_at_a_rate_of_one_only_the_last_block_of_each_prompt_is_computed():
    found = constant_hits(1.0, np.array([16, 17, 32, 33, 5], np.int32), 16)
    assert found.tolist() == [0, 16, 16, 32, 0]


def test_what_is_assumed_found_is_not_computed_and_held_all_the_same():
    """One request alone: 1,000 of 4,000 tokens in steps of 1 tick a token, and room for all."""
    engine = EngineOptions(1, 500, block_size=10, usable_blocks=401)
    one = Traffic(
        np.zeros(1, np.int64),
        np.array([4000], np.int32),
        np.array([2], np.int32),
        cached=np.array([3000], np.int32),
    )
    found = simulate_fleet(one, Colocated(engine, affine(0, 1)))
    assert found.first_token[0] == 1000
    assert found.cached_tokens[0] == 3000
    tight = replace(engine, usable_blocks=399)
    refused = simulate_fleet(one, Colocated(tight, affine(0, 1)))
    assert refused.finish[0] == -1


def test_a_rate_of_one_half_halves_the_prefill_of_a_pool():
    """Prompts of 1,601 tokens alone in a replica: 5 ms and 20 us a token computed."""
    found = run(cached(), ConstantHits(0.5), rate=0.01, n=400, lengths=fixed(1601, 1))
    assert hit_rate(found) == pytest.approx(800 / 1601)
    assert np.median(found.latencies.ttft_s) == pytest.approx(0.005 + 801 * 20e-6)


# -- hits that result --------------------------------------------------------------------------


def test_a_larger_cache_finds_more():
    rates = [hit_rate(run(cached(blocks=b), TEXTS)) for b in (600, 1_200, 2_400, 10_000)]
    assert rates == sorted(rates)
    assert rates[-1] > rates[0] + 0.05


def test_least_recently_used_is_a_stack_algorithm_for_requests_one_after_the_other():
    """One seat and gaps between requests: larger caches hold all that smaller ones do."""
    rng = np.random.default_rng(5)
    n = 2_000
    text = rng.zipf(1.3, n) % 60
    count = np.full(n, 6, np.int32)
    traffic = Traffic(
        np.arange(n) * 10**6,
        np.full(n, 70, np.int32),
        np.ones(n, np.int32),
        prefix_start=text * 6,
        prefix_name=np.arange(360, dtype=np.int32),
        prefix_count=count,
    )
    before = np.zeros(n, np.int32)
    for blocks in (8, 16, 32, 64, 128, 256, 512, 3_000):
        engine = EngineOptions(1, 100, block_size=10, usable_blocks=blocks, prefix_caching=True)
        now = simulate_fleet(traffic, Colocated(engine, affine(1, 1))).cached_tokens
        assert (now >= before).all()
        before = now
    first = np.zeros(n, np.bool_)
    first[np.unique(text, return_index=True)[1]] = True
    assert (before == np.where(first, 0, 60)).all()  # at last nothing is ever given away


@pytest.mark.parametrize("seed", range(3))
def test_affinity_finds_at_least_what_round_robin_does(seed):
    asked = study(LONG, ttft_ms=(500,), tpot_ms=(30,), promise=(0.9,))
    draw = Draws((LONG,), seed, None, (TEXTS,)).get((1.0,), 6_000, 0, 0)
    pools = (cached(replicas=4, blocks=1_500), cached(replicas=4, blocks=1_500, slack=8))
    turn, near = (run_pool(pool, draw, 24.0, asked.deadlines) for pool in pools)
    assert hit_rate(near) > hit_rate(turn)


def test_a_slack_without_end_does_not_bury_the_replica_that_came_first():
    """All prompts share a system prompt: everybody follows the first request while it has seats."""
    law = replace(TEXTS, count=0)
    asked = study(LONG, ttft_ms=(500,), tpot_ms=(30,), promise=(0.9,))
    draw = Draws((LONG,), 1, None, (law,)).get((1.0,), 4_000, 0, 0)
    seats, few = (
        run_pool(cached(replicas=4, slack=slack), draw, 60.0, asked.deadlines)
        for slack in (10**6, 4)
    )
    assert not seats.unstable
    assert few.attainment[0] > max(0.95, seats.attainment[0])


def test_affinity_does_not_queue_beside_an_empty_replica():
    """With one seat each, a prompt goes to the empty replica, not behind the one that holds it."""
    law = replace(TEXTS, count=0)
    draw = Draws((LONG,), 1, None, (law,)).get((1.0,), 2, 0, 0)
    traffic = replace(draw.at(1.0), arrival_ps=np.array([0, 10**9]))
    served = serve_with_cache(
        LAW,
        setup(LAW, 1, blocks=4000).limits,
        PrefixCache(16, 8),
        traffic,
        Replicas(2, "least_outstanding", None),
    )
    assert served.finish_ps[0] > traffic.arrival_ps[1]
    assert (served.first_scheduled_ps == traffic.arrival_ps).all()


def test_turns_find_their_session_and_a_later_turn_finds_more():
    lengths = SessionLengths(fixed(100, 50), 6.0, 50, 480, 10**6)
    law = SessionArrivals(4.0, 20.0, 1.0, lengths)
    draws = Draws((lengths,), 1, (law,), (HistoryPrefixes(),))
    asked = study(lengths, ttft_ms=(500,), tpot_ms=(30,), promise=(0.9,))
    found = run_pool(cached(blocks=100_000), draws.get((4.0,), 4_000, 0, 0), 4.0, asked.deadlines)
    traffic = draws.get((4.0,), 4_000, 0, 0).at(4.0)
    # All but the new text, the last answer and parts of blocks; first turns find the system's.
    assert hit_rate(found) > 1 - (100 + 50 + 2 * 16) / traffic.prompt.mean()
    assert hit_rate(found) < 1 - 100 / traffic.prompt.mean()


# -- nothing else changes ----------------------------------------------------------------------


@pytest.mark.parametrize("law", [None, ConstantHits(0.0)])
def test_where_nothing_can_be_found_the_bits_are_those_without_a_cache(law):
    with_cache, without = run(cached(), law), run(replace(cached(), cache=None), law)
    assert np.array_equal(with_cache.latencies.ttft_s, without.latencies.ttft_s)
    assert np.array_equal(with_cache.latencies.tpot_s, without.latencies.tpot_s)
    assert with_cache.attainment == without.attainment
    assert with_cache.busy_share == without.busy_share


def test_names_that_nobody_shares_change_no_bit_either():
    """The engine that knows blocks, with a cache in which nothing is ever found."""
    draw = Draws((LONG,), 1, None, (ConstantHits(0.0),)).get((1.0,), 2_000, 0, 0)
    pool = setup(LAW, 64, blocks=4_000)
    traffic = draw.at(6.0)
    none = replace(traffic, cached=np.zeros(traffic.prompt.size, np.int32))
    served = serve_with_cache(pool.law, pool.limits, PrefixCache(16), none, Replicas(1))
    plainly = pool_module.simulate_pool(
        pool.law, pool.limits, traffic.arrival_ps, traffic.prompt, traffic.output
    )
    assert np.array_equal(served.first_token_ps, plainly.first_token_ps)
    assert np.array_equal(served.finish_ps, plainly.finish_ps)


@pytest.mark.parametrize("blocks", [4_000, 260])
@pytest.mark.parametrize("replicas", [1, 3])
def test_where_nothing_is_found_time_goes_where_it_goes_without_a_cache(blocks, replicas):
    """All parts but the wait for blocks: of those who stand behind the head it is charged too.

    260 blocks hold 2.6 requests of the mean length: many wait for blocks, and some lose theirs.
    """
    draw = Draws((LONG,), 1, None, (ConstantHits(0.0),)).get((1.0,), 700, 0, 0)
    pool = setup(LAW, 64, blocks=blocks, replicas=replicas)
    traffic = draw.at(1.5 * replicas)
    none = replace(traffic, cached=np.zeros(traffic.prompt.size, np.int32))
    kept = serve_with_cache(
        *(pool.law, pool.limits, PrefixCache(16), none, Replicas(replicas)), stages=True
    )
    plainly = pool_module.simulate_pool(
        *(pool.law, pool.limits, traffic.arrival_ps, traffic.prompt, traffic.output),
        replicas=replicas,
        stages=True,
        gaps=True,
    )
    assert kept.stages is not None
    done = np.flatnonzero(plainly.finish_ps >= 0)
    ttft_ps = (kept.first_token_ps - traffic.arrival_ps)[done]
    one, other = parts_of_replicas(kept.stages, ttft_ps, done, 7), parts_of(plainly, done, 7)
    for name in ("prefill", "prefill_interference", "preemption_before", "decode_solo"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    for name in ("decode_batch", "decode_interference", "preemption_after"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert np.array_equal(one.queue + one.kv_block_wait, other.queue + other.kv_block_wait)
    assert (one.kv_block_wait >= other.kv_block_wait).all()
    for gap, same in zip(kept.gaps, plainly.gaps, strict=True):
        assert np.array_equal(gap[done], same[done])
    assert kept.busy_ps == plainly.busy_ps
    if blocks == 260:
        assert one.kv_block_wait.any()
        assert one.preemption_after.any()


@pytest.mark.parametrize("priority", [None, (1,)])
def test_misses_by_gaps_between_tokens_are_charged_in_full_too(priority):
    """Of one class priority is first come, first served: served by the same engine."""
    asked = study(LONG, ttft_ms=(150,), tpot_ms=(12,), promise=(0.9,))
    due = replace(asked.deadlines, max_itl_ps=np.array([30 * 10**9]))
    draw = Draws((LONG,), 1, None, (TEXTS,)).get((1.0,), 700, 0, 0)
    pool = replace(cached(slack=3, replicas=2, blocks=500), priority=priority)
    found = run_pool(pool, draw, 12.0, due, keep=True)
    kept = found.latencies
    late = int(found.offered[0] - found.compliant[0])
    assert (kept.max_itl_s > 0.03).any()
    charged = charge_misses(
        kept.parts,
        due.ttft_limit_ps(kept.workload, kept.prompt),
        due.decode_limit_ps(kept.workload, kept.output),
        None,
        GapDeadline(np.full(kept.ttft_s.size, due.max_itl_ps[0]), kept.gaps),
    )
    assert np.array_equal(kept.gaps.longest * 1e-12, kept.max_itl_s)
    assert sum(share.sum() for share in charged.values()) == pytest.approx(late)


@pytest.mark.parametrize("law", [TEXTS, ConstantHits(0.4)])
def test_a_replica_is_busy_as_long_as_its_steps_last(monkeypatch, law):
    """Who has a request runs a step, so the time with requests is the sum of steps."""
    in_steps = []

    def watched(*args, **options):
        records = simulate_fleet(*args, **options, keep_steps=True)
        in_steps.append(sum(s.end - s.start for engine in records.steps for s in engine))
        return records

    monkeypatch.setattr(cached_pool, "simulate_fleet", watched)
    draw = Draws((LONG,), 1, None, (law,)).get((1.0,), 1_000, 0, 0)
    pool = cached(slack=3, replicas=3, blocks=900)
    served = serve_with_cache(
        *(pool.law, pool.limits, pool.cache, draw.at(6.0, block_tokens=16), Replicas(3))
    )
    assert in_steps == [served.busy_ps]
    idle = served.finish_ps.max() * 3 - served.busy_ps
    assert idle > 0


@pytest.mark.parametrize("law", [TEXTS, ConstantHits(0.4)])
def test_the_parts_of_a_pool_with_a_cache_are_its_latencies(law):
    kept = run(cached(slack=3, replicas=3, blocks=900), law).latencies
    parts = kept.parts
    before = parts.queue + parts.kv_block_wait + parts.prefill + parts.prefill_interference
    after = parts.decode_solo + parts.decode_batch + parts.decode_interference
    ttft_ps, rest_ps = before + parts.preemption_before, after + parts.preemption_after
    assert ttft_ps * 1e-12 == pytest.approx(kept.ttft_s, rel=1e-12)
    steps = np.maximum(kept.output.astype(np.int64) - 1, 1)
    assert rest_ps * 1e-12 / steps == pytest.approx(kept.tpot_s, rel=1e-12)
    assert all((part >= 0).all() for part in parts)


@pytest.mark.parametrize("law", [TEXTS, ConstantHits(0.4)])
def test_compiled_and_plain_give_the_same_bits(monkeypatch, law):
    pool = cached(slack=3, replicas=3, blocks=900)
    fast = run(pool, law, n=400)
    monkeypatch.setattr(compiled, "COMPILED", False)
    slow = run(pool, law, n=400)
    assert np.array_equal(fast.latencies.ttft_s, slow.latencies.ttft_s)
    assert np.array_equal(fast.latencies.tpot_s, slow.latencies.tpot_s)
    assert fast.cached_tokens == slow.cached_tokens


def test_a_trace_in_blocks_of_another_size_is_refused():
    blocks = PrefixBlocks(np.array([0, 1, 2]), np.array([0, 0], np.int32), 512)
    own = np.array([600, 700], np.int32), np.array([1, 1], np.int32)
    law = ReplayArrivals(1.0, np.array([0.0, 1.0]), 2.0, own, prefix=blocks)
    stream = make_stream(law, 2, (0,))
    assert stream.at(1.0, block_tokens=512).prefix.count.tolist() == [1, 1]
    with pytest.raises(ValueError, match="blocks of 512 tokens"):
        stream.at(1.0, block_tokens=16)
