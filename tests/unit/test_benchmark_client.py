"""A rank under a benchmark client: worked by hand, and both implementations compared."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.kernels.closed_loop import (
    EngineTimes,
    RankLaw,
    Scheduler,
    compiled,
    plain,
    serve_arrivals,
    serve_users,
)

LAW = RankLaw(np.array([1.0, 101.0]), np.array([1.0, 2.0]), 0.01, 1e-4, 1e-3)
"""L(n) = 1 + (n - 1) / 100 seconds."""


def engine(scheduler: Scheduler = Scheduler.MIXED, **changes: float) -> EngineTimes:
    return EngineTimes(scheduler, 100, 100, 10_000)._replace(**changes)


def tokens(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def test_one_user_by_hand() -> None:
    records = serve_users(LAW, engine(), 1, tokens(11, 11), tokens(3, 3))
    prefill = 1.10 + 1e-4 * 11**2 / 2
    decode = (1 + 1e-3 * 12, 1 + 1e-3 * 13)
    assert records.first_token_s[0] == pytest.approx(prefill)
    assert records.finish_s[0] == pytest.approx(prefill + sum(decode))
    assert records.sent_s[1] == records.finish_s[0]
    assert records.finish_s[1] == pytest.approx(2 * records.finish_s[0])
    assert records.steps == 6


def test_prompts_longer_than_the_budget_are_cut_and_attention_is_the_same() -> None:
    records = serve_users(LAW, engine(), 1, tokens(150), tokens(1))
    assert records.steps == 2
    levels = (1 + 99 / 100) + (1 + 49 / 100)
    assert records.first_token_s[0] == pytest.approx(levels + 1e-4 * 150**2 / 2)


def test_whole_prompts_are_not_cut_by_the_mixed_whole_scheduler() -> None:
    """Two prompts of 60 do not fit a step of 100: the second waits for the next step."""
    cut = serve_users(LAW, engine(), 2, tokens(60, 60), tokens(1, 1))
    whole = serve_users(LAW, engine(Scheduler.MIXED_WHOLE), 2, tokens(60, 60), tokens(1, 1))
    assert cut.first_token_s[0] == pytest.approx(1.99 + 1e-4 * (60**2 + 40**2) / 2)
    assert whole.first_token_s[0] == pytest.approx(1.59 + 1e-4 * 60**2 / 2)
    assert whole.first_token_s[1] == pytest.approx(2 * whole.first_token_s[0])


def test_decodes_stand_still_while_prompts_come_first() -> None:
    """The second prompt arrives during the first one's decode; only prefill-first stalls it."""
    sent = np.array([0.0, 1.5])
    prompt, output = tokens(11, 11), tokens(4, 4)
    mixed = serve_arrivals(LAW, engine(), sent, prompt, output)
    first = serve_arrivals(LAW, engine(Scheduler.PREFILL_FIRST), sent, prompt, output)
    alone = 1.10 + 1e-4 * 11**2 / 2
    decode = 1 + 1e-3 * 12
    assert mixed.first_token_s[1] == pytest.approx(alone + decode + alone + 0.01 + 1e-3 * 13)
    assert first.first_token_s[1] == pytest.approx(alone + decode + alone)
    together = 1.01 + 1e-3 * (13 + 12), 1.01 + 1e-3 * (14 + 13)
    assert first.finish_s[0] == pytest.approx(first.first_token_s[1] + sum(together))


def test_host_times_and_paths_add_up() -> None:
    plain_run = serve_users(LAW, engine(), 1, tokens(11), tokens(3))
    times = engine(
        host_step_s=0.5, host_sequence_s=0.25, host_prefill_s=2.0, front_request_s=3.0,
        front_token_s=0.1, path_in_s=7.0,
    )  # fmt: skip
    records = serve_users(LAW, times, 1, tokens(11), tokens(3))
    ahead = 7.0 + 3.0 + 1.1
    assert records.first_token_s[0] == pytest.approx(
        ahead + plain_run.first_token_s[0] + 0.5 + 0.25 + 2.0
    )
    decode = plain_run.finish_s[0] - plain_run.first_token_s[0]
    assert records.finish_s[0] - records.first_token_s[0] == pytest.approx(decode + 2 * 0.75)


def test_the_front_end_serves_one_request_after_the_other() -> None:
    records = serve_users(LAW, engine(front_request_s=10.0), 3, tokens(1, 1, 1), tokens(1, 1, 1))
    alone = 1.0 + 1e-4 / 2
    assert records.first_token_s == pytest.approx([10 + alone, 20 + alone, 30 + alone])


def test_cached_tokens_are_not_computed_but_attended_to() -> None:
    records = serve_users(LAW, engine(cached_tokens=10), 1, tokens(21), tokens(2))
    assert records.first_token_s[0] == pytest.approx(1.10 + 1e-4 * 11 * (10 + 11 / 2))
    assert records.finish_s[0] - records.first_token_s[0] == pytest.approx(1 + 1e-3 * 22)


def test_a_shared_prefix_is_read_once_but_for_a_share() -> None:
    """Two requests of 21, of which 10 are shared: 2 x 12 own tokens, and 10 (1 + 0.5)."""
    times = engine(cached_tokens=10, cached_reread=0.5)
    records = serve_users(LAW, times, 2, tokens(21, 21), tokens(2, 2))
    assert records.finish_s[0] - records.first_token_s[0] == pytest.approx(1.01 + 1e-3 * 39)


def test_a_full_cache_preempts_the_last_and_everybody_finishes() -> None:
    records = serve_users(LAW, engine(kv_tokens=40), 2, tokens(10, 10), tokens(20, 20))
    assert records.preemptions > 0
    assert (records.finish_s >= records.first_token_s).all()
    held_back = engine(kv_tokens=40, reserved_output=1.0)
    assert serve_users(LAW, held_back, 2, tokens(10, 10), tokens(20, 20)).preemptions == 0


@st.composite
def runs(draw: st.DrawFn) -> tuple[RankLaw, EngineTimes, int, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, 40))
    budget = draw(st.integers(8, 300))
    law = RankLaw(
        np.array([1.0, 8.0, 64.0, 512.0]), np.cumsum(rng.random(4)) * 0.01, 1e-5, 1e-9, 1e-7
    )
    times = EngineTimes(
        Scheduler(draw(st.integers(0, 2))),
        budget,
        draw(st.integers(1, min(budget, 16))),
        draw(st.integers(1, 1500)),
        draw(st.sampled_from([0.0, 0.5, 1.0])),
        draw(st.sampled_from([0, 5])),
        draw(st.integers(0, 1)),
        *(rng.random(7) * 0.01),
        draw(st.sampled_from([0, 30])),
        draw(st.sampled_from([1.0, 2.5])),
        draw(st.sampled_from([0.0, 0.3])),
    )
    prompt = rng.integers(1, 200, n).astype(np.int32)
    output = rng.integers(1, 40, n).astype(np.int32)
    return law, times, draw(st.integers(0, 12)), prompt, output, np.sort(rng.random(n) * 3)


@pytest.mark.skipif(not compiled.COMPILED, reason="no compiled module")
@given(runs())
def test_compiled_and_plain_agree_to_the_bit(run: tuple) -> None:  # type: ignore[type-arg]
    law, times, users, prompt, output, sent = run
    found = []
    for serve in (compiled.serve, plain.serve):
        arrays = (sent.copy(), np.zeros(len(sent)), np.zeros(len(sent)))
        found.append((serve(law, times, users, prompt, output, *arrays), *arrays))
    assert found[0][0] == found[1][0]
    assert all((a == b).all() for a, b in zip(found[0][1:], found[1][1:], strict=True))


@given(runs())
def test_nobody_is_served_before_sending_and_users_are_never_exceeded(run: tuple) -> None:  # type: ignore[type-arg]
    law, times, users, prompt, output, _ = run
    users = max(users, 1)
    records = serve_users(law, times, users, prompt, output)
    assert (records.first_token_s > records.sent_s).all()
    assert (records.finish_s >= records.first_token_s).all()
    for moment in records.sent_s:
        inside = (records.sent_s <= moment) & (records.finish_s > moment)
        assert inside.sum() <= users


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="users"):
        serve_users(LAW, engine(), 0, tokens(1), tokens(1))
    with pytest.raises(ValueError, match="ascend"):
        serve_arrivals(LAW, engine(), np.array([1.0, 0.0]), tokens(1, 1), tokens(1, 1))
    with pytest.raises(ValueError, match="range"):
        serve_users(LAW, engine(max_num_seqs=0), 1, tokens(1), tokens(1))
