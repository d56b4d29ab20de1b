"""Measured deployments that serve apart: where their time goes, and when they are overloaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml

from planner.attribution.charge import charge_misses
from planner.catalogue import Catalogue
from planner.curves.curve import Curve, find_curve
from planner.curves.memory import Settings, kv_moved_bytes
from planner.curves.step_law import law_fields
from planner.kernels import Law, Limits
from planner.simulation.draw import Traffic
from planner.simulation.group import GroupSetup, parts_of_groups, serve_groups
from planner.simulation.pool import MOST_GROWTH, backlog_growth
from tests.shared import SHARED, needs_shared

if TYPE_CHECKING:
    from planner.simulation.group import GroupServed
    from planner.simulation.stages import Parts

S, MS = 10**12, 10**9


def case_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(
        (SHARED / "cases" / "users" / f"{name}.yaml").read_text()
    )
    return found


def flat(base_ms: float, per_token_us: float, budget: int) -> Law:
    tokens = np.rint(base_ms * MS + per_token_us * 1e6 * np.arange(budget + 1)).astype(np.int64)
    tokens[0] = 0
    return Law(tokens)


def serve(
    setup: GroupSetup,
    decode: tuple[Law, Limits],
    arrival_ps: np.ndarray,
    lengths: tuple[int, int],
) -> tuple[GroupServed, Parts]:
    n = arrival_ps.size
    prompt, output = (np.full(n, x, np.int32) for x in lengths)
    requests = Traffic(arrival_ps.astype(np.int64), np.zeros(n, np.int32), prompt, output)
    found = serve_groups(setup, decode, requests, 1, "least_outstanding", stages=True)
    assert found.stages is not None
    parts = parts_of_groups(found.stages, found.first_token_ps - arrival_ps, np.arange(n), 0)
    return found, parts


def one_prompt_at_a_time(n_prefill: int, n_decode: int) -> tuple[GroupSetup, tuple[Law, Limits]]:
    """Prefill takes 100 ms a prompt of 1,000 tokens and takes one at a time."""
    setup = GroupSetup(
        flat(0, 100, 1000), Limits(1, 1000, 100_000), n_prefill, n_decode, 350_000, 2 * MS, 2 * MS
    )
    return setup, (flat(20, 0, 256), Limits(256, 256, 10**6))


@needs_shared
@pytest.mark.parametrize("decodes", [1, 4])
def test_misses_of_one_prefill_worker_are_charged_to_its_queue(decodes):
    """Fifty users at once want their first token within 500 ms of one worker, 100 ms a prompt."""
    case = case_of("08_disagg_prefill_queue_dsv3_h200")
    users, wanted_ms = 50, case["wanted"]["ttft_ms_at_concurrency"][50]
    setup, decode = one_prompt_at_a_time(1, decodes)
    served, parts = serve(setup, decode, np.zeros(users), (1000, 200))
    late = served.first_token_ps > wanted_ms * MS
    assert late.mean() > 0.9  # infeasible, however many decode replicas there are
    first_by, rest_by = np.full(users, wanted_ms * MS), np.full(users, 2**62)
    charged = {k: float(v.sum()) for k, v in charge_misses(parts, first_by, rest_by).items()}
    assert sum(charged.values()) == pytest.approx(float(late.sum()))
    assert charged["queue"] > 0.99 * late.sum()
    assert (parts.queue / served.first_token_ps)[late].min() > 0.6


@needs_shared
def test_a_waiting_request_costs_the_next_one_a_prefill():
    """The slope that was measured, and the rate that it implies; ten workers take all at once."""
    case = case_of("08_disagg_prefill_queue_dsv3_h200")
    setup, decode = one_prompt_at_a_time(1, 1)
    served, _ = serve(setup, decode, np.zeros(100), (1000, 200))
    slope_ms = float(np.diff(np.sort(served.first_token_ps)).mean()) / MS
    assert slope_ms == pytest.approx(case["derived"]["slope_ms_per_waiting_request"], rel=0.02)
    assert 1e3 / slope_ms == pytest.approx(
        case["derived"]["implied_prefill_capacity_rps"], rel=0.02
    )
    setup, decode = one_prompt_at_a_time(10, 1)
    served, _ = serve(setup, decode, np.zeros(50), (1000, 200))
    assert float(served.first_token_ps.max()) <= 550 * MS


def stage_shares(n_prefill: int, n_decode: int) -> tuple[float, dict[str, float]]:
    """Thirty requests of 3,000 and 150 tokens at once, all replicas on two devices.

    Returns:
        Mean TTFT in seconds, and which share of it each stage takes.
    """
    curve = find_curve(Catalogue(), "llama-3.1-70b", "fp8", "h100-sxm", "vllm", 2)
    assert isinstance(curve, Curve)
    room = curve.room(Settings(max_num_batched_tokens=4096, max_num_seqs=64))
    law, limits = law_fields(curve.step_law, 4096), Limits(64, 4096, room.kv_blocks)
    per_token = kv_moved_bytes(curve.llm, 1, 2, curve.kv_dtype) / 100e9 * 1e12
    setup = GroupSetup(law, limits, n_prefill, n_decode, round(per_token), MS, 2 * MS)
    served, parts = serve(setup, (law, limits), np.zeros(30), (3000, 150))
    total = float(served.first_token_ps.sum())
    names = ("queue", "prefill", "prefill_interference", "kv_block_wait", "kv_transfer", "handoff")
    shares = {name: float(getattr(parts, name).sum()) / total for name in names}
    return total / served.first_token_ps.size / S, shares


@needs_shared
def test_few_prefill_workers_spend_the_first_token_s_time_in_their_queue():
    """Case 09: the same eight devices, another split; the link has hardly a share in it."""
    slow, starved = stage_shares(1, 3)
    fast, balanced = stage_shares(3, 1)
    assert sum(starved.values()) == pytest.approx(1.0)
    assert sum(balanced.values()) == pytest.approx(1.0)
    assert slow > 2.5 * fast
    assert starved["queue"] > 0.8
    own = "prefill", "prefill_interference"
    assert sum(balanced[k] for k in own) > 2 * sum(starved[k] for k in own)
    assert max(starved["kv_transfer"], balanced["kv_transfer"]) < 0.1


@needs_shared
def test_the_books_of_the_measured_splits_balance():
    case = case_of("09_disagg_pool_ratio_70b_h100")
    tuned, other = (case["observed"][k] for k in ("tuned", "reference"))
    for row in (tuned, other):
        latency_ms = row["ttft_ms_mean"] + 149 * row["itl_ms_mean"]
        assert row["rps"] * latency_ms / 1e3 == pytest.approx(29.2, rel=0.03)
        assert row["ttft_ms_p99"] > 2.9 * row["ttft_ms_mean"]
    assert latency_ms == pytest.approx(4278.64, rel=0.01)


@needs_shared
def test_a_group_that_is_offered_more_than_it_serves_is_called_overloaded():
    """Case 10: two prefill nodes and one decode node at 3.2 req/s, of which 2.56 come out.

    Decode is given the step and the seats that were measured; nothing else is fitted. The longer
    the run the later the first tokens, so no mean of it is a forecast.
    """
    case = case_of("10_overload_identities_h20")
    seen, work = case["observed"], case["workload"]
    prompt, output = work["input_tokens"], work["output_tokens"]
    seats = seen["rps"] * (output - 1) * seen["itl_ms_mean"] / 1e3
    assert seats == pytest.approx(498.6, rel=0.02)
    e2e_ms = seen["ttft_ms_mean"] + (output - 1) * seen["itl_ms_mean"]
    assert e2e_ms == pytest.approx(seen["e2e_ms_mean"], rel=1e-3)
    assert seen["rps"] * e2e_ms / 1e3 == pytest.approx(seen["concurrency_mean"], rel=2e-3)
    setup = GroupSetup(flat(0, 120, 4096), Limits(8, 4096, 10**6), 2, 1, 1_000_000, 2 * MS, 2 * MS)
    decode = flat(seen["itl_ms_mean"], 0, 512), Limits(round(seats), 512, 10**7)
    mean_s, served_rps = [], []
    for n in (work["requests"], 2 * work["requests"]):
        arrival = np.arange(n) * round(S / work["offered_rps"])
        served, _ = serve(setup, decode, arrival, (prompt, output))
        assert backlog_growth(arrival, served.started_ps) > MOST_GROWTH
        mean_s.append(float((served.first_token_ps - arrival).mean()) / S)
        done = np.sort(served.finish_ps)
        served_rps.append(n / 2 / float(done[3 * n // 4] - done[n // 4]) * S)
    for rate in served_rps:
        assert rate == pytest.approx(seen["rps"], rel=0.02)
        assert rate < 0.85 * work["offered_rps"]
    assert mean_s[1] > 1.2 * mean_s[0]
