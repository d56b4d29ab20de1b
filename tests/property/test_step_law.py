"""Laws of the step law: monotone, exact at its knots, and the integer form close to it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from planner.curves.step_law import StepLaw, law_fields

seconds = st.floats(1e-6, 10.0, allow_nan=False)
small = st.floats(0, 1e-5, allow_nan=False)


@st.composite
def laws(draw: st.DrawFn) -> StepLaw:
    knots = sorted({1, *draw(st.lists(st.integers(2, 4096), min_size=0, max_size=8))})
    times = sorted(draw(st.lists(seconds, min_size=len(knots), max_size=len(knots))))
    return StepLaw(tuple(knots), tuple(times), draw(small), *(draw(small) for _ in range(4)))


chunk = st.tuples(st.integers(0, 50_000), st.integers(1, 1000))
steps = st.tuples(st.lists(chunk, max_size=4), st.lists(st.integers(1, 100_000), max_size=50))


@given(laws(), st.integers(1, 10_000), st.integers(0, 10_000))
def test_more_tokens_never_take_less_time(law: StepLaw, tokens: int, more: int) -> None:
    assert law.tokens_s(tokens + more) >= law.tokens_s(tokens) * (1 - 1e-12)


@given(laws())
def test_the_law_passes_through_its_knots(law: StepLaw) -> None:
    assert np.allclose(law.tokens_s(law.knots), law.step_s, rtol=1e-12)


@given(laws(), steps)
def test_a_step_adds_up_from_its_requests(
    law: StepLaw, step: tuple[list[tuple[int, int]], list[int]]
) -> None:
    """Time beyond L(n) is linear: splitting a step's requests splits it exactly."""
    chunks, contexts = step

    def beyond(c: list[tuple[int, int]], k: list[int]) -> float:
        n = sum(new for _, new in c) + len(k)
        return law.one_step_s(c, k) - float(law.tokens_s(n))

    whole = beyond(chunks, contexts)
    parts = sum(beyond([c], []) for c in chunks) + sum(beyond([], [k]) for k in contexts)
    assert abs(whole - parts) <= 1e-9 * max(1.0, whole)


@given(laws(), steps)
def test_the_integer_form_is_off_by_rounding_only(
    law: StepLaw, step: tuple[list[tuple[int, int]], list[int]]
) -> None:
    chunks, contexts = step
    n = sum(new for _, new in chunks) + len(contexts)
    if n == 0:
        return
    fields = law_fields(law, n)
    twice_x = sum(new * (2 * cached + new) for cached, new in chunks)
    chunk_context = sum(cached + new for cached, new in chunks)
    scheduled = len(chunks) + len(contexts)
    integer = (
        int(fields.tokens_ps[n])
        + ((fields.square_ps_2p15 * twice_x) >> 16)
        + fields.context_ps * sum(contexts)
        + fields.sequence_ps * scheduled
        + fields.chunk_context_ps * chunk_context
    )
    exact = law.one_step_s(chunks, contexts) * 1e12
    rounding = 2 + 0.5 * (sum(contexts) + scheduled + chunk_context) + twice_x / 2**17
    assert abs(integer - exact) <= rounding + 1e-12 * exact
