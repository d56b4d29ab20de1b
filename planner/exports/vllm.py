"""Settings of vLLM's server: one file per pool for ``vllm serve --config FILE``, and back.

Keys are the long names of the server's own options. ``true`` stands for an option without a value,
and what is switched off has the option of that name with ``no-`` before it.
Source: the options of ``vllm serve`` (documentation of vLLM, ``vllm serve`` and ``--config``).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from planner.errors import InputError
from planner.exports.facts import PoolFacts, Whole

if TYPE_CHECKING:
    from planner.exports.options import ExportOptions
    from planner.fleet import Pool

CACHE_DTYPES: Final = {"bf16": "bfloat16", "fp8": "fp8"}
"""Number formats of the KV cache as the server calls them."""
BOTH_WAYS: Final = ("NixlConnector",)
"""Connectors whose two sides bear one role."""
Role = Literal["kv_producer", "kv_consumer", "kv_both"]


class ServerConfig(BaseModel):
    """The file; other keys are mistakes."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    model: Annotated[str, Field(min_length=1)]
    tensor_parallel_size: Whole = Field(alias="tensor-parallel-size")
    pipeline_parallel_size: Whole = Field(1, alias="pipeline-parallel-size")
    data_parallel_size: Whole = Field(1, alias="data-parallel-size")
    enable_expert_parallel: Literal[True] | None = Field(None, alias="enable-expert-parallel")
    max_model_len: Whole = Field(alias="max-model-len")
    max_num_seqs: Whole = Field(alias="max-num-seqs")
    max_num_batched_tokens: Whole = Field(alias="max-num-batched-tokens")
    kv_cache_dtype: Literal["bfloat16", "fp8"] = Field(alias="kv-cache-dtype")
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1, strict=True)] = Field(
        alias="gpu-memory-utilization"
    )
    block_size: Whole = Field(alias="block-size")
    scheduling_policy: Literal["fcfs", "priority"] = Field(alias="scheduling-policy")
    enable_prefix_caching: Literal[True] | None = Field(None, alias="enable-prefix-caching")
    no_enable_prefix_caching: Literal[True] | None = Field(None, alias="no-enable-prefix-caching")
    enable_chunked_prefill: Literal[True] | None = Field(None, alias="enable-chunked-prefill")
    no_enable_chunked_prefill: Literal[True] | None = Field(None, alias="no-enable-chunked-prefill")
    kv_transfer_config: str | None = Field(None, alias="kv-transfer-config")


class Transfer(BaseModel):
    """What ``kv-transfer-config`` holds, as JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kv_connector: Annotated[str, Field(min_length=1)]
    kv_role: Role


def config_of(pool: Pool, options: ExportOptions) -> dict[str, Any]:
    """Return the settings of a pool's server.

    Raises:
        InputError: The server has no option for something, or the user must say more.
    """
    if pool.model not in options.models:
        raise InputError(
            f"pool {pool.id}: where do the {pool.precision} weights of {pool.model} lie? add"
            f" --model {pool.model}=LOCATION"
        )
    if pool.kv_dtype not in CACHE_DTYPES:
        raise InputError(f"pool {pool.id}: the server has no KV cache of {pool.kv_dtype}")
    if pool.speculative_decoding is not None or pool.adapters is not None:
        what = "speculative decoding" if pool.speculative_decoding is not None else "adapters"
        raise InputError(
            f"pool {pool.id}: {what}: a plan does not name the files that this needs; such pools"
            " are not exported"
        )
    found: dict[str, Any] = {
        "model": options.models[pool.model],
        "tensor-parallel-size": pool.tp_degree,
    }
    if pool.pp_degree > 1:
        found["pipeline-parallel-size"] = pool.pp_degree
    if pool.dp_degree > 1:
        found["data-parallel-size"] = pool.dp_degree
    if pool.ep_degree > 1:
        found["enable-expert-parallel"] = True
    found |= {
        "max-model-len": pool.max_model_len,
        "max-num-seqs": pool.max_num_seqs,
        "max-num-batched-tokens": pool.max_num_batched_tokens,
        "kv-cache-dtype": CACHE_DTYPES[pool.kv_dtype],
        "gpu-memory-utilization": pool.memory_utilisation,
        "block-size": pool.block_size,
        "scheduling-policy": pool.scheduling_policy,
        ("" if pool.prefix_caching else "no-") + "enable-prefix-caching": True,
        ("" if pool.chunked_prefill else "no-") + "enable-chunked-prefill": True,
    }
    if pool.role != "colocated":
        found["kv-transfer-config"] = _transfer(pool, options)
    return found


def _transfer(pool: Pool, options: ExportOptions) -> str:
    if options.kv_connector is None:
        raise InputError(
            f"pool {pool.id}: prefill and decode are apart; name the engine's connector with"
            " --kv-connector, such as NixlConnector"
        )
    sides: dict[str, Role] = {"prefill": "kv_producer", "decode": "kv_consumer"}
    role: Role = "kv_both" if options.kv_connector in BOTH_WAYS else sides[pool.role]
    return json.dumps({"kv_connector": options.kv_connector, "kv_role": role})


def config_text(pool: Pool, options: ExportOptions) -> str:
    """Write the file of a pool."""
    head = (
        f"# vllm serve --config; engine: {json.dumps(pool.engine)}\n"
        f"# pool: {json.dumps(pool.id)}\n# accelerator: {json.dumps(pool.accelerator)}\n"
        f"# role: {pool.role}\n# replicas: {pool.replicas}\n"
    )
    return head + yaml.safe_dump(config_of(pool, options), sort_keys=False, allow_unicode=True)


def arguments(pool: Pool, options: ExportOptions) -> list[str]:
    """Return the same settings as words of a command line, without ``vllm serve``."""
    config = config_of(pool, options)
    words = [str(config.pop("model"))]
    for key, value in config.items():
        words += [f"--{key}"] if value is True else [f"--{key}", str(value)]
    return words


def config_of_arguments(words: list[str]) -> dict[str, Any]:
    """Read words of a command line back.

    Raises:
        ValueError: They are no such words.
    """
    if not words or words[0].startswith("--"):
        raise ValueError("the model comes first")
    found: dict[str, Any] = {"model": words[0]}
    rest = words[1:]
    while rest:
        key = rest.pop(0)
        if not key.startswith("--") or key[2:] in found:
            raise ValueError(f"{key!r} is no option, or is given twice")
        value = rest.pop(0) if rest and not rest[0].startswith("--") else None
        found[key[2:]] = True if value is None else _typed(value)
    return found


def _typed(text: str) -> int | float | str:
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def facts(pool_id: str, accelerator: str, role: str, replicas: int, config: object) -> PoolFacts:
    """Recover a pool from its server's settings.

    Raises:
        ValueError: A setting is missing, unknown or contradicts another; all of them are told.
    """
    try:
        known = ServerConfig.model_validate(config)
    except ValidationError as error:
        raise ValueError(
            "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        ) from error
    told = []
    for name in ("prefix_caching", "chunked_prefill"):
        on, off = getattr(known, f"enable_{name}"), getattr(known, f"no_enable_{name}")
        if (on is None) == (off is None):
            told.append(f"{name}: exactly one of the two options must stand")
    if (known.kv_transfer_config is None) != (role == "colocated"):
        told.append("kv-transfer-config: belongs to prefill and decode, and to nothing else")
    elif known.kv_transfer_config is not None:
        told += _wrong_transfer(known.kv_transfer_config, role)
    if told:
        raise ValueError("; ".join(told))
    dtypes = {name: dtype for dtype, name in CACHE_DTYPES.items()}
    return PoolFacts.model_validate(
        {
            "id": pool_id,
            "accelerator": accelerator,
            "role": role,
            "replicas": replicas,
            "tp_degree": known.tensor_parallel_size,
            "pp_degree": known.pipeline_parallel_size,
            "dp_degree": known.data_parallel_size,
            "expert_parallel": known.enable_expert_parallel is not None,
            "max_model_len": known.max_model_len,
            "max_num_seqs": known.max_num_seqs,
            "max_num_batched_tokens": known.max_num_batched_tokens,
            "kv_dtype": dtypes[known.kv_cache_dtype],
            "memory_utilisation": known.gpu_memory_utilization,
            "block_size": known.block_size,
            "prefix_caching": known.enable_prefix_caching is not None,
            "chunked_prefill": known.enable_chunked_prefill is not None,
            "scheduling_policy": known.scheduling_policy,
        }
    )


def _wrong_transfer(text: str, role: str) -> list[str]:
    try:
        transfer = Transfer.model_validate_json(text)
    except ValidationError as error:
        return [f"kv-transfer-config: {error.errors()[0]['msg']}"]
    sides = {"prefill": "kv_producer", "decode": "kv_consumer"}
    fits = "kv_both" if transfer.kv_connector in BOTH_WAYS else sides[role]
    if transfer.kv_role != fits:
        return [f"kv-transfer-config: kv_role of a {role} pool is {fits}, not {transfer.kv_role}"]
    return []


def read_config(text: str) -> PoolFacts:
    """Recover a pool from the file that :func:`config_text` writes.

    Raises:
        ValueError: The file is none such.
    """
    head = {}
    for line in text.splitlines():
        key, colon, value = line.removeprefix("# ").partition(": ")
        if line.startswith("# ") and colon:
            head[key] = value
    try:
        data = yaml.safe_load(text)
        pool_id, kind = json.loads(head["pool"]), json.loads(head["accelerator"])
        replicas = int(head["replicas"])
    except (yaml.YAMLError, KeyError, ValueError) as error:
        raise ValueError(f"not a server's file with its pool and replicas: {error}") from error
    return facts(str(pool_id), str(kind), head.get("role", ""), replicas, data)
