"""Groups of prefill and decode replicas, against theory and against measured deployments."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

from planner.catalogue import Catalogue
from planner.curves.curve import Curve, find_curve
from planner.curves.memory import Settings, kv_moved_bytes
from planner.curves.step_law import law_fields
from planner.kernels import Law, Limits
from planner.simulation.draw import Traffic
from planner.simulation.group import GroupSetup, parts_of_groups, serve_groups
from tests.shared import SHARED, needs_shared

S = 10**12
MS = 10**9


def law(base_ps: int, per_token_ps: int, budget: int, context_ps: int = 0) -> Law:
    tokens = base_ps + per_token_ps * np.arange(budget + 1, dtype=np.int64)
    tokens[0] = 0
    return Law(tokens, context_ps=context_ps)


def traffic(arrival_ps: list[int], prompt: int, output: int) -> Traffic:
    n = len(arrival_ps)
    full = np.full(n, 0, np.int32)
    return Traffic(np.array(arrival_ps), full, full + prompt, full + output)


def group(n_prefill: int = 1, n_decode: int = 1, **changes: object) -> GroupSetup:
    base = {
        "prefill_law": law(2 * MS, 100_000, 2048),
        "prefill_limits": Limits(64, 2048, 4096),
        "n_prefill": n_prefill,
        "n_decode": n_decode,
        "link_ps_per_token": 3_000_000,
        "link_latency_ps": 5 * MS,
        "hop_ps": 7 * MS,
    }
    return GroupSetup(**(base | changes))  # type: ignore[arg-type]


DECODE = law(10 * MS, 0, 64), Limits(64, 64, 4096)


def test_a_lone_request_takes_prefill_hop_transfer_and_one_step():
    found = serve_groups(group(), DECODE, traffic([0], 1000, 11), 1, "round_robin", stages=True)
    prefill = 2 * MS + 1000 * 100_000
    first = prefill + 7 * MS + 5 * MS + 1000 * 3_000_000 + 10 * MS
    assert found.first_token_ps[0] == first
    assert found.finish_ps[0] == first + 10 * 10 * MS
    assert found.longest_gap_ps[0] == 10 * MS
    assert (found.prefill_busy_ps, found.decode_busy_ps) == (prefill, 11 * 10 * MS)
    assert found.stages is not None
    parts = parts_of_groups(found.stages, found.first_token_ps, np.array([0]), 0)
    assert parts.prefill[0] == prefill
    assert parts.kv_transfer[0] == 5 * MS + 1000 * 3_000_000
    assert parts.handoff[0] == 7 * MS + 10 * MS
    assert parts.decode_solo[0] == 100 * MS


def test_parts_sum_to_the_time_to_the_first_token_and_from_there_to_the_last():
    rng = np.random.default_rng(1)
    n = 400
    arrival = np.cumsum(rng.exponential(0.06, n) * S).astype(np.int64)
    who = np.zeros(n, np.int32)
    prompt = rng.integers(1, 2000, n).astype(np.int32)
    output = rng.integers(1, 200, n).astype(np.int32)
    small = Limits(64, 64, 160)
    found = serve_groups(
        group(), (DECODE[0], small), Traffic(arrival, who, prompt, output), 2, "round_robin",
        stages=True,
    )  # fmt: skip
    done = np.flatnonzero(found.finish_ps >= 0)
    ttft = (found.first_token_ps - arrival)[done]
    assert found.stages is not None
    p = parts_of_groups(found.stages, ttft, done, 0)
    before = p.queue + p.kv_block_wait + p.prefill + p.prefill_interference
    assert (before + p.kv_transfer + p.handoff + p.preemption_before == ttft).all()
    after = p.decode_solo + p.decode_batch + p.decode_interference + p.preemption_after
    assert (after == (found.finish_ps - found.first_token_ps)[done]).all()
    assert min(int(column.min()) for column in p) >= 0


def test_groups_take_turns_and_do_not_disturb_each_other():
    many = traffic([i * 50 * MS for i in range(40)], 700, 30)
    two = serve_groups(group(), DECODE, many, 2, "round_robin")
    for k in (0, 1):
        own = slice(k, None, 2)
        columns = many.arrival_ps, many.workload, many.prompt, many.output
        part = Traffic(*(column[own].copy() for column in columns))
        alone = serve_groups(group(), DECODE, part, 1, "round_robin")
        assert (two.finish_ps[own] == alone.finish_ps).all()


@needs_shared
def test_kv_on_the_wire_of_a_replicated_model_is_what_was_measured():
    """Four KV heads on eight ranks: twice the bytes, and a fixed part plus bytes over bandwidth."""
    case = _case("02_kv_transfer_gqa_replication_qwen3_235b")
    llm = Catalogue().llm("qwen3-235b-a22b")
    for row in case["observed"]:
        moved = kv_moved_bytes(llm, row["prompt"], 8)
        assert moved == pytest.approx(row["kv_GB"] * 1e9, rel=0.02)
        fit = case["derived"]["fit_ms"]
        expected = fit["fixed"] + moved / fit["GBps"] / 1e6
        assert expected == pytest.approx(row["transfer_ms"], rel=0.1)
    assert kv_moved_bytes(llm, 1, 4) == case["derived"]["logical_kv_bytes_per_token"]


def _case(name: str) -> dict[str, object]:
    text = (SHARED / "cases" / "users" / f"{name}.yaml").read_text()
    found: dict[str, object] = yaml.safe_load(text)
    return found


def _bursts(prefills: int, decodes: int, users: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Serve a burst of requests of 1,000 and 200 tokens: 100 ms per prefill, one after the other.

    Returns:
        TTFT in seconds, share of it that is queueing, and the busy share of the decode side.
    """
    serial = group(
        prefills,
        decodes,
        prefill_law=law(0, 100_000_000, 1000),
        prefill_limits=Limits(1, 1000, 100_000),
        link_ps_per_token=350_000,
        link_latency_ps=2 * MS,
    )
    wide = law(20 * MS, 0, 256), Limits(256, 256, 10**6)
    found = serve_groups(
        serial, wide, traffic([0] * users, 1000, 200), 1, "least_outstanding", stages=True
    )
    assert found.stages is not None
    ttft = found.first_token_ps / S
    wait = found.stages.queue / found.first_token_ps
    return ttft, wait, found.decode_busy_ps / decodes / float(found.finish_ps.max())


@needs_shared
def test_one_prefill_worker_turns_concurrency_into_first_token_times():
    """Case 08: at 100 ms a prefill, synchronised users wait their turn; decode cannot help."""
    case = _case("08_disagg_prefill_queue_dsv3_h200")
    observed = case["observed"]["ttft_ms_at_concurrency"]  # type: ignore[index]
    for users, tolerance in ((250, 0.3), (100, 0.4)):
        ttft, _, _ = _bursts(1, 1, users)
        assert float(ttft.max()) == pytest.approx(observed[users] / 1e3, rel=tolerance)
    ttft, wait, _ = _bursts(1, 1, 50)
    assert float(np.mean(ttft <= 0.5)) < 0.1
    assert float(np.median(wait)) > 0.8  # the queue at the prefill side
    more, _, _ = _bursts(1, 4, 50)
    assert float(more.max()) == pytest.approx(float(ttft.max()), rel=0.02)
    enough = [n for n in range(1, 17) if float(_bursts(n, 1, 50)[0].max()) <= 0.55]
    assert min(enough) >= 10


def _splits_of_eight() -> dict[tuple[int, int, int, int], float]:
    """Return requests per second of every split of eight H100s into two sides, by the simulator.

    Thirty users send when they have their answers. Keys: prefill replicas, their degree, decode
    replicas, their degree.
    """
    catalogue = Catalogue()
    builds = {
        tp: found
        for tp in (1, 2, 4)
        if isinstance(
            found := find_curve(catalogue, "llama-3.1-70b", "fp8", "h100-sxm", "vllm", tp), Curve
        )
    }
    found = {}
    for p_tp, ahead in builds.items():
        for d_tp, main in builds.items():
            for devices in range(p_tp, 9 - d_tp, p_tp):
                if (8 - devices) % d_tp:
                    continue
                n_p, n_d = devices // p_tp, (8 - devices) // d_tp
                rate = _throughput(ahead, main, n_p, n_d)
                if rate > 0:
                    found[n_p, p_tp, n_d, d_tp] = rate
    return found


def _throughput(ahead: Curve, main: Curve, n_prefill: int, n_decode: int) -> float:
    """Return completions per second of 30 users who ask again at once; 0 if nothing fits."""
    settings = Settings(max_num_batched_tokens=4096, max_num_seqs=64)
    rooms = [curve.room(settings).kv_blocks for curve in (ahead, main)]
    if min(rooms) * 16 < 3200:
        return 0.0
    limits = [Limits(64, 4096, room) for room in rooms]
    setup = GroupSetup(
        law_fields(ahead.step_law, 4096), limits[0], n_prefill, n_decode,
        round(kv_moved_bytes(main.llm, 1, main.layout.tp_degree, main.kv_dtype) / 100e9 * 1e12),
        MS, 2 * MS,
    )  # fmt: skip
    users, rounds = 30, 4
    sent = np.zeros((users, rounds), np.int64)
    finish = sent
    for _ in range(400):  # a fixed point: who sends when has the answer to the one before
        order = np.argsort(sent, axis=None, kind="stable")
        served = serve_groups(
            setup, (law_fields(main.step_law, 4096), limits[1]),
            traffic(np.sort(sent, axis=None).tolist(), 3000, 150), 1, "least_outstanding",
        )  # fmt: skip
        finish = np.empty(users * rounds, np.int64)
        finish[order] = served.finish_ps
        finish = finish.reshape(users, rounds)
        if finish.min() < 0:
            return 0.0
        again = np.concatenate([np.zeros((users, 1), np.int64), finish[:, :-1]], axis=1)
        if np.abs(again - sent).max() < MS:
            break
        sent = again
    assert np.abs(again - sent).max() < MS
    return float(users * rounds / (finish.max() / S))


@needs_shared
def test_the_split_of_eight_accelerators_decides_the_throughput():
    """Case 09: at 3,000 and 150 tokens the best split has more prefill than decode workers."""
    case = _case("09_disagg_pool_ratio_70b_h100")
    rates = _splits_of_eight()
    assert max(rates.values()) >= 2.0 * min(rates.values())
    best = max(rates, key=lambda split: rates[split])
    assert best[0] > best[2]
    tuned = case["observed"]["tuned"]  # type: ignore[index]
    latency_s = (tuned["ttft_ms_mean"] + 149 * tuned["itl_ms_mean"]) / 1e3
    assert tuned["rps"] * latency_s == pytest.approx(29.2, rel=0.03)
