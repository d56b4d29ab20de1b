"""The step law against its formula."""

from __future__ import annotations

import pytest

from planner.kernels.stepwise import StepLaw, StepWork, affine


def mixed_step():
    work = StepWork()
    work.add_decode(9)  # reads 10
    work.add_decode(19)  # reads 20
    work.add_chunk(4, 6)  # 2X = 4 * (12 + 4) = 64, C = 10
    return work


def test_work_adds_up_by_kind():
    work = mixed_step()
    assert (work.tokens, work.requests) == (6, 3)
    assert (work.decode_context, work.chunk_context, work.attention2) == (30, 10, 64)


def test_the_affine_law_counts_tokens_requests_and_all_context():
    # base 1000; 6 tokens of 100; 3 requests of 10; context 30 + 10 of 1
    assert affine(1000, 100, 10, 1).ticks(mixed_step()) == 1670


@pytest.mark.parametrize(
    ("n", "ticks"), [(1, 10), (2, 10), (4, 14), (5, 17), (6, 20), (8, 26), (10, 32), (0, 10)]
)
def test_the_token_table_is_linear_between_knots_and_beyond_them(n, ticks):
    # flat to 2, 2 a token to 4, 3 a token from there on; the first piece goes on to 0
    law = StepLaw(((1, 10), (2, 10), (4, 14), (8, 26)))
    assert law.ticks(StepWork(tokens=n)) == ticks


def test_every_term_counts_and_that_of_attention_is_rounded_down():
    # 1; 2X = 64: 7 * 64 / 32 = 14; 5 * 30; 3 * 3; 2 * 10
    law = StepLaw(((0, 1),), c_x=7, c_k=5, c_n=3, c_c=2, shift=5)
    assert law.ticks(mixed_step()) == 1 + 14 + 150 + 9 + 20
    # 448 of 1024ths are less than a tick
    assert StepLaw(((0, 1),), c_x=7, shift=10).ticks(mixed_step()) == 1


def test_a_lone_prefill_takes_the_sum_of_its_chunks():
    # chunks of 4, 4, 2: three steps of 10 and 10 tokens of 1
    assert affine(10, 1).alone(10, 4) == 40
