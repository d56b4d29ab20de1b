"""A step law from nothing but a model card and a datasheet.

The larger of memory time and arithmetic time, with efficiency factors, plus launches and
collectives per layer. Alone it is coarse; its *ratios* between two configurations are what
:mod:`planner.curves.transfer` moves measured step laws with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.catalogue.tables import KNOTS
from planner.curves.step_law import StepLaw
from planner.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from planner.catalogue import Accelerator, Llm


@dataclass(frozen=True, slots=True)
class Geometry:
    """What of a model costs time in a step."""

    layers: int
    hidden: int
    plain_params: float
    """Parameters read and multiplied by every token: attention, dense and shared layers, head."""
    expert_params: float
    """Parameters of one routed expert, summed over layers."""
    experts: int
    active_experts: int
    kv_elements: float
    """Cached elements per token, all heads, layers with full attention only."""
    attention_width: float
    """Width over which attention multiplies, summed over layers with full attention."""
    kv_heads: int
    """On how many ranks the cache can be split."""
    latent: bool
    family: str
    """dense, moe or mla: kinds whose step laws resemble one another."""


@dataclass(frozen=True, slots=True)
class Formats:
    """Bytes per weight, and at which peak the products run."""

    plain_bytes: float
    expert_bytes: float
    plain_peak: str
    expert_peak: str
    kv_bytes: float


@dataclass(frozen=True, slots=True)
class Degrees:
    """Devices of one replica and how they share the model."""

    accelerators: int
    dp_degree: int = 1
    """Attention data parallel: ranks that each hold all of attention."""
    ep_degree: int = 1

    @property
    def tp_degree(self) -> int:
        """Ranks over which attention is split."""
        return max(1, self.accelerators // self.dp_degree)


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Shares of peak rates and fixed costs; typical values, since ratios are what counts."""

    bandwidth: float = 0.65
    arithmetic: float = 0.6
    experts: float = 0.5
    """Further factor for grouped products of experts: small, uneven tiles."""
    attention: float = 1.3
    """Time of attention over that of its products at full rate."""
    overlap: float = 0.3
    """Share of the smaller of memory and arithmetic time that is not hidden."""
    launch_s: float = 25e-6
    """Launches and small kernels of a layer."""
    expert_launch_s: float = 0.0
    """The same of an expert layer on top: routing, permuting, grouped products."""
    routing: float = 1.0
    """Independent choices of experts per token that really occur: tokens of one batch choose
    alike, so fewer experts are touched than by independent draws (1.0)."""
    narrow: float = 1.0
    """Share of the bandwidth that kernels of 4-bit weights reach, relative to wider ones."""
    collective_s: float = 14e-6
    """Latency of one all-reduce."""
    link: float = 0.3
    """Share of the scale-up link's rate that an all-reduce reaches."""


TYPICAL: Final = Efficiency()

_VENDOR_ARITHMETIC: Final = {"AMD": 0.45}
"""Share of the usual arithmetic efficiency that a vendor's accelerators reach in serving: their
memory is read as well as others', their peaks are not reached. Read off MLPerf results."""

_QUARTER: Final = 0.53
"""Bytes of a 4-bit weight with scales in groups of 32."""

_FORMATS: Final = {
    ("mxfp4", ""): Formats(2.0, _QUARTER, "bf16", "bf16", 1.0),
    ("nvfp4", "dense"): Formats(0.5625, 0.5625, "nvfp4", "nvfp4", 1.0),
    ("nvfp4", "moe"): Formats(2.0, 0.5625, "bf16", "nvfp4", 1.0),
    ("nvfp4", "mla"): Formats(1.0, 0.5625, "fp8", "nvfp4", 1.0),
    ("int4", ""): Formats(2.0, _QUARTER, "bf16", "bf16", 2.0),
    ("fp8", ""): Formats(1.0, 1.0, "fp8", "fp8", 1.0),
    ("int8", ""): Formats(1.0, 1.0, "int8", "int8", 2.0),
    ("bf16", ""): Formats(2.0, 2.0, "bf16", "bf16", 2.0),
}
"""By precision, and by kind of model where that decides: NVFP4 checkpoints of expert models
quantise the experts only; latent-attention ones are published with the rest in 8 bits."""


def formats_of(precision: str, family: str) -> Formats:
    """Return the formats that a checkpoint of a precision is served in.

    Raises:
        InputError: The precision is not known.
    """
    found = _FORMATS.get((precision, family)) or _FORMATS.get((precision, ""))
    if found is None:
        raise InputError(f"no roofline is known for weights in {precision!r}")
    return found


def geometry_of(llm: Llm) -> Geometry:
    """Return what of a model costs time.

    Raises:
        InputError: The catalogue does not know enough of it.
    """
    if llm.layers is None:
        raise InputError(f"{llm.id}: the number of its layers is not known; {llm.note}")
    e = llm.experts
    count = e.count if e else 0
    expert = 0.0
    if e is not None and e.intermediate is not None:
        expert = 3.0 * llm.hidden * e.intermediate * (llm.layers - (e.first_dense_layers or 0))
    full = llm.layers if llm.layer_mix.full is None else llm.layer_mix.full
    if llm.mla is not None:
        m = llm.mla
        kv = llm.layers * (m.kv_lora_rank + m.qk_rope_head_dim)
        head = (m.qk_nope_head_dim + m.qk_rope_head_dim + m.v_head_dim) / 2
        attention, heads = llm.layers * llm.query_heads * head, 1
    elif llm.head_dim is not None and llm.kv_heads is not None:
        kv = 2 * full * llm.kv_heads * llm.head_dim
        attention, heads = float(full * llm.query_heads * llm.head_dim), llm.kv_heads
    else:
        raise InputError(f"{llm.id}: its attention heads are not known; {llm.note}")
    return Geometry(
        layers=llm.layers,
        hidden=llm.hidden,
        plain_params=_plain_params(llm, expert),
        expert_params=expert,
        experts=count,
        active_experts=(e.active or 1) if e else 0,
        kv_elements=float(kv),
        attention_width=attention,
        kv_heads=heads,
        latent=llm.mla is not None,
        family="mla" if llm.mla else "moe" if count else "dense",
    )


def _plain_params(llm: Llm, expert: float) -> float:
    """Parameters outside the routed experts, without the input embedding (one row is read)."""
    count = llm.experts.count if llm.experts else 0
    if llm.params_total_b is not None:
        return llm.params_total_b * 1e9 - count * expert - llm.vocab * llm.hidden
    return _counted_params(llm)


def _counted_params(llm: Llm) -> float:
    """Count projections, shared expert and head where the total is not published.

    Gated linear-attention layers project to about seven widths of the residual stream (keys and
    queries half a width each, values, gate and output two each).
    """
    assert llm.layers is not None
    if llm.head_dim is None or llm.kv_heads is None:
        raise InputError(f"{llm.id}: the number of its parameters is not known; {llm.note}")
    width = (2 * llm.query_heads + 2 * llm.kv_heads) * llm.head_dim
    inner = llm.intermediate or 0
    if llm.experts is not None:
        shared = llm.experts.shared_intermediate or llm.experts.intermediate or 0
        inner = shared if llm.experts.shared or llm.experts.shared_intermediate else 0
    linear = llm.layer_mix.linear or 0
    attention = (llm.layers - linear) * width + linear * 7 * llm.hidden
    return float(llm.hidden * (attention + llm.layers * 3 * inner + llm.vocab))


@dataclass(frozen=True, slots=True)
class Roofline:
    """A step law of one rank, and what memory it leaves."""

    law: StepLaw
    weights_bytes: float
    """Per device."""
    kv_bytes_per_token: float
    """Per token of a rank's own requests, per device."""


def roofline(
    geometry: Geometry,
    formats: Formats,
    accelerator: Accelerator,
    degrees: Degrees,
    efficiency: Efficiency = TYPICAL,
) -> Roofline:
    """Return the step law that peak rates and efficiency factors give.

    Args:
        geometry: The model.
        formats: How its weights and cache are stored and multiplied.
        accelerator: The device.
        degrees: Devices of the replica. n counts tokens of one attention rank; expert layers
            see those of all ranks.
        efficiency: Shares of the peaks.

    Raises:
        InputError: The device's peak at 16 bits is not known.
    """
    g, e, tp, devices = geometry, efficiency, degrees.tp_degree, degrees.accelerators
    n = np.asarray(KNOTS, dtype=np.float64)
    together = n * degrees.dp_degree
    bandwidth = float(accelerator.memory_bandwidth) * e.bandwidth
    touched = np.zeros_like(n)
    if g.experts:
        drawn = 1 + (together - 1) * e.routing
        touched = g.experts * (1 - (1 - g.active_experts / g.experts) ** drawn)
    memory = (
        g.plain_params * formats.plain_bytes / tp / (e.narrow if formats.plain_bytes < 1 else 1)
        + touched
        * g.expert_params
        * formats.expert_bytes
        / devices
        / (e.narrow if formats.expert_bytes < 1 else 1)
    ) / bandwidth
    arithmetic = 2 * n * g.plain_params / tp / _rate(accelerator, formats.plain_peak, e)
    if g.experts:
        rate = _rate(accelerator, formats.expert_peak, e) * e.experts
        arithmetic = arithmetic + 2 * together * g.active_experts * g.expert_params / devices / rate
    level = np.maximum(memory, arithmetic) + e.overlap * np.minimum(memory, arithmetic)
    launch = e.launch_s + (e.expert_launch_s if g.experts else 0.0)
    level = level + g.layers * launch + _collectives_s(g, accelerator, degrees, n, e)
    split = 1 if g.latent else min(tp, g.kv_heads)
    kv_bytes = g.kv_elements * formats.kv_bytes / split
    c_x = 4 * g.attention_width / tp / _rate(accelerator, "bf16", e) * e.attention
    law = StepLaw(
        knots=KNOTS,
        step_s=tuple(level.tolist()),
        slope_beyond_s_per_token=float((level[-1] - level[-2]) / (n[-1] - n[-2])),
        c_x_s_per_token2=c_x,
        c_k_s_per_token=kv_bytes / bandwidth,
    )
    weights = (
        g.plain_params * formats.plain_bytes / tp
        + g.experts * g.expert_params * formats.expert_bytes / devices
    )
    return Roofline(law, weights, kv_bytes)


def _rate(accelerator: Accelerator, peak: str, efficiency: Efficiency) -> float:
    rate = accelerator.peak(peak)
    if rate is None:
        raise InputError(f"{accelerator.id}: its peak at 16 bits is not known")
    share = _VENDOR_ARITHMETIC.get(accelerator.vendor, 1.0)
    return float(rate) * efficiency.arithmetic * share


def _collectives_s(
    g: Geometry, accelerator: Accelerator, degrees: Degrees, n: NDArray[np.float64], e: Efficiency
) -> NDArray[np.float64]:
    """Two all-reduces a layer over all devices; attention data parallel adds a latency."""
    devices = degrees.accelerators
    if devices == 1:
        return np.zeros_like(n)
    link = accelerator.scaleup_bandwidth or accelerator.pcie_bandwidth
    if link is None:
        raise InputError(f"{accelerator.id}: the rate of its links is not known")
    moved = n * g.hidden * 4 * (devices - 1) / devices  # an all-reduce sends 16-bit values twice
    each = e.collective_s + moved / (float(link) * e.link)
    extra = e.collective_s if degrees.dp_degree > 1 else 0.0
    return np.asarray(g.layers * (2 * each + extra))
