"""The same replica with other scheduler settings, and those that an engine has by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from planner.curves.context import largest_context
from planner.curves.memory import GIB, Settings
from planner.curves.step_law import law_fields

if TYPE_CHECKING:
    from planner.candidates.template import Build
    from planner.catalogue import Accelerator
    from planner.scenario.policies import Policies

LARGE_DEVICE_BYTES: Final = 70 * GIB
"""Device memory from which vLLM takes its larger defaults."""


@dataclass(frozen=True, slots=True)
class EngineDefaults:
    """Settings of an engine that is told none."""

    max_num_batched_tokens: int
    max_num_seqs: int
    source: str


VLLM_SOURCE: Final = (
    "vLLM 0.11 and later, `vllm serve` on GPUs: vllm/engine/arg_utils.py,"
    " EngineArgs._set_default_args (commit 99d7eb5), since then EngineArgs.get_batch_defaults"
)


def engine_defaults(engine: str, accelerator: Accelerator) -> EngineDefaults | None:
    """Return the defaults of an engine's server on an accelerator; None where not known.

    vLLM takes 8192 tokens and 1024 requests where a device reports 70 GiB or more and is no
    A100, else 2048 and 256. Requests are at most tokens.
    """
    if engine != "vllm":
        return None
    large = accelerator.memory >= LARGE_DEVICE_BYTES and not accelerator.id.startswith("a100")
    tokens, requests = (8192, 1024) if large else (2048, 256)
    return EngineDefaults(tokens, requests, VLLM_SOURCE)


def memory_settings(policies: Policies, budget: int, seqs: int) -> Settings:
    """Return what of the settings takes memory."""
    return Settings(
        utilisation=policies.memory_utilisation,
        max_num_batched_tokens=budget,
        max_num_seqs=seqs,
        block_size=policies.block_size,
    )


def with_settings(
    policies: Policies, build: Build, budget: int, seqs: int, longest: int
) -> Build | str:
    """Return a colocated build with other limits per step, or why there is none.

    Args:
        policies: Share of memory and block size.
        build: The replica.
        budget: ``max_num_batched_tokens``.
        seqs: ``max_num_seqs``.
        longest: Tokens of the longest request that it must hold.
    """
    if (budget, seqs) == (build.max_num_batched_tokens, build.max_num_seqs):
        return build
    if seqs > budget:
        return f"max_num_seqs {seqs} is above max_num_batched_tokens {budget}"
    curve = build.curve
    room = curve.room(memory_settings(policies, budget, seqs))
    kept = curve.layout.tp_degree, curve.kv_dtype, curve.layout.pp_degree
    if room.kv_blocks < 1 or largest_context(curve.llm, room, *kept) < 2:
        return f"no room for KV cache: {-room.kv_bytes / GIB:.1f} GiB are missing"
    if room.kv_tokens < longest:
        return (
            f"the longest request ({longest:,} tokens) does not fit; the KV cache holds"
            f" {room.kv_tokens:,} tokens"
        )
    return replace(
        build,
        max_num_batched_tokens=budget,
        max_num_seqs=seqs,
        law=law_fields(curve.step_law, budget),
        limits=build.limits._replace(
            max_num_seqs=seqs,
            max_num_batched_tokens=budget,
            kv_blocks=room.kv_blocks,
            watermark_blocks=int(policies.watermark * room.kv_blocks),
        ),
        kv_tokens=room.kv_tokens,
    )
