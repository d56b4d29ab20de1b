"""The step law by hand, and its integer form as the kernels compute it."""

from __future__ import annotations

import numpy as np
import pytest

from planner.curves.step_law import StepLaw, law_fields
from planner.errors import InputError

LAW = StepLaw(
    knots=(1, 8, 32),
    step_s=(0.010, 0.017, 0.041),
    slope_beyond_s_per_token=0.002,
    c_x_s_per_token2=1e-6,
    c_k_s_per_token=1e-5,
    c_n_s_per_request=1e-4,
    c_c_s_per_token=2e-6,
)


@pytest.mark.parametrize(
    ("tokens", "seconds"),
    [
        (0, 0.0),
        (1, 0.010),
        (4, 0.013),  # 1 ms a token between 1 and 8
        (8, 0.017),
        (20, 0.029),  # and again 1 ms a token up to 32
        (32, 0.041),
        (40, 0.057),  # then 2 ms a token
    ],
)
def test_tokens_are_piecewise_linear(tokens: int, seconds: float) -> None:
    assert LAW.tokens_s(tokens) == pytest.approx(seconds, abs=1e-15)


def test_a_mixed_step_by_hand() -> None:
    """A chunk of 6 after 10 cached, and two sequences of 100 and 200 tokens of context.

    n = 8: 17 ms. X = 6 (10 + 3) = 78: 78 us. K = 300: 3 ms. N = 3: 0.3 ms. C = 16: 32 us.
    """
    seconds = 0.017 + 78e-6 + 3e-3 + 3e-4 + 32e-6
    assert LAW.one_step_s([(10, 6)], [100, 200]) == pytest.approx(seconds, rel=1e-12)


def test_a_prompt_costs_the_same_attention_in_any_chunks() -> None:
    """X of a prompt of p tokens is p²/2 however it is cut."""
    plain = StepLaw((1,), (1e-9,), 0.0, 1.0, 0.0)
    whole = plain.one_step_s([(0, 100)])
    cut = sum(plain.one_step_s([(at, 25)]) for at in (0, 25, 50, 75))
    assert whole == pytest.approx(100**2 / 2)
    assert cut == pytest.approx(whole)


def test_a_run_of_decode_steps_has_the_closed_form() -> None:
    """t1 + ... + tk = k (L(B) + c_N B) + c_K (k K + B k (k - 1) / 2)."""
    contexts, k = [100, 250, 7], 40
    steps = sum(LAW.one_step_s([], [c + i for c in contexts]) for i in range(k))
    b, context = len(contexts), sum(contexts)
    closed = k * (float(LAW.tokens_s(b)) + 1e-4 * b)
    closed += 1e-5 * (k * context + b * k * (k - 1) / 2)
    assert steps == pytest.approx(closed, rel=1e-12)


def test_many_steps_at_once_are_the_single_ones() -> None:
    n, x, k = np.array([3.0, 17.0]), np.array([4.5, 0.0]), np.array([[0.0], [50.0]])
    table = LAW.step_s_of(n, x, k)
    assert table.shape == (2, 2)
    assert table[1, 0] == pytest.approx(float(LAW.tokens_s(3)) + 4.5e-6 + 5e-4)


def test_the_integer_form_is_the_law_in_picoseconds() -> None:
    tokens_ps, square, context_ps, sequence_ps, chunk_ps = law_fields(LAW, 64)
    assert tokens_ps.dtype == np.int64
    assert tokens_ps.shape == (65,)
    assert not tokens_ps.flags.writeable
    assert tokens_ps[[0, 1, 8, 40]].tolist() == [0, 10**10, 17 * 10**9, 57 * 10**9]
    assert square == 10**6 * 2**15  # c_X of 1e6 ps: twice X is summed, then 16 bits are shifted out
    assert (context_ps, sequence_ps, chunk_ps) == (10**7, 10**8, 2 * 10**6)
    twice_x = 6 * (2 * 10 + 6)
    assert (square * twice_x) >> 16 == 78 * 10**6


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"knots": (2, 8, 32)}, "first knot at 1"),
        ({"knots": (1, 8)}, "one time a knot"),
        ({"knots": (1, 8, 8)}, "must ascend"),
        ({"step_s": (0.01, float("nan"), 0.04)}, "finite"),
        ({"c_k_s_per_token": -1e-9}, "not negative"),
    ],
)
def test_a_senseless_law_is_refused(change: dict[str, object], sentence: str) -> None:
    fields = {name: getattr(LAW, name) for name in StepLaw.__slots__} | change
    with pytest.raises(InputError, match=sentence):
        StepLaw(**fields)


def test_a_law_in_wrong_units_is_refused() -> None:
    hours = StepLaw((1,), (1e7,), 0.0, 0.0, 0.0)
    with pytest.raises(InputError, match="53 days"):
        law_fields(hours, 1)
    with pytest.raises(InputError, match="at least 1"):
        law_fields(LAW, 0)
