"""A curve in other number formats than it was measured in: weights, or KV cache.

Weights decide how long a step of so many tokens takes, L(n), and what is left for the cache. The
KV cache's format decides how long its reading takes, c_K and c_X, and how many tokens it holds.
The two are told apart here: each is moved by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from planner.curves.curve import Curve, RelativeError
from planner.curves.memory import (
    KV_BYTES,
    WEIGHT_BYTES,
    kv_bytes_per_token_per_device,
    weights_bytes_per_device,
)
from planner.curves.roofline import Degrees, formats_of, geometry_of, roofline
from planner.errors import InputError

if TYPE_CHECKING:
    from planner.catalogue import Accelerator, Catalogue, StepLawRow


@dataclass(frozen=True, slots=True)
class MoveError:
    """By how much a law moved to another format was off the measured law, where there is one."""

    mean: float
    p95: float


REACHED: Final = 0.7
"""Share of the gain, as a logarithm, that two rooflines promise and that is reached: quantising
activations and smaller tiles cost the rest. Best for Llama-3.1-70B between bf16 and fp8; Qwen3-32B,
which was held out, is then 11 % off at the mean, and 22 % with the whole gain."""

MOVED_WEIGHTS: Final = MoveError(0.12, 0.35)
"""Mean and 95th percentile of |moved / measured - 1| at the knots from 8 to 8,192 tokens: every
law of the catalogue's whose model was also measured in another format on the same devices."""

_UNITS: Final = {"bf16": "bf16", "fp8": "fp8", "nvfp4": "fp4", "mxfp4": "fp4", "int8": "int8"}
"""Field of an accelerator that tells its rate in a format of weights; 4-bit integers are widened
by kernels of every engine, so they need none."""


def why_not_weights(accelerator: Accelerator, precision: str) -> str | None:
    """Say why an accelerator does not multiply weights of a format; None if it does.

    A step law that was measured proves more than this: kernels widen some formats.
    """
    unit = _UNITS.get(precision)
    if unit is None or getattr(accelerator, unit) is not None:
        return None
    return f"{accelerator.id} has no units for {unit} products, so {precision} is no candidate"


def why_not_kv(accelerator: Accelerator, kv_dtype: str) -> str | None:
    """Say why an accelerator does not keep a KV cache in a format; None if it does."""
    if kv_dtype != "fp8" or accelerator.fp8 is not None:
        return None
    return f"{accelerator.id} has no units for fp8 products, so a KV cache in fp8 is no candidate"


def in_precision(curve: Curve, precision: str) -> Curve:
    """Return a curve whose weights are in another format, by a power of two rooflines' ratio.

    L is moved knot by knot; what depends on the KV cache stays. Bytes of weights move by the
    generic account. Such a curve counts as extrapolated.

    Args:
        curve: As it was measured.
        precision: Format of the weights.

    Raises:
        InputError: Nobody knows what weights in this format take, or enough of the model.
    """
    llm, row, layout = curve.llm, curve.row, curve.layout
    geometry = geometry_of(llm)
    degrees = Degrees(layout.tp_degree * layout.dp_degree, layout.dp_degree, layout.ep_degree)
    here, there = (
        roofline(geometry, formats_of(p, geometry.family), curve.accelerator, degrees).law
        for p in (curve.precision, precision)
    )
    ratio = (np.asarray(there.step_s) / np.asarray(here.step_s)) ** REACHED
    slope = (there.slope_beyond_s_per_token / here.slope_beyond_s_per_token) ** REACHED
    law = curve.step_law
    moved = np.maximum.accumulate(np.asarray(law.step_s) * np.interp(law.knots, here.knots, ratio))
    bytes_ratio = weights_bytes_per_device(llm, precision, layout) / weights_bytes_per_device(
        llm, curve.precision, layout
    )
    return replace(
        curve,
        id=f"{curve.id}.as-{precision}",
        precision=precision,
        step_law=replace(
            law,
            step_s=tuple(moved.tolist()),
            slope_beyond_s_per_token=law.slope_beyond_s_per_token * slope,
        ),
        row=replace(
            row,
            id=f"{row.id}.as-{precision}",
            precision=precision,
            weights_bytes=round(row.weights_bytes * bytes_ratio),
            kv_tokens=None,
        ),
        source=f"{curve.source}, weights moved from {curve.precision} to {precision} by a roofline",
        relative_error=RelativeError(MOVED_WEIGHTS.mean, MOVED_WEIGHTS.p95, None, None, None),
        caveat=f"{curve.caveat}; weights in {precision} were not measured here: where they were,"
        f" such a move is off by {MOVED_WEIGHTS.mean:.0%} at the mean",
        max_tokens_per_step=0,
        max_context=0,
    )


def nearest_precision(wanted: str, known: tuple[str, ...]) -> str | None:
    """Return the known format whose weights are nearest in bytes; None where there is none."""
    if wanted not in WEIGHT_BYTES:
        return None
    usable = [p for p in known if p in WEIGHT_BYTES and p != wanted]
    far = {p: abs(np.log(WEIGHT_BYTES[p] / WEIGHT_BYTES[wanted])) for p in usable}
    return min(sorted(usable), key=lambda p: far[p], default=None)


def with_kv_dtype(catalogue: Catalogue, curve: Curve, kv_dtype: str) -> Curve:
    """Return a curve whose KV cache is in a stated format; its templates say which.

    Where the catalogue has a law of the same devices with such a cache, reading it takes as long
    as there (c_K, c_X): these do not depend on the weights. Else it takes time in proportion to
    its bytes, and prefill as long as before.

    Args:
        catalogue: With the step laws.
        curve: Whose cache is in the format in which it was measured.
        kv_dtype: ``bf16`` or ``fp8``.
    """
    named = replace(curve, parts=(*curve.parts, f"kv{kv_dtype}"))
    if kv_dtype == curve.kv_dtype:
        return named
    sibling = _sibling(catalogue, curve, kv_dtype)
    law = curve.step_law
    if sibling is not None and curve.row.c_k_s_per_token > 0 and curve.row.c_x_s_per_token2 > 0:
        reading = sibling.c_k_s_per_token / curve.row.c_k_s_per_token
        causal = sibling.c_x_s_per_token2 / curve.row.c_x_s_per_token2
        says = f"reading of a KV cache in {kv_dtype} from {sibling.id}"
    else:
        reading, causal = KV_BYTES[kv_dtype] / KV_BYTES[curve.kv_dtype], 1.0
        says = f"reading of a KV cache in {kv_dtype} by its bytes, a roofline"
    tp, pp = curve.layout.tp_degree, curve.layout.pp_degree
    return replace(
        named,
        id=f"{curve.id}.kv-{kv_dtype}",
        kv_dtype=kv_dtype,
        step_law=replace(
            law,
            c_k_s_per_token=law.c_k_s_per_token * reading,
            c_x_s_per_token2=law.c_x_s_per_token2 * causal,
            c_c_s_per_token=law.c_c_s_per_token * reading,
        ),
        row=replace(
            curve.row,
            kv_bytes_per_token=round(kv_bytes_per_token_per_device(curve.llm, tp, kv_dtype, pp)),
            kv_tokens=None,
        ),
        source=f"{curve.source}; {says}",
        caveat=f"{curve.caveat}; the KV cache was measured in {curve.kv_dtype}",
    )


def _sibling(catalogue: Catalogue, curve: Curve, kv_dtype: str) -> StepLawRow | None:
    """Return a shipped law of the same devices whose cache is in a format, if there is one."""
    row = curve.row
    if row.origin is not None:
        return None
    rows = catalogue.laws(row.model, row.accelerator, row.engine)
    mine = [
        r
        for r in rows
        if r.kv_dtype == kv_dtype
        and (r.tp_degree, r.dp_degree) == (row.tp_degree, row.dp_degree)
        and r.origin is None
    ]
    return min(mine, key=lambda r: (r.ep_degree != row.ep_degree, r.id), default=None)


def moved_to(curves: tuple[Curve, ...], precision: str) -> Curve | str | None:
    """Return the curve that is nearest in its weights' format, moved; or why it cannot be.

    None where there is nothing to move.
    """
    near = nearest_precision(precision, tuple(c.precision for c in curves))
    if near is None:
        return None
    base = next(c for c in curves if c.precision == near)
    try:
        return in_precision(base, precision)
    except InputError as error:
        return str(error)
