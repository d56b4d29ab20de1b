"""models/llms: one document a checkpoint, with what memory and degrees depend on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from facts_text import number, read_rows, slug, whole, write_yaml

if TYPE_CHECKING:
    from pathlib import Path

PRECISIONS: Final = {
    "": "bf16",
    "fp8": "fp8",
    "FP8": "fp8",
    "NVFP4": "nvfp4",
    "mxfp4": "mxfp4",
    "MIXED_PRECISION": "mixed",
}
"""Precision of the weights by the configuration's word; another word is left unknown."""

QUANTISED_SUFFIXES: Final = ("-fp8-static-pertensor", "-fp8", "-nvfp4", "-bf16")

SAME_GEOMETRY: Final = {
    "llama-3.1-8b": ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B-Instruct"),
    "llama-3.1-70b": (
        "meta-llama/Llama-3.1-70B",
        "meta-llama/Llama-3.1-70B-Instruct",
        "meta-llama/Llama-3.3-70B-Instruct",
        "llama-3.3-70b",
    ),
    "llama-3.1-405b": ("meta-llama/Llama-3.1-405B", "meta-llama/Llama-3.1-405B-Instruct"),
    "qwen3-235b-a22b": ("Qwen/Qwen3-235B-A22B-Instruct-2507",),
    "deepseek-v3.1": ("deepseek-ai/DeepSeek-V3.1",),
}
"""Checkpoints trained from, or shaped like, one in the table: same layers, heads and widths."""

BASES: Final = {"nvidia/DeepSeek-V3.1-NVFP4": "deepseek-v3.1"}
"""Unquantised models that the table lacks and step laws need; their geometry is the card's."""


def model_id(checkpoint: str) -> str:
    """Return the id: the checkpoint's name without its organisation, where that is unique.

    ``meta-llama/Meta-Llama-3.1-70B`` is ``llama-3.1-70b``: a publisher's name before the model's
    goes too. ``Llama-3_3`` is a version, written ``llama-3.3``.
    """
    name = checkpoint.lower().split("/")[1]
    for publisher in ("meta-", "nvidia-"):
        name = name.removeprefix(publisher)
    return slug(name.replace("3_3", "3.3"))


def base_of(one: str, ids: set[str]) -> str | None:
    """Return the id of the same model unquantised, where that is another document."""
    for suffix in QUANTISED_SUFFIXES:
        stem = one.removesuffix(suffix).replace("70b-instruct", "70b")
        if one.endswith(suffix) and stem in ids:
            return stem
    return None


def _names(llm_id: str, checkpoint: str) -> tuple[str, ...]:
    """Return the other spellings of an id, without the id itself."""
    words = (checkpoint, *SAME_GEOMETRY.get(llm_id, ()))
    spelt = [w for name in words for w in (slug(name), slug(name.split("/")[-1]))]
    return tuple(dict.fromkeys(w for w in spelt if w != llm_id))


def _kv(row: dict[str, str]) -> str:
    """Say how much of the KV cache's size the table knows."""
    note = row["note"]
    if not row["kv_elements_per_token"]:
        return "unknown"
    if "upper bound" in note:
        return "upper-bound"
    if "linear layers hold" in note:
        return "state-missing"
    return "index-missing" if "DSA indexer" in note else "known"


def _facts(llm_id: str, row: dict[str, str]) -> dict[str, object]:
    mix = {
        "full": whole(row["n_full_attention_layers"]),
        "sliding": whole(row["n_sliding_layers"]),
        "linear": whole(row["n_linear_layers"]),
        "window": whole(row["sliding_window"]),
    }
    if not any(mix[key] for key in ("full", "sliding", "linear")):
        mix = {"window": mix["window"]}
    return {
        "format_version": "1.0",
        "id": llm_id,
        "name": row["model"].split("/")[1],
        "hf_id": row["model"],
        "aliases": list(_names(llm_id, row["model"])),
        "base": None,
        "architecture": row["arch"],
        "family": row["family"].replace("_", "-"),
        "layers": whole(row["layers"]),
        "hidden": whole(row["hidden"]),
        "query_heads": whole(row["heads"]),
        "kv_heads": whole(row["kv_heads"]),
        "head_dim": whole(row["head_dim"]),
        "intermediate": whole(row["intermediate"]),
        "vocab": whole(row["vocab"]),
        "tied_embeddings": row["tie_embeddings"] == "True",
        "mla": {
            "q_lora_rank": whole(row["q_lora_rank"]) if row["kv_lora_rank"] else None,
            "kv_lora_rank": whole(row["kv_lora_rank"]),
            "qk_nope_head_dim": whole(row["qk_nope_head_dim"]) if row["kv_lora_rank"] else None,
            "qk_rope_head_dim": whole(row["qk_rope_head_dim"]) if row["kv_lora_rank"] else None,
            "v_head_dim": whole(row["v_head_dim"]) if row["kv_lora_rank"] else None,
        },
        "indexer": {
            "heads": whole(row["index_n_heads"]),
            "head_dim": whole(row["index_head_dim"]),
            "topk": whole(row["index_topk"]),
        },
        "experts": {
            "count": whole(row["experts"]),
            "active": whole(row["experts_active"]),
            "shared": whole(row["shared_experts"]),
            "shared_intermediate": whole(row["shared_expert_intermediate"]),
            "intermediate": whole(row["moe_intermediate"]),
            "first_dense_layers": whole(row["first_dense_layers"]),
        },
        "layer_mix": mix,
        "max_context": whole(row["max_position"]),
        "weights_precision": PRECISIONS.get(row["quantization"]),
        "kv_precision": "fp8" if row["kv_cache_quant"] == "FP8" else None,
        "params_total_b": number(row["params_total_b"]),
        "params_active_b": number(row["params_active_b"]),
        "kv": _kv(row),
        "note": row["note"] or None,
        "source": row["source"],
        "licence": "Apache-2.0",
    }


def write_llms(shared: Path, models: Path) -> dict[str, tuple[str, ...]]:
    """Write one document a checkpoint; return ids with their other spellings."""
    rows = {model_id(r["model"]): r for r in read_rows(shared / "data/models/modelcards.csv")}
    documents = {llm_id: _facts(llm_id, row) for llm_id, row in rows.items()}
    names = {llm_id: _names(llm_id, row["model"]) for llm_id, row in rows.items()}
    for checkpoint, base in BASES.items():
        row = rows[model_id(checkpoint)]
        names[base] = _names(base, base)
        documents[base] = _facts(base, row) | {
            "name": base,
            "hf_id": None,
            "aliases": list(names[base]),
            "weights_precision": None,
            "kv_precision": None,
            "note": f"geometry from the configuration of {checkpoint}; {row['note']}",
        }
    for llm_id, facts in documents.items():
        facts["base"] = base_of(llm_id, set(documents))
        write_yaml(models / "llms" / f"{llm_id}.yaml", facts)
    return names
