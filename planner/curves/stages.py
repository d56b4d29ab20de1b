"""A curve of replicas in pipeline stages, made of the curve of one stage's devices.

Stages hold whole layers, so the fullest has ceil(layers / stages) of them: it sets the pace, and
every stage is taken to be as long. Between two stages the residual stream of a step's tokens is
sent, at 16 bits, by every device to its counterpart; nothing hides it. The share of a link's rate
that is reached is that of the roofline's collectives, which is less than plain transfers reach.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from planner.curves.curve import Curve, curve_of
from planner.curves.memory import (
    ROW_TOKENS,
    Layout,
    Settings,
    generic_reserve,
    kv_bytes_per_token_per_device,
)
from planner.curves.roofline import TYPICAL, Degrees
from planner.curves.transfer import Configuration, StepLawLibrary

if TYPE_CHECKING:
    from planner.catalogue import Accelerator, Catalogue, Llm

MOVED_ERROR: Final = 0.13
"""Mean relative error of a step law that was moved to another accelerator: of the library's 398
laws without attention data parallel at its knots from 8 to 8,192 tokens a step, with all laws of
their accelerator left out."""
MOVED_ERROR_P95: Final = 0.56
"""The 95th percentile of the same."""
AT_8192: Final = Settings(max_num_batched_tokens=ROW_TOKENS)
ELEMENT_BYTES: Final = 2


@dataclass(frozen=True, slots=True)
class Hop:
    """What stages send over."""

    bytes_per_s: float
    """Of one device, one direction."""
    latency_s: float
    says: str
    """Which link it is, and who says so."""


def staged(curve: Curve, stages: int, hop: Hop) -> Curve:
    """Return the curve of ``stages`` such groups of devices in a row.

    A step's time is that from its start on the first stage to its end on the last; the simulation
    lets as many steps be under way as there are stages, each on one of them.

    Args:
        curve: Of a replica that is one stage, as if it held all layers.
        stages: At most the layers of the model.
        hop: From one stage to the next.
    """
    llm, row = curve.llm, curve.row
    layers = llm.layers or stages
    fullest = -(-layers // stages)
    slowed = curve.step_law.slowed(fullest * stages / layers)
    sent = ELEMENT_BYTES * llm.hidden / (hop.bytes_per_s * TYPICAL.link)
    extra = [(stages - 1) * (hop.latency_s + n * sent) for n in slowed.knots]
    law = replace(
        slowed,
        step_s=tuple(t + more for t, more in zip(slowed.step_s, extra, strict=True)),
        slope_beyond_s_per_token=slowed.slope_beyond_s_per_token + (stages - 1) * sent,
    )
    ends = ELEMENT_BYTES * llm.vocab * llm.hidden / curve.layout.tp_degree
    inner = max(row.weights_bytes - ends * (1 if llm.tied_embeddings else 2), 0.0)
    layout = replace(curve.layout, pp_degree=stages)
    return replace(
        curve,
        id=f"{curve.id}.pp{stages}",
        layout=layout,
        step_law=law,
        row=replace(
            row,
            id=f"{row.id}.pp{stages}",
            pp_degree=stages,
            accelerators=row.accelerators * stages,
            weights_bytes=round(inner * fullest / layers + ends),
            kv_bytes_per_token=round(row.kv_bytes_per_token * fullest / layers),
            kv_tokens=None,
        ),
        source=f"{curve.source}, in {stages} pipeline stages",
        caveat=f"{curve.caveat}; stages were not measured: equal shares of the layers, over"
        f" {hop.says}",
        max_tokens_per_step=0,
        max_context=0,
    )


def moved_curve(
    catalogue: Catalogue,
    llm: Llm,
    accelerator: Accelerator,
    what: tuple[str, str],
    tp_degree: int,
    kv_dtype: str,
) -> Curve:
    """Return a curve where none was measured, by the nearest laws and roofline ratios.

    Memory is the generic account's. Good for a stage of a pipeline: no replica of these devices
    alone holds the model, so that nobody could measure one.

    Args:
        catalogue: With step laws of the model.
        llm: The model.
        accelerator: The device.
        what: Precision of the weights, and engine.
        tp_degree: Devices of the group.
        kv_dtype: ``bf16`` or ``fp8``.

    Raises:
        InputError: The catalogue knows too little of the model or the accelerator.
    """
    precision, engine = what
    wanted = Configuration(llm, precision, accelerator, engine, Degrees(tp_degree))
    found = StepLawLibrary(catalogue).law(wanted)
    near = catalogue.law(found.source.rpartition(" ")[2])
    reserve = generic_reserve(llm, precision, Layout(tp_degree=tp_degree), AT_8192)
    row = replace(
        near,
        id=f"{llm.family_id}.{precision}.{accelerator.id}.{engine}.tp{tp_degree}",
        model=llm.family_id,
        precision=precision,
        accelerator=accelerator.id,
        engine=engine,
        tp_degree=tp_degree,
        pp_degree=1,
        dp_degree=1,
        moe_tp_degree=tp_degree,
        ep_degree=1,
        kv="bfloat16" if kv_dtype == "bf16" else kv_dtype,
        step_s=found.law.step_s,
        slope_beyond_s_per_token=found.law.slope_beyond_s_per_token,
        c_x_s_per_token2=found.law.c_x_s_per_token2,
        c_k_s_per_token=found.law.c_k_s_per_token,
        c_n_s_per_request=0.0,
        error_mean=MOVED_ERROR,
        error_p95=MOVED_ERROR_P95,
        error_decode=None,
        error_prefill=None,
        error_mixed=None,
        accelerators=tp_degree,
        weights_bytes=round(reserve.weights_bytes),
        activation_bytes_8192=round(reserve.activation_bytes),
        other_bytes=round(reserve.overhead_bytes),
        kv_bytes_per_token=round(kv_bytes_per_token_per_device(llm, tp_degree, kv_dtype)),
        memory_fraction=0.9,
        memory_fraction_of="of_total",
        kv_tokens=None,
        path_s=0.0,
        origin=None,
    )
    return replace(
        curve_of(catalogue, row),
        source=found.source,
        caveat=f"no such replica was measured; laws moved to another accelerator are off by"
        f" {MOVED_ERROR:.0%} at the mean",
        max_tokens_per_step=0,
        max_context=0,
    )
