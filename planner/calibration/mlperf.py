"""Reader of MLPerf Inference results: an open loop per row, under deadlines at the 99th percentile.

A row states model, accelerators, weights and the Poisson rate, but neither the degrees of a
replica nor the lengths of prompts. The means of the benchmark's own data sets are assumed.
Degrees are left open: the submitter chose them under the stated deadlines, so the prediction
takes the least that meet them, or else those that do best.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from planner.calibration.cells import (
    MOST_DEVICES,
    MOST_MS,
    MOST_RPS,
    MOST_TOKENS,
    number_in,
    required,
    text_in,
)
from planner.calibration.measured_run import MeasuredRun, per_rank, quantities_of
from planner.calibration.points import Stage, System
from planner.calibration.run import Client
from planner.calibration.silicon import find_llm, precision_of
from planner.catalogue.degrees import tp_degrees_of
from planner.curves.roofline import Degrees, formats_of, geometry_of
from planner.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from planner.catalogue import Accelerator, Catalogue, Llm

COLUMNS: Final = frozenset({"scenario", "scheduled_samples_per_s", "n_accel", "base_model"})
"""By which the table is told; any other may be missing, and is then not stated."""
_NAMED_BY: Final = ("version", "submitter", "system", "model", "scenario")

PROMPT_TOKENS: Final = {
    "llama-3.1-70b": 294,
    "llama-3.1-8b": 778,
    "llama-3.1-405b": 9428,
    "deepseek-r1": 800,
}
"""Mean prompt of each model's data set: assumptions, as rows and catalogue state none."""

_KINDRED: Final = {"llama-2-70b": "llama-3.1-70b", "mixtral-8x7b": "mixtral-8x7b-v0.1"}
"""Models by the catalogue's name, or by that of one with the same layers, heads and widths."""

_ACCELERATORS: Final = (
    (re.compile(r"H100-SXM"), "h100-sxm"),
    (re.compile(r"H100-PCIe"), "h100-pcie"),
    (re.compile(r"H200-SXM"), "h200-sxm"),
    (re.compile(r"B200-SXM"), "b200-sxm"),
    (re.compile(r"B300-SXM"), "b300-sxm"),
    (re.compile(r"NVIDIA GB200"), "gb200-nvl72"),
    (re.compile(r"NVIDIA GB300"), "gb300-nvl72"),
    (re.compile(r"RTX PRO 6000 Blackwell Server"), "rtx-pro-6000-se"),
    (re.compile(r"NVIDIA L40S"), "l40s"),
    (re.compile(r"MI300X"), "mi300x"),
    (re.compile(r"MI325X"), "mi325x"),
    (re.compile(r"MI350X"), "mi350x"),
    (re.compile(r"MI355X"), "mi355x"),
    (re.compile(r"Arc Pro(\(R\))? B60\b(?! Dual)"), "arc-pro-b60"),
)
_ENGINES: Final = (("tensorrt", "trtllm"), ("vllm", "vllm"), ("sglang", "sglang"))
_PRECISIONS: Final = {"fp4": "fp4", "fp8": "fp8", "int8": "int8", "mxfp4": "fp4", "int4": "int4",
                      "uint4": "int4", "fp16": "bf16", "bf16": "bf16"}  # fmt: skip
_LEAST_CACHE: Final = 0.25
"""Share of the memory that weights must leave."""
_MOST_DEGREES: Final = 3
_LONG_ENOUGH_S: Final = 600.0


def mlperf_run(row: int, cells: Mapping[str, str], catalogue: Catalogue) -> MeasuredRun:
    """Read a row.

    Raises:
        InputError: It is no open loop, or states too little to be predicted.
    """
    if cells["scenario"] == "Offline":
        raise InputError(
            "offline: all samples are there at the start, so no request has a TTFT or a TPOT"
        )
    notes: list[str] = []
    llm = _llm(cells, catalogue, notes)
    output = max(2, round(required(cells, "mean_output_tokens", MOST_TOKENS)))
    prompt = PROMPT_TOKENS.get(llm.id)
    if prompt is None:
        notes.append("lengths of prompts not stated: as long as outputs, for TPOT alone")
    accelerator = _accelerator(cells, catalogue)
    precision = _precision(cells, llm, accelerator, notes)
    engine = _engine(cells, notes)
    count = round(required(cells, "n_accel", MOST_DEVICES))
    rate = required(cells, "scheduled_samples_per_s", MOST_RPS)
    lasts_s = required(cells, "min_duration_ms", MOST_MS) / 1e3
    ttft, tpot = (required(cells, f"{name}_slo_ms", MOST_MS) for name in ("ttft", "tpot"))
    most = round(number_in(cells, "accel_per_node", MOST_DEVICES) or count)
    systems = []
    for tp in _degrees(llm, accelerator, precision, min(most, count)):
        stage = Stage(Degrees(tp), count // tp)
        version = re.search(r"\d[\w.]*", text_in(cells, "framework"))
        systems.append(
            System(llm, precision, accelerator, engine, version[0] if version else "",
                   "colocated", stage)
        )  # fmt: skip
    if not systems:
        raise InputError(f"{count} {accelerator.id} do not hold {llm.id} in {precision}")
    if len(systems) > 1:
        notes.append("degrees not stated: the least that meet the deadlines")
    client = Client(
        arrivals="poisson",
        rate_rps=rate,
        requests=round(rate * min(lasts_s, _LONG_ENOUGH_S)),
        prompt_tokens=prompt or output,
        output_tokens=output,
        ttft_slo_s=ttft / 1e3,
        tpot_slo_s=tpot / 1e3,
    )
    clients = [per_rank(client, system) for system in systems]
    return MeasuredRun(
        row,
        " ".join(text_in(cells, name) for name in _NAMED_BY),
        systems[0],
        clients[0],
        quantities_of(cells),
        ranks=systems[0].main.replicas,
        others=tuple(zip(systems[1:], clients[1:], strict=True)),
        note="; ".join(notes),
        blind=() if prompt else ("ttft", "goodput", "attainment"),
    )


def _llm(cells: Mapping[str, str], catalogue: Catalogue, notes: list[str]) -> Llm:
    name = cells["base_model"].replace("_", ".").lower()
    name = re.sub(r"^llama(\d)", r"llama-\1", name)
    name = re.sub(r"-(fp8[._]dyn|fp8[._]trtllm|fp8[._]quark|edge)$", "", name)
    other = _KINDRED.get(name)
    if other == "llama-3.1-70b":
        notes.append(f"{name} has the geometry of {other}, but for the vocabulary")
    return find_llm(catalogue, other or name)


def _accelerator(cells: Mapping[str, str], catalogue: Catalogue) -> Accelerator:
    label = text_in(cells, "accelerator")
    if not label:
        raise InputError("no accelerator is stated")
    found = {name for pattern, name in _ACCELERATORS if pattern.search(label)}
    if len(found) > 1:
        raise InputError(f"{label!r}: several kinds of accelerators share the load")
    if not found:
        raise InputError(f"no accelerator is called {label!r}")
    return catalogue.accelerator(found.pop())


def _precision(
    cells: Mapping[str, str], llm: Llm, accelerator: Accelerator, notes: list[str]
) -> str:
    stated = _PRECISIONS.get(text_in(cells, "weight_dtype").lower())
    if stated is None:
        stated = "fp8" if accelerator.fp8 else "bf16"
        notes.append(f"format of weights not stated: {stated}")
    return precision_of(llm, stated)


def _engine(cells: Mapping[str, str], notes: list[str]) -> str:
    stack = text_in(cells, "framework").lower()
    for word, engine in _ENGINES:
        if word in stack:
            return engine
    notes.append("engine not stated: as vllm")
    return "vllm"


def _degrees(llm: Llm, accelerator: Accelerator, precision: str, most: int) -> Iterator[int]:
    """Yield the least degrees that hold the weights and leave room for a cache."""
    g = geometry_of(llm)
    f = formats_of(precision, g.family)
    weights = g.plain_params * f.plain_bytes + g.experts * g.expert_params * f.expert_bytes
    room = float(accelerator.memory) * (1 - _LEAST_CACHE)
    fitting = [tp for tp in tp_degrees_of(llm) if tp <= most and weights / tp <= room]
    yield from [tp for tp in fitting if tp & (tp - 1) == 0][:_MOST_DEGREES]
