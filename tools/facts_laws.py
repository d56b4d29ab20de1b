"""models/step-laws: one table a model, one row a configuration, digits as given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from facts_text import read_rows, write_csv, write_yaml

if TYPE_CHECKING:
    from pathlib import Path

MODELS: Final = {
    "DeepSeek-R1": ("deepseek-r1", "fp8"),
    "DeepSeek-V3.1-NVFP4": ("deepseek-v3.1", "nvfp4"),
    "Llama-3.1-70B": ("llama-3.1-70b", "bf16"),
    "Llama-3.1-70B-FP8": ("llama-3.1-70b", "fp8"),
    "Llama-3.1-8B": ("llama-3.1-8b", "bf16"),
    "Qwen3-32B": ("qwen3-32b", "bf16"),
    "Qwen3-32B-FP8": ("qwen3-32b", "fp8"),
    "gpt-oss-120b": ("gpt-oss-120b", "mxfp4"),
}
"""The table's model name as (base model, precision of the weights)."""

SYSTEMS: Final = {
    "a100_sxm": "a100-80g-sxm",
    "b200_sxm": "b200-sxm",
    "gb200": "gb200-nvl72",
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200-sxm",
    "l40s": "l40s",
}

KNOTS: Final = (1, 8, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)

COPIED: Final = {
    **{f"L_{n}_s": f"step_{n}_s" for n in KNOTS},
    "L_slope_beyond_s_per_token": "slope_beyond_s_per_token",
    "c_X_s_per_token2": "c_x_s_per_token2",
    "c_K_s_per_token": "c_k_s_per_token",
    "points": "points",
    "max_n": "max_tokens",
    "max_context": "max_context",
    "err_mean": "error_mean",
    "err_p95": "error_p95",
    "err_decode": "error_decode",
    "err_prefill": "error_prefill",
    "err_mixed": "error_mixed",
    "gpus": "accelerators",
    "weights_bytes_per_gpu": "weights_bytes",
    "activation_bytes_8192tok": "activation_bytes_8192",
    "other_bytes": "other_bytes",
    "kv_bytes_per_token_per_gpu": "kv_bytes_per_token",
    "mem_fraction": "memory_fraction",
    "mem_fraction_kind": "memory_fraction_of",
    "kv_capacity_tokens": "kv_tokens",
}
"""Columns taken over with their digits: the source's name, ours."""

IDENTITY: Final = ("id", "precision", "accelerator", "engine", "engine_version")
HEADER: Final = (*IDENTITY, "tp", "pp", "dp", "moe_tp", "ep", "gemm", "kv", "moe")

COLUMNS: Final = {
    "id": "model.precision.accelerator.engine.degrees",
    "precision": "precision of the weights, as scenarios name it",
    "accelerator": "id in models/accelerators",
    "engine": "vllm, sglang or trtllm",
    "engine_version": "version whose kernels were measured",
    "tp, pp, dp, moe_tp, ep": "degrees; dp is attention data parallel: then all is per rank",
    "gemm, kv, moe": "number format of products, KV cache and experts, in the source's words",
    "step_<n>_s": "seconds of a step that computes n tokens, without attention over context",
    "slope_beyond_s_per_token": "seconds per token beyond the last knot",
    "c_x_s_per_token2": "seconds per token² of causal attention, X = Σ new·(cached + new/2)",
    "c_k_s_per_token": "seconds per token of context of decoding sequences",
    "points, max_tokens, max_context": "points fitted and the largest step and context among them",
    "error_*": "relative error of the fit: mean and 95th percentile over all points, mean by phase",
    "accelerators": "devices of one replica",
    "weights_bytes, other_bytes": "per device: weights; communication buffers and the rest",
    "activation_bytes_8192": "per device, for steps of at most 8,192 tokens",
    "kv_bytes_per_token": "per device, every layer counted as full attention",
    "memory_fraction, memory_fraction_of": "share of memory in use, of_total or of_free",
    "kv_tokens": "tokens of KV cache by the source's own account (nominal device memory)",
}


def _identity(row: dict[str, str]) -> tuple[str, list[str]]:
    """Return the law's model and the row's own columns (HEADER's order)."""
    model, precision = MODELS[row["model"]]
    accelerator = SYSTEMS[row["system"]]
    formats = dict(part.split("=") for part in row["quant"].split(";"))
    degrees = f"tp{row['tp']}"
    degrees += f".dp{row['dp']}" if row["dp"] != "1" else ""
    degrees += f".ep{row['moe_ep']}" if row["moe_ep"] != "1" else ""
    law_id = f"{model}.{precision}.{accelerator}.{row['backend']}.{degrees}"
    shape = [row[key] for key in ("tp", "pp", "dp", "moe_tp", "moe_ep")]
    parts = [formats["gemm"], formats["kv"], formats.get("moe", "")]
    return model, [law_id, precision, accelerator, row["backend"], row["version"], *shape, *parts]


def write_laws(shared: Path, models: Path) -> None:
    """Write one table a model and the YAML that explains the columns."""
    tables: dict[str, list[list[str]]] = {}
    for row in read_rows(shared / "data/step-laws/step_laws.csv"):
        model, own = _identity(row)
        tables.setdefault(model, []).append(own + [row[key] for key in COPIED])
    for model, rows in sorted(tables.items()):
        header = [*HEADER, *COPIED.values()]
        write_csv(models / "step-laws" / f"{model}.csv", header, sorted(rows))
    facts: dict[str, object] = {
        "format_version": "1.0",
        "what": (
            "t = L(n) + c_x X + c_k K: seconds of one engine step of one replica, fitted by "
            "non-negative least squares on relative error to step latencies that a kernel model "
            "computes from kernels measured on silicon. Not an end-to-end measurement: no "
            "scheduler, CPU dispatch, sampling or HTTP."
        ),
        "kind": "step-table fit",
        "serving_tpot_error_median": 0.13,
        "serving_tpot_error_says": (
            "against real serving runs the source's TPOT is off by 13 % at the median"
        ),
        "reach": {"tokens": 32768, "context": 131072},
        "reach_says": "beyond, the source itself extrapolates",
        "columns": COLUMNS,
        "left_out": (
            "vLLM rows with block-wise FP8: the source's table has a floor of 55-282 us per "
            "product, a launch time on the host, which makes decode 3-28 times too slow"
        ),
        "source": "aiconfigurator and aiconfigurator-core 0.12.0 (ai-dynamo/aiconfigurator)",
        "licence": "Apache-2.0",
        "attribution": "Copyright NVIDIA CORPORATION & AFFILIATES",
    }
    write_yaml(models / "step-laws" / "step-laws.yaml", facts)
