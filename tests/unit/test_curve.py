"""Curves carry their provenance; a missing one says what exists instead."""

from __future__ import annotations

import pytest

from planner.catalogue import Catalogue
from planner.curves.context import check_context
from planner.curves.curve import Curve, NoCurve, curve_of, curves, find_curve
from planner.curves.memory import Settings
from planner.curves.step_law import law_fields
from planner.errors import InputError

CATALOGUE = Catalogue()


def found(llm: str, precision: str, accelerator: str, engine: str, tp: int, dp: int = 1) -> Curve:
    curve = find_curve(CATALOGUE, llm, precision, accelerator, engine, tp, dp)
    assert isinstance(curve, Curve)
    return curve


def missing(llm: str, precision: str, accelerator: str, engine: str, tp: int) -> NoCurve:
    curve = find_curve(CATALOGUE, llm, precision, accelerator, engine, tp)
    assert isinstance(curve, NoCurve)
    return curve


def test_a_curve_says_where_it_is_from_and_how_wrong_it_is() -> None:
    curve = found("llama-3.3-70b", "fp8", "h100_sxm", "vllm", 4)
    assert curve.id == "llama-3.1-70b.fp8.h100-sxm.vllm.tp4"
    assert (curve.llm.id, curve.accelerator.id, curve.kv_dtype) == (
        "llama-3.1-70b",
        "h100-sxm",
        "fp8",
    )
    assert curve.source == "step-table fit"
    assert "13 %" in curve.caveat
    assert "NVIDIA" in curve.attribution
    assert 0 < curve.relative_error.mean < curve.relative_error.p95 < 1
    assert curve.accelerators == 4


def test_a_curve_knows_where_it_ends() -> None:
    curve = found("qwen3-32b", "bf16", "h200-sxm", "vllm", 2)
    assert not curve.extrapolates(32_768, 131_072)
    assert curve.extrapolates(32_769, 1000)
    assert curve.extrapolates(1000, 131_073)


def test_every_law_makes_a_curve_that_kernels_can_run() -> None:
    for row in CATALOGUE.laws():
        curve = curve_of(CATALOGUE, row)
        assert curve.kv_bytes_per_token > 0
    for curve in curves(CATALOGUE, "deepseek-r1"):
        fields = law_fields(curve.step_law, 8192)
        assert fields.tokens_ps[1] == round(curve.row.step_s[0] * 1e12)
        assert fields.tokens_ps[8192] == round(curve.row.step_s[10] * 1e12)


def test_bytes_per_token_agree_with_the_law_s_own_account() -> None:
    """A second route: the source's own bytes per token, every layer counted as full."""
    for row in CATALOGUE.laws():
        curve = curve_of(CATALOGUE, row)
        full = 2 if row.model == "gpt-oss-120b" else 1  # half of its layers are windows
        assert curve.kv_bytes_per_token * full == row.kv_bytes_per_token


def test_kv_tokens_agree_with_the_law_s_own_account_where_memory_is_nominal() -> None:
    """A second route; 0.5 % is the rounding of the source's share of memory to three digits."""
    compared = 0
    for row in CATALOGUE.laws():
        if row.model == "gpt-oss-120b" or row.accelerator == "h100-sxm" or not row.kv_tokens:
            continue
        curve = curve_of(CATALOGUE, row)
        assert curve.room().kv_tokens == pytest.approx(row.kv_tokens, rel=0.005)
        compared += 1
    assert compared > 200


def test_a_smaller_step_leaves_more_cache() -> None:
    curve = found("llama-3.1-8b", "bf16", "l40s", "vllm", 1)
    rooms = [
        curve.room(Settings(max_num_batched_tokens=tokens)).kv_tokens
        for tokens in (16_384, 8192, 2048)
    ]
    assert rooms == sorted(rooms)
    assert rooms[0] < rooms[-1]


def test_a_request_too_long_for_a_curve_is_refused_with_levers() -> None:
    curve = found("llama-3.1-70b", "bf16", "h100-sxm", "vllm", 2)
    choice = curve.choice()
    assert choice.room().kv_tokens == curve.room().kv_tokens
    check_context(choice, curve.room().kv_tokens)
    with pytest.raises(InputError, match=r"tp_degree 4 .*weights in fp8") as refusal:
        check_context(choice, curve.room().kv_tokens + 1)
    assert f"the largest that does has {curve.room().kv_tokens} tokens" in str(refusal.value)


def test_attention_data_parallel_holds_more_than_tensor_parallel() -> None:
    """Case 06, with re-sharded weights: between 6.5 and 8 times for a latent cache."""
    tp8 = found("deepseek-v3.1", "nvfp4", "b200-sxm", "vllm", 8)
    dp8 = found("deepseek-v3.1", "nvfp4", "b200-sxm", "vllm", 1, 8)
    ratio = 8 * dp8.room().kv_tokens / tp8.room().kv_tokens
    assert 6.5 <= ratio <= 8.0


def test_a_missing_curve_names_the_one_thing_to_change() -> None:
    assert (
        "there are tp1, tp2, tp4, tp8"
        in missing("llama-3.1-70b", "fp8", "h100-sxm", "vllm", 16).reason
    )
    other_engine = missing("qwen3-32b", "fp8", "h100-sxm", "vllm", 1)
    assert "another engine than vllm there are sglang, trtllm" in other_engine.reason
    assert "qwen3-32b.fp8.h100-sxm.trtllm.tp1" in other_engine.instead
    other_precision = missing("llama-3.1-8b", "fp8", "h100-sxm", "vllm", 1)
    assert "another precision than fp8 there are bf16" in other_precision.reason
    other_device = missing("llama-3.1-8b", "bf16", "mi300x", "vllm", 1)
    assert "another accelerator than mi300x" in other_device.reason
    nothing = missing("qwen3-8b", "bf16", "h100-sxm", "vllm", 1)
    assert "no step law of qwen3-8b at all" in nothing.reason
    assert nothing.instead == ()


def test_an_unknown_name_is_no_missing_curve() -> None:
    with pytest.raises(InputError, match="ambiguous"):
        find_curve(CATALOGUE, "llama-3.1-8b", "bf16", "h100", "vllm", 1)
