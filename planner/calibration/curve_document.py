"""A fitted law as the file that a scenario names: host times folded in, memory accounted for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

import numpy as np

from planner.calibration.constants import DECODE_TOKENS, PREFILL_TOKENS
from planner.calibration.run import settings_for
from planner.catalogue.measured import MeasuredCurve
from planner.curves.memory import Layout, Settings, generic_reserve, kv_bytes_per_token_per_device

if TYPE_CHECKING:
    from pathlib import Path

    from planner.calibration.calibrate import CalibratedCurve
    from planner.calibration.points import System
    from planner.calibration.run import Client
    from planner.calibration.through import FittedLaw
    from planner.catalogue import Catalogue

_LEAST_ERROR = 1e-4


def curve_document(curve: CalibratedCurve, rows: Path, catalogue: Catalogue) -> MeasuredCurve:
    """Write a calibrated curve as a scenario reads it.

    A plan's simulator knows steps only, so the host's time of a step goes into L, of a sequence
    into c_N, and of a step with prompt tokens into L beyond decode-sized steps; the way to the
    engine, and the front end's time of a prompt of mean length, are the path.

    Args:
        curve: The fit.
        rows: The file of measurements.
        catalogue: Has the account of memory of the same configuration, where there is one.
    """
    system, fit, degrees = curve.system, curve.fit, curve.system.main.degrees
    law, host = fit.law, fit.constants
    clients = [run.client for run in curve.seen]
    prompt = float(np.mean([client.prompt_tokens for client in clients]))
    error, p95 = curve.others.mean("tpot"), curve.others.quantile("tpot", 0.95)
    return MeasuredCurve(
        model=system.llm.id,
        precision=system.precision,
        accelerator=system.accelerator.id,
        engine=system.engine,
        engine_version=system.engine_version,
        accelerators=degrees.accelerators,
        tp_degree=degrees.tp_degree,
        dp_degree=degrees.dp_degree,
        ep_degree=degrees.ep_degree,
        measured_in=str(rows),
        prior=curve.prior,
        runs=curve.runs,
        max_tokens=max(_largest_step(system, client) for client in clients),
        max_context=max(client.prompt_tokens + client.output_tokens for client in clients),
        relative_error=max(error or fit.sd["decode_log"], _LEAST_ERROR),
        relative_error_p95=max(p95 or 2 * fit.sd["decode_log"], _LEAST_ERROR),
        relative_error_ttft=curve.others.mean("ttft"),
        error_basis=curve.others.basis,
        tpot_error=curve.own.quantile("tpot", 0.5),
        ttft_error=curve.own.quantile("ttft", 0.5),
        tpot_compared=curve.own.tpot_compared,
        ttft_compared=curve.own.ttft_compared,
        knots=law.knots,
        step_s=_with_host(fit),
        slope_beyond_s_per_token=law.slope_beyond_s_per_token,
        c_x_s_per_token2=law.c_x_s_per_token2,
        c_k_s_per_token=law.c_k_s_per_token,
        c_n_s_per_request=host.host_sequence_s,
        path_s=host.path_s + host.front_token_s * prompt,
        **_memory(system, catalogue),
        kv_tokens=max(1, fit.kv_tokens),
        host_step_s=host.host_step_s,
        host_sequence_s=host.host_sequence_s,
        host_prefill_s=host.host_prefill_s,
        moved_from_prior=dict(fit.parts),
        standard_deviation=dict(fit.sd),
        misfit=fit.left_over,
    )


def _with_host(fit: FittedLaw) -> tuple[float, ...]:
    """Return L with the host's time of a step, and of a prefill step where steps are such."""
    knots = np.asarray(fit.law.knots, dtype=np.float64)
    span = np.log2(PREFILL_TOKENS / DECODE_TOKENS)
    ramp = np.clip(np.log2(knots / DECODE_TOKENS) / span, 0.0, 1.0)
    host = fit.constants.host_step_s + fit.constants.host_prefill_s * ramp
    return tuple((np.asarray(fit.law.step_s) + host).tolist())


def _largest_step(system: System, client: Client) -> int:
    """Return tokens of the largest step of a run: a full budget, if so many tokens ever wait."""
    budget = settings_for(system, client).max_num_batched_tokens
    waiting = client.prompt_tokens - client.cached_tokens
    return min(budget, waiting * client.users) if client.arrivals == "closed" else budget


class _Memory(TypedDict):
    weights_bytes: int
    activation_bytes_8192: int
    other_bytes: int
    kv_bytes_per_token: int
    memory_fraction: float
    memory_fraction_of: Literal["of_total", "of_free"]


def _memory(system: System, catalogue: Catalogue) -> _Memory:
    """Return the catalogue's account of a configuration, else the generic model's."""
    d = system.main.degrees
    model, device = system.llm.id, system.accelerator.id
    for row in catalogue.laws(model, device, system.engine, system.precision):
        if (row.tp_degree, row.dp_degree) == (d.tp_degree, d.dp_degree):
            return {
                "weights_bytes": row.weights_bytes,
                "activation_bytes_8192": row.activation_bytes_8192,
                "other_bytes": row.other_bytes,
                "kv_bytes_per_token": row.kv_bytes_per_token,
                "memory_fraction": row.memory_fraction,
                "memory_fraction_of": "of_free"
                if row.memory_fraction_of == "of_free"
                else "of_total",
            }
    layout = Layout(tp_degree=d.tp_degree, dp_degree=d.dp_degree)
    reserve = generic_reserve(system.llm, system.precision, layout, Settings())
    return {
        "weights_bytes": round(reserve.weights_bytes),
        "activation_bytes_8192": round(reserve.activation_bytes),
        "other_bytes": round(reserve.overhead_bytes),
        "kv_bytes_per_token": round(kv_bytes_per_token_per_device(system.llm, d.tp_degree)),
        "memory_fraction": 0.9,
        "memory_fraction_of": "of_total",
    }
