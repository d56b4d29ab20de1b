"""Memory against logs of real engines and hand-worked bytes; each test names its case.

Facts of the cases are retyped: memory logs in GiB per device, bytes per token, degrees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from planner.catalogue import Accelerator, Catalogue, Llm
from planner.catalogue.degrees import (
    admissible_tp_degrees,
    check_tp_degree,
    kv_replication,
    tp_degrees_of,
)
from planner.catalogue.llm import Mla
from planner.curves.context import Choice, check_context, largest_context, levers
from planner.curves.curve import Curve, find_curve
from planner.curves.memory import (
    GIB,
    KvRoom,
    Layout,
    Reserve,
    Settings,
    activation_bytes,
    generic_reserve,
    kv_bytes_of_sequence,
    kv_bytes_per_token_per_device,
    kv_moved_bytes,
    kv_room,
    law_reserve,
    weights_bytes_per_device,
)
from planner.errors import InputError

CATALOGUE = Catalogue()


def llm_of(**facts: Any) -> Llm:
    """Return a made-up dense model with the facts that a test is about."""
    plain: dict[str, Any] = {
        "id": "made-up",
        "name": "made-up",
        "architecture": "Made",
        "family": "dense",
        "layers": 32,
        "hidden": 4096,
        "query_heads": 32,
        "kv_heads": 8,
        "head_dim": 128,
        "intermediate": 14336,
        "vocab": 128256,
        "max_context": 131072,
        "params_total_b": 8.03,
        "kv": "known",
        "source": "a test",
        "licence": "none",
    }
    return Llm(**(plain | facts))


def device(gib: float) -> Accelerator:
    """Return an H100 whose driver reports so many GiB."""
    return CATALOGUE.accelerator("h100-sxm").model_copy(update={"memory": gib * GIB})


MISTRAL = llm_of(
    layers=40, hidden=5120, intermediate=32768, vocab=131072, params_total_b=44.76 * GIB / 2e9
)


@dataclass(frozen=True)
class Log:
    """One line of an engine's memory log on an H100 that reports 79.18 GiB; GiB per device."""

    llm: Llm
    precision: str
    tp: int
    utilisation: float
    weights: float
    activation: float
    non_torch: float
    kv: float
    max_num_seqs: int = 1024


CASE_03 = [
    Log(CATALOGUE.llm("gpt-oss-20b"), "mxfp4", 1, 0.90, 13.47, 7.38, 0.13, 50.28),
    Log(CATALOGUE.llm("gpt-oss-120b"), "mxfp4", 1, 0.95, 64.38, 7.38, 0.13, 3.33),
    Log(CATALOGUE.llm("llama-3.3-70b"), "fp8", 2, 0.90, 33.88, 4.84, 0.55, 32.00),
    Log(CATALOGUE.llm("llama-3.1-8b"), "bf16", 1, 0.90, 14.99, 4.76, 0.13, 51.38),
    Log(CATALOGUE.llm("qwen3-0.6b"), "bf16", 1, 0.90, 1.12, 5.56, 0.13, 64.45),
    Log(CATALOGUE.llm("qwen3-32b"), "bf16", 1, 0.90, 61.03, 5.64, 0.14, 4.45),
    Log(CATALOGUE.llm("qwen3-32b"), "bf16", 2, 0.90, 30.59, 5.64, 0.54, 34.49),
    # its activations say that fewer sequences were sampled than in the other logs
    Log(MISTRAL, "bf16", 1, 0.95, 44.76, 2.12, 0.14, 28.20, max_num_seqs=256),
]
H100_LOGGED = device(79.18)


def settings_of(log: Log) -> Settings:
    return Settings(utilisation=log.utilisation, max_num_seqs=log.max_num_seqs, block_size=128)


def logged_room(log: Log) -> KvRoom:
    """Return the room by the log's own account of what is not KV cache."""
    reserve = Reserve(log.weights * GIB, log.activation * GIB, log.non_torch * GIB, "log")
    layout = Layout(tp_degree=log.tp)
    return kv_room(log.llm, H100_LOGGED, reserve, layout, settings_of(log))


@pytest.mark.parametrize("log", CASE_03, ids=lambda x: f"{x.llm.id}-tp{x.tp}")
def test_case_03_the_books_of_a_memory_log_close(log: Log) -> None:
    assert logged_room(log).kv_bytes / GIB == pytest.approx(log.kv, abs=0.15)


@pytest.mark.parametrize("log", CASE_03, ids=lambda x: f"{x.llm.id}-tp{x.tp}")
def test_case_03_the_generic_model_finds_the_kv_cache(log: Log) -> None:
    layout, settings = Layout(tp_degree=log.tp), settings_of(log)
    reserve = generic_reserve(log.llm, log.precision, layout, settings)
    room = kv_room(log.llm, H100_LOGGED, reserve, layout, settings)
    assert room.kv_bytes / GIB == pytest.approx(log.kv, abs=1.5)
    assert reserve.weights_bytes / GIB == pytest.approx(log.weights, abs=0.2)


@pytest.mark.parametrize("log", CASE_03[1:4] + CASE_03[5:7], ids=lambda x: f"{x.llm.id}-tp{x.tp}")
def test_case_03_the_account_of_a_step_law_finds_the_kv_cache(log: Log) -> None:
    curve = find_curve(CATALOGUE, log.llm.id, log.precision, "h100-sxm", "vllm", log.tp)
    assert isinstance(curve, Curve)
    reserve = law_reserve(curve.row, log.llm, settings_of(log))
    room = kv_room(log.llm, H100_LOGGED, reserve, curve.layout, settings_of(log))
    assert room.kv_bytes / GIB == pytest.approx(log.kv, abs=1.5)


def test_case_03_tokens_and_concurrency() -> None:
    mistral, qwen = logged_room(CASE_03[7]), logged_room(CASE_03[5])
    assert mistral.kv_tokens == pytest.approx(184_832, rel=0.005)
    assert mistral.holds(16_000) == pytest.approx(11.55, rel=0.02)
    assert qwen.holds(16_000) == pytest.approx(1.14, rel=0.05)


def test_case_03_what_does_not_fit_says_why() -> None:
    r1 = CATALOGUE.llm("deepseek-r1")
    reserve = generic_reserve(r1, "fp8")
    assert "weights need 6" in str(kv_room(r1, H100_LOGGED, reserve).why_not(16_000))
    llama = CATALOGUE.llm("llama-3.3-70b")
    reserve = generic_reserve(llama, "fp8", settings=Settings(max_num_seqs=1024))
    assert "no room for KV cache" in str(kv_room(llama, H100_LOGGED, reserve).why_not(16_000))
    qwen = logged_room(CASE_03[5])
    assert qwen.why_not(16_000) is None
    assert "a request needs 32000" in str(qwen.why_not(32_000))


def test_case_03_a_fit_by_a_thread_is_called_fragile() -> None:
    fragile = [x for x in CASE_03 if logged_room(x).is_fragile(16_000)]
    assert [(x.llm.id, x.tp) for x in fragile] == [("gpt-oss-120b", 1), ("qwen3-32b", 1)]


LLAMA_3090 = CATALOGUE.llm("llama-3.1-8b")


def room_3090(max_model_len: int, *, chunked: bool) -> KvRoom:
    """Return the room of case 04: 23.58 GiB reported, 0.35 GiB outside the allocator."""
    settings = Settings(max_num_batched_tokens=512 if chunked else max_model_len)
    tokens, seqs = settings.max_num_batched_tokens, settings.max_num_seqs
    activation = activation_bytes(LLAMA_3090, 1, tokens, seqs)
    reserve = Reserve(14.9888 * GIB, activation, 0.35 * GIB, "case 04")
    return kv_room(LLAMA_3090, device(23.58), reserve, settings=settings)


def test_case_04_activations_follow_the_tokens_of_one_pass() -> None:
    for tokens, logged_gib in ((20_000, 2.07), (29_000, 2.99)):
        assert activation_bytes(LLAMA_3090, 1, tokens, 256) / GIB == pytest.approx(
            logged_gib, rel=0.01
        )


def test_case_04_the_pass_and_not_the_context_decides() -> None:
    fits, fails, chunked = (
        room_3090(20_000, chunked=False),
        room_3090(29_000, chunked=False),
        room_3090(35_000, chunked=True),
    )
    assert fits.kv_bytes / GIB == pytest.approx(3.81, abs=0.1)
    assert fits.kv_tokens == pytest.approx(31_232, rel=0.03)
    assert fits.why_not(20_000) is None
    assert fails.why_not(29_000) is not None
    assert largest_context(LLAMA_3090, fails) == pytest.approx(23_600, rel=0.02)
    assert chunked.why_not(35_000) is None


def test_case_04_a_refusal_gives_the_largest_context_and_the_levers() -> None:
    settings = Settings(max_num_batched_tokens=29_000)
    choice = Choice(llm=LLAMA_3090, accelerator=device(23.58), precision="bf16", settings=settings)
    with pytest.raises(InputError, match="the largest that does has 2") as refusal:
        check_context(choice, 29_000)
    assert "max_num_batched_tokens 2048" in str(refusal.value)
    helps = levers(choice)
    assert {"tp_degree 2", "memory_utilisation 0.95", "KV cache in fp8", "weights in fp8"} <= {
        x.change for x in helps
    }
    now = largest_context(LLAMA_3090, choice.room())
    assert all(x.largest_context > now for x in helps)


def test_a_context_beyond_the_model_is_refused() -> None:
    choice = Choice(llm=LLAMA_3090, accelerator=device(79.18), precision="bf16")
    assert check_context(choice, 131_072).why_not(131_072) is None
    with pytest.raises(InputError, match="made for 131072 tokens"):
        check_context(choice, 131_073)


def test_case_02_kv_heads_are_replicated_in_memory_and_on_the_wire() -> None:
    qwen = CATALOGUE.llm("qwen3-235b-a22b")
    assert kv_bytes_per_token_per_device(qwen) == 192_512
    assert 4 * kv_bytes_per_token_per_device(qwen, 4) == 192_512
    assert 8 * kv_bytes_per_token_per_device(qwen, 8) == 385_024
    assert kv_replication(qwen, 8) == 2
    assert kv_replication(qwen, 4) == 1
    moved = kv_moved_bytes(qwen, 32_768, tp_degree=8)
    assert moved / 1e9 == pytest.approx(12.62, rel=0.01)
    assert moved / 164.3e9 * 1000 == pytest.approx(76.78, rel=0.05)


def mla_llm() -> Llm:
    mla = Mla(kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128)
    return llm_of(family="mla", layers=61, query_heads=128, kv_heads=None, head_dim=None, mla=mla)


def test_case_06_a_latent_is_not_divided_by_tensor_parallelism() -> None:
    mla = mla_llm()
    per_token = 61 * (512 + 64)  # one byte each
    for tp in (1, 8):
        assert kv_bytes_per_token_per_device(mla, tp, "fp8") == per_token
    assert kv_bytes_per_token_per_device(mla, 8) == 2 * per_token


def test_case_06_attention_data_parallel_multiplies_the_cache() -> None:
    """Without re-sharded weights the ratio is 8: eight ranks, each with what one rank had."""
    mla, b200 = mla_llm(), CATALOGUE.accelerator("b200-sxm")
    settings = Settings(utilisation=0.95, block_size=256)
    reserve = Reserve(60e9, 5e9, 5e9, "any")
    tp8 = kv_room(mla, b200, reserve, Layout(tp_degree=8, ep_degree=8), settings, "fp8")
    dp8 = kv_room(mla, b200, reserve, Layout(dp_degree=8, ep_degree=8), settings, "fp8")
    assert 8 * dp8.kv_tokens / tp8.kv_tokens == pytest.approx(8.0, rel=0.02)


@pytest.mark.parametrize(
    ("query_heads", "kv_heads", "allowed", "refused"),
    [
        (28, 4, (1, 2, 4, 28), (3, 7, 8, 14)),
        (52, 52, (1, 2, 4, 13, 26, 52), (3, 8)),
        (32, 4, (1, 2, 4, 8), ()),
    ],
)
def test_case_24_degrees_that_the_heads_allow(
    query_heads: int, kv_heads: int, allowed: tuple[int, ...], refused: tuple[int, ...]
) -> None:
    degrees = admissible_tp_degrees(query_heads, kv_heads)
    assert set(allowed) <= set(degrees)
    assert not set(refused) & set(degrees)


def test_case_24_a_refused_degree_names_heads_and_neighbours() -> None:
    qwen2 = llm_of(query_heads=28, kv_heads=4)
    check_tp_degree(qwen2, 4)
    with pytest.raises(InputError, match=r"tp_degree 3 .* 28 query heads; use 2 or 4"):
        check_tp_degree(qwen2, 3)
    with pytest.raises(InputError, match=r"tp_degree 14 .* 4 KV heads .*; use 4 or 28"):
        check_tp_degree(qwen2, 14)
    with pytest.raises(InputError, match=r"use 28$"):
        check_tp_degree(qwen2, 56)
    assert kv_replication(llm_of(query_heads=32, kv_heads=4), 8) == 2
    assert 128 in tp_degrees_of(mla_llm())


@pytest.mark.parametrize(
    ("layers", "hidden", "query_heads", "kv_heads", "per_token"),
    [
        (28, 3584, 28, 4, 57_344),
        (32, 4096, 32, 8, 131_072),
        (36, 4096, 32, 8, 147_456),
        (40, 5120, 32, 8, 163_840),
        (94, 4096, 64, 4, 192_512),
        (64, 5120, 64, 8, 262_144),
        (80, 8192, 64, 8, 327_680),
        (32, 4096, 32, 32, 524_288),
    ],
)
def test_case_25_bytes_per_token_come_from_the_geometry(
    layers: int, hidden: int, query_heads: int, kv_heads: int, per_token: int
) -> None:
    model = llm_of(layers=layers, hidden=hidden, query_heads=query_heads, kv_heads=kv_heads)
    assert kv_bytes_per_token_per_device(model) == per_token
    assert kv_bytes_per_token_per_device(model, kv_dtype="fp8") == per_token / 2


def test_case_25_the_head_size_is_read_and_not_divided_out() -> None:
    qwen = CATALOGUE.llm("qwen3-32b")
    assert qwen.head_dim == 128
    assert qwen.hidden / qwen.query_heads == 80
    assert kv_bytes_per_token_per_device(qwen) == 262_144


@pytest.mark.parametrize("name", CATALOGUE.llm_ids())
def test_every_model_either_has_kv_bytes_or_says_why_not(name: str) -> None:
    model = CATALOGUE.llm(name)
    if model.kv == "unknown":
        with pytest.raises(InputError, match=f"{name}: the size of its KV cache is not known"):
            kv_bytes_per_token_per_device(model)
    else:
        assert kv_bytes_per_token_per_device(model) > 0


def test_window_layers_stop_growing() -> None:
    """gpt-oss-120b: 18 full and 18 window layers of 2 · 8 · 64 elements at 2 bytes."""
    model, layer = CATALOGUE.llm("gpt-oss-120b"), 2 * 8 * 64 * 2
    assert kv_bytes_of_sequence(model, 100) == 36 * layer * 100
    assert kv_bytes_of_sequence(model, 1000) == 18 * layer * (1000 + 128)
    assert kv_bytes_per_token_per_device(model) == 18 * layer
    settings = Settings(mean_context=1280)  # windows add a tenth
    room = kv_room(model, H100_LOGGED, Reserve(0, 0, 0, "none"), settings=settings)
    assert room.kv_bytes_per_token == pytest.approx(18 * layer * 1.1)


def test_stages_of_a_pipeline_hold_their_layers() -> None:
    model = llm_of(layers=10)
    assert kv_bytes_per_token_per_device(model, pp_degree=4) == 3 * 2 * 8 * 128 * 2
    one = weights_bytes_per_device(model, "bf16")
    assert weights_bytes_per_device(model, "bf16", Layout(pp_degree=2)) == one / 2


def test_weights_keep_their_embeddings_at_16_bits() -> None:
    """8.03e9 parameters, of which two embeddings of 128,256 x 4,096 stay at two bytes."""
    embeddings = 2 * 128_256 * 4096
    model = llm_of()
    assert weights_bytes_per_device(model, "bf16") == pytest.approx(16.06e9)
    assert weights_bytes_per_device(model, "fp8") == pytest.approx(8.03e9 + embeddings)
    tied = llm_of(tied_embeddings=True)
    assert weights_bytes_per_device(tied, "fp8") == pytest.approx(8.03e9 + embeddings / 2)
    with pytest.raises(InputError, match="at precision 'mixed'"):
        weights_bytes_per_device(model, "mixed")
    with pytest.raises(InputError, match="number of its parameters"):
        weights_bytes_per_device(llm_of(params_total_b=None), "bf16")


def test_a_logged_block_count_overrides_the_formula() -> None:
    reserve = generic_reserve(LLAMA_3090, "bf16")
    room = kv_room(LLAMA_3090, device(79.18), reserve, logged_blocks=1952)
    assert room.kv_blocks == 1951  # the engine keeps one block for itself
    assert room.kv_tokens == 1951 * 16
    assert room.basis == "logged block count"


def test_a_share_of_free_memory_is_taken_after_the_reserve() -> None:
    reserve = Reserve(10 * GIB, 1 * GIB, 1 * GIB, "source", of_free=True)
    room = kv_room(LLAMA_3090, device(22.0), reserve, settings=Settings(utilisation=0.8))
    assert room.kv_bytes == pytest.approx(8 * GIB)
    assert room.kv_tokens == (8 * GIB // (131_072 * 16) - 1) * 16
