"""models/accelerators: one document an accelerator, with its memory in bytes and why those."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from facts_text import number, read_rows, slug, whole, with_unit, write_yaml

if TYPE_CHECKING:
    from pathlib import Path

MIB: Final = 2**20
GIB: Final = 2**30

ALIASES: Final[dict[str, tuple[str, ...]]] = {
    "a100-80g-sxm": ("a100", "a100-80g", "a100-80gb", "a100-sxm", "a100-sxm-80gb", "a100-80gb-sxm"),
    "a100-80g-pcie": ("a100", "a100-80g", "a100-80gb", "a100-pcie", "a100-pcie-80gb"),
    "a100-40g-sxm": ("a100", "a100-40g", "a100-40gb", "a100-sxm-40gb", "a100-40gb-sxm"),
    "h100-sxm": ("h100", "h100-80g", "h100-80gb", "h100-sxm-80gb", "h100-80gb-sxm", "h100-sxm5"),
    "h100-pcie": ("h100", "h100-80g", "h100-80gb", "h100-pcie-80gb", "h100-80gb-pcie"),
    "h200-sxm": ("h200", "h200-sxm-141gb", "h200-141gb"),
    "b200-sxm": ("b200", "b200-sxm-180gb"),
    "b300-sxm": ("b300",),
    "gb200-nvl72": ("gb200",),
    "gb300-nvl72": ("gb300",),
    "rtx-pro-6000-se": ("rtx-pro-6000-server", "rtx-pro-6000-blackwell-server-edition"),
    "arc-pro-b60": ("b60",),
    "tpu-v5e": ("v5e",),
    "tpu-v6e": ("v6e",),
    "trainium2": ("trn2",),
    "trainium3": ("trn3",),
}
"""Other spellings. One that stands at several accelerators is ambiguous, and refused.

``a100-sxm`` is how the kernel tables call the 80 GB part, so it means that one.
"""

REPORTED: Final = {
    "h100-sxm": (
        81559 * MIB,
        "MLPerf Inference system descriptions (accelerator memory of NVIDIA H100-SXM-80GB)",
    )
}
"""Bytes that a device itself reports, where a source other than the hardware table says so."""


def _memory(accelerator_id: str, row: dict[str, str]) -> dict[str, object]:
    """Choose the byte figure: the device's report where known, else the nominal size.

    The kernel tables hold either the driver's figure, which is no whole number of GiB
    (46,068 MiB for a 48 GB card), or the nominal size as a whole number of GiB. Where a
    table holds none, nominal GB are decimal: the smaller reading.
    """
    nominal_gb = float(row["mem_gb"])
    table = number(row["mem_bytes_aic"])
    if accelerator_id in REPORTED:
        size, source = REPORTED[accelerator_id]
        basis = "reported"
    elif table is not None and table % GIB:
        size, source, basis = int(table), row["source"] + ", as the driver reports it", "reported"
    elif table is not None:
        size, source = int(table), f"{row['source']}, nominal {table / GIB:.0f} GiB"
        basis = "nominal"
    else:
        size, source = int(nominal_gb * 1e9), f"{row['source']}, nominal, read as decimal GB"
        basis = "nominal"
    off = nominal_gb * 1e9 / size - 1
    note = None
    if basis == "reported" and abs(off) > 0.03:
        note = f"nominal {nominal_gb:.0f} GB (decimal) is {off:+.1%} off the reported bytes"
    memory = f"{size // MIB} MiB" if size % MIB == 0 else f"{size // 10**9} GB"
    return {
        "memory": memory,
        "memory_basis": basis,
        "memory_source": source,
        "memory_nominal": with_unit(row["mem_gb"], "GB"),
        "memory_note": note,
    }


def _licence(source: str) -> str:
    if "GPL" in source:
        return "facts only"
    if "Apache-2.0" in source:
        return "Apache-2.0"
    return "MIT" if "(MIT)" in source else "facts only"


def write_accelerators(shared: Path, models: Path) -> dict[str, tuple[str, ...]]:
    """Write one document an accelerator; return ids with their other spellings."""
    names: dict[str, tuple[str, ...]] = {}
    for row in read_rows(shared / "data/hardware/gpus.csv"):
        accelerator_id = slug(row["gpu"])
        names[accelerator_id] = ALIASES.get(accelerator_id, ())
        kilowatts = number(row["all_in_kw_per_gpu"])
        facts: dict[str, object] = {
            "format_version": "1.0",
            "id": accelerator_id,
            "name": row["gpu"],
            "vendor": row["vendor"],
            "aliases": list(names[accelerator_id]),
            **_memory(accelerator_id, row),
            "memory_bandwidth": with_unit(row["mem_bw_gbps"], "GB/s"),
            "bf16": with_unit(row["bf16_tflops"], "TFLOP/s"),
            "fp8": with_unit(row["fp8_tflops"], "TFLOP/s"),
            "fp4": with_unit(row["fp4_tflops"], "TFLOP/s"),
            "int8": with_unit(row["int8_tops"], "TFLOP/s"),
            "board_power": with_unit(row["tdp_w"], "W"),
            "all_in_power": None if kilowatts is None else f"{kilowatts * 1000:.0f} W",
            "accelerators_per_node": whole(row["gpus_per_node"]),
            "scaleup_domain": whole(row["scaleup_domain"]),
            "scaleup_technology": row["scaleup_tech"] or None,
            "scaleup_bandwidth": with_unit(row["scaleup_uni_gbps"], "GB/s"),
            "pcie_bandwidth": with_unit(row["pcie_uni_gbps"], "GB/s"),
            "scaleout_bandwidth": with_unit(row["scaleout_uni_gbps"], "GB/s"),
            "note": row["note"] or None,
            "source": row["source"],
            "licence": _licence(row["source"]),
        }
        write_yaml(models / "accelerators" / f"{accelerator_id}.yaml", facts)
    return names
