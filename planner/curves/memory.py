"""How much KV cache is left on a device once weights, activations and overhead are placed.

Bytes per device throughout. Two accounts of what is not KV cache exist: the one that came with
a step law, and a generic model whose constants were read off memory logs of real engines:

* activations of the forward pass: per token of a step, three widths of the residual stream and
  three inner widths at 16 bits (0.3 % off a log that gives 0.1033 GiB per 1,000 tokens for an
  8B model with inner width 14,336);
* the sampler's warm-up: 38.4 bytes per vocabulary entry and sequence, whatever the degree (seven
  logs at 1,024 sequences lie between 38.2 and 38.6), while hidden states are held; the larger
  of the two peaks counts;
* overhead outside the allocator: 0.14 GiB alone, 0.55 GiB in a group of two, and 50 MB more for
  the communication buffers of larger groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from planner.catalogue.degrees import kv_heads_of
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.catalogue import Accelerator, Llm, StepLawRow

GIB: Final = 2**30

KV_BYTES: Final = {"bf16": 2.0, "fp8": 1.0}
"""Bytes of one element of the KV cache."""

WEIGHT_BYTES: Final = {
    "bf16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "int4": 0.5 + 2 / 128,
    "nvfp4": 0.5 + 1 / 16,
    "mxfp4": 0.5 + 1 / 32,
}
"""Bytes of one quantised weight with its share of the scales (one per 16, 32 or 128 weights)."""

SAMPLER_BYTES: Final = 38.4
MXFP4_PAD: Final = 256
"""MXFP4 expert kernels pad the inner width to a multiple of this: 2,880 becomes 3,072."""

FRAGILE_SHARE: Final = 0.05

ROW_TOKENS: Final = 8192
"""Step size for which a step law's account states activations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Degrees of one replica; ``dp_degree`` is attention data parallel."""

    tp_degree: int = 1
    pp_degree: int = 1
    ep_degree: int = 1
    dp_degree: int = 1

    @property
    def devices(self) -> int:
        """Accelerators of one replica; experts are laid over the same ones as the rest."""
        return self.tp_degree * self.pp_degree * self.dp_degree


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the engine is told: the limits that decide memory.

    Without chunked prefill a step takes a whole prompt: then ``max_num_batched_tokens`` is the
    longest prompt.
    """

    utilisation: float = 0.9
    max_num_batched_tokens: int = 8192
    max_num_seqs: int = 256
    block_size: int = 16
    mean_context: int = 1024
    """Tokens that a running request holds on average; matters to window layers only."""


ONE_DEVICE: Final = Layout()
DEFAULTS: Final = Settings()


@dataclass(frozen=True, slots=True)
class Reserve:
    """What is not KV cache on a device, and who says so."""

    weights_bytes: float
    activation_bytes: float
    overhead_bytes: float
    basis: str
    of_free: bool = False
    """Whether utilisation is a share of what the reserve leaves, not of the whole memory."""


@dataclass(frozen=True, slots=True)
class KvRoom:
    """The KV cache of one rank, and what it was left by."""

    memory_bytes: float
    reserve: Reserve
    kv_bytes: float
    """May be negative: so much is missing."""
    kv_bytes_per_token: float
    """Cache of a request of mean context, per token."""
    block_size: int
    kv_blocks: int
    """Blocks that requests can use: one less than are allocated."""
    basis: str

    @property
    def kv_tokens(self) -> int:
        """Tokens that requests can hold together."""
        return self.kv_blocks * self.block_size

    def holds(self, context: int) -> float:
        """Return how many requests of a context length fit at once."""
        return self.kv_tokens / context

    def why_not(self, context: int) -> str | None:
        """Say why a request of a context length cannot be held; None if it can."""
        free = self.memory_bytes - self.reserve.weights_bytes
        if free <= 0:
            return f"weights need {self.reserve.weights_bytes / GIB:.1f} GiB per device"
        if self.kv_bytes <= 0:
            return f"no room for KV cache: {-self.kv_bytes / GIB:.2f} GiB are missing"
        if self.kv_tokens < context:
            return f"KV cache holds {self.kv_tokens} tokens, a request needs {context}"
        return None

    def is_fragile(self, context: int) -> bool:
        """Whether the fit hangs by a thread.

        Fewer than two of the longest requests fit, so that they run one by one; or the cache is
        under 5 % of the memory, which another engine version's activations may take.
        """
        return self.holds(context) < 2 or self.kv_bytes < FRAGILE_SHARE * self.memory_bytes


def kv_layers(llm: Llm) -> tuple[int, int]:
    """Return how many layers cache every token, and how many cache a window only.

    Raises:
        InputError: The catalogue does not know the model's KV cache.
    """
    if llm.kv == "unknown" or llm.layers is None:
        raise InputError(f"{llm.id}: the size of its KV cache is not known; {llm.note}")
    mix = llm.layer_mix
    if mix.full is None and mix.sliding is None:
        return llm.layers, 0
    return mix.full or 0, mix.sliding or 0


def _layer_bytes(llm: Llm, tp_degree: int, kv_dtype: str) -> float:
    """Return bytes that one layer caches per token on one rank."""
    if llm.mla is not None:
        return (llm.mla.kv_lora_rank + llm.mla.qk_rope_head_dim) * KV_BYTES[kv_dtype]
    if llm.head_dim is None:
        raise InputError(f"{llm.id}: the catalogue does not know its head size; {llm.note}")
    heads = -(-kv_heads_of(llm) // tp_degree)
    return 2 * heads * llm.head_dim * KV_BYTES[kv_dtype]


def kv_bytes_per_token_per_device(
    llm: Llm, tp_degree: int = 1, kv_dtype: str = "bf16", pp_degree: int = 1
) -> float:
    """Return bytes by which the cache of one rank grows per token of context.

    Grouped-query attention stores 2 · layers · ceil(kv_heads / TP) · head_dim elements: heads
    are replicated once TP exceeds them. Latent attention stores layers · (kv_lora_rank +
    rope_dim) on every rank. Window layers stop growing and do not count here.
    """
    full, _ = kv_layers(llm)
    return -(-full // pp_degree) * _layer_bytes(llm, tp_degree, kv_dtype)


def kv_bytes_of_sequence(
    llm: Llm, context: int, tp_degree: int = 1, kv_dtype: str = "bf16", pp_degree: int = 1
) -> float:
    """Return bytes that one sequence caches on one rank.

    Window layers hold min(context, window).
    """
    full, sliding = kv_layers(llm)
    held = min(context, llm.layer_mix.window or context)
    per_layer = _layer_bytes(llm, tp_degree, kv_dtype)
    return per_layer * (-(-full // pp_degree) * context + -(-sliding // pp_degree) * held)


def kv_moved_bytes(
    llm: Llm, tokens: int, tp_degree: int = 1, kv_dtype: str = "bf16", pp_degree: int = 1
) -> float:
    """Return bytes that all ranks of a replica hold, and send, for a prompt of some tokens."""
    one = kv_bytes_of_sequence(llm, tokens, tp_degree, kv_dtype, pp_degree)
    return one * tp_degree * pp_degree


def expert_params(llm: Llm, precision: str) -> float:
    """Return parameters of all routed experts, as stored: MXFP4 pads their inner width."""
    e = llm.experts
    if e is None or e.intermediate is None or llm.layers is None:
        return 0.0
    width = e.intermediate
    if precision == "mxfp4":
        width = -(-width // MXFP4_PAD) * MXFP4_PAD
    layers = llm.layers - (e.first_dense_layers or 0)
    return float(layers * e.count * 3 * llm.hidden * width)


def weights_bytes_per_device(llm: Llm, precision: str, layout: Layout = ONE_DEVICE) -> float:
    """Return bytes of weights on one device.

    Embeddings stay at 16 bits; MXFP4 quantises experts only. Experts are shared out over all
    TP × DP devices, the rest over TP, everything over PP. What an engine replicates beyond that
    (latent projections, norms) is not counted: a step law's own figure is larger there.

    Raises:
        InputError: Parameters, or bytes at this precision, are not known.
    """
    if llm.params_total_b is None:
        raise InputError(f"{llm.id}: the number of its parameters is not known; {llm.note}")
    if precision not in WEIGHT_BYTES:
        raise InputError(f"{llm.id}: bytes of weights at precision {precision!r} are not known")
    per_weight = WEIGHT_BYTES[precision]
    total = llm.params_total_b * 1e9
    experts = expert_params(llm, precision)
    plain = expert_params(llm, "bf16")
    embeddings = llm.vocab * llm.hidden * (1 if llm.tied_embeddings else 2)
    rest = total - plain - embeddings
    rest_bytes = rest * (2.0 if precision == "mxfp4" else per_weight) + embeddings * 2.0
    expert_bytes = experts * per_weight
    devices = layout.tp_degree * layout.dp_degree
    return (expert_bytes / devices + rest_bytes / layout.tp_degree) / layout.pp_degree


def activation_bytes(
    llm: Llm, tp_degree: int, max_num_batched_tokens: int, max_num_seqs: int
) -> float:
    """Return the peak of activations by the generic model (see the module's head)."""
    width = 3.0 * llm.hidden
    e = llm.experts
    if e is not None and e.intermediate is not None:
        width += (e.active or 1) * (3 * e.intermediate / tp_degree + llm.hidden)
    elif llm.intermediate is not None:
        width += 3 * llm.intermediate / tp_degree
    forward = max_num_batched_tokens * 2 * width
    held = max_num_batched_tokens * 2 * llm.hidden
    return max(forward, held + max_num_seqs * llm.vocab * SAMPLER_BYTES)


def overhead_bytes(tp_degree: int) -> float:
    """Return bytes outside the allocator, by the size of the tensor-parallel group."""
    if tp_degree == 1:
        return 0.14 * GIB
    return 0.55 * GIB + (50e6 if tp_degree > 2 else 0.0)


def generic_reserve(
    llm: Llm,
    precision: str,
    layout: Layout = ONE_DEVICE,
    settings: Settings = DEFAULTS,
) -> Reserve:
    """Account for a model without a step law, by the generic model."""
    tp = layout.tp_degree
    return Reserve(
        weights_bytes=weights_bytes_per_device(llm, precision, layout),
        activation_bytes=activation_bytes(
            llm, tp, settings.max_num_batched_tokens, settings.max_num_seqs
        ),
        overhead_bytes=overhead_bytes(tp),
        basis="generic memory model",
    )


def law_reserve(row: StepLawRow, llm: Llm, settings: Settings = DEFAULTS) -> Reserve:
    """Account by the step law's own figures, or the generic model's where those are larger.

    The law's activations scale with the tokens of a step. Its source does not know that engines
    pad MXFP4 experts (4 GiB on a 120B model), nor that vLLM's sampler warm-up grows with
    ``max_num_seqs``: memory logs show both.
    """
    layout = Layout(tp_degree=row.tp_degree, dp_degree=row.dp_degree, pp_degree=row.pp_degree)
    weights, overhead = float(row.weights_bytes), float(row.other_bytes)
    activation = row.activation_bytes_8192 * settings.max_num_batched_tokens / ROW_TOKENS
    if llm.params_total_b is not None and row.precision in WEIGHT_BYTES:
        generic = generic_reserve(llm, row.precision, layout, settings)
        weights = max(weights, generic.weights_bytes)
        if row.engine == "vllm":
            beside = generic.activation_bytes + generic.overhead_bytes
            activation = max(activation, beside - overhead)
    return Reserve(
        weights_bytes=weights,
        activation_bytes=activation,
        overhead_bytes=overhead,
        basis="the step law's own account",
        of_free=row.memory_fraction_of == "of_free",
    )


def kv_room(
    llm: Llm,
    accelerator: Accelerator,
    reserve: Reserve,
    layout: Layout = ONE_DEVICE,
    settings: Settings = DEFAULTS,
    kv_dtype: str = "bf16",
    logged_blocks: int | None = None,
) -> KvRoom:
    """Return the KV cache of one rank.

    Args:
        llm: The model.
        accelerator: The device; its reported memory counts.
        reserve: What is not KV cache.
        layout: Degrees; with attention data parallel every rank has such a cache of its own.
        settings: Utilisation, block size, sequences.
        kv_dtype: ``bf16`` or ``fp8``.
        logged_blocks: Blocks that a real engine reported; overrides the formula.

    Returns:
        The room; its blocks are 0 where nothing is left.
    """
    tp, pp = layout.tp_degree, layout.pp_degree
    mean = settings.mean_context
    per_token = kv_bytes_of_sequence(llm, mean, tp, kv_dtype, pp) / mean
    outside = reserve.weights_bytes + reserve.activation_bytes + reserve.overhead_bytes
    if reserve.of_free:
        left = (accelerator.memory - outside) * settings.utilisation
    else:
        left = accelerator.memory * settings.utilisation - outside
    blocks = int(max(left, 0.0) // (per_token * settings.block_size))
    basis = reserve.basis
    if logged_blocks is not None:
        blocks, basis = logged_blocks, "logged block count"
    return KvRoom(
        memory_bytes=accelerator.memory,
        reserve=reserve,
        kv_bytes=left,
        kv_bytes_per_token=per_token,
        block_size=settings.block_size,
        kv_blocks=max(blocks - 1, 0),
        basis=basis,
    )
