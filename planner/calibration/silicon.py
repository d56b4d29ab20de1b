"""Reader of closed-loop tables: mean TTFT and TPOT of one deployment a row.

The columns are those of ``closed_loop_means.csv`` (one row a deployment and concurrency, as
published benchmark collections export them, with canonical ``x_`` columns beside the exporter's
own). Labels are checked against physics: a replica whose devices cannot hold the weights is
read by its expert layout instead, and the point says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from planner.calibration.cells import (
    MOST_DEVICES,
    MOST_MS,
    MOST_TOKENS,
    MOST_USERS,
    number_in,
    rows_of,
    whole_in,
)
from planner.calibration.points import Load, Point, Stage, System, Unusable
from planner.calibration.settings import known_engine
from planner.curves.roofline import Degrees, formats_of, geometry_of
from planner.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from planner.calibration.points import Lengths, Mode
    from planner.catalogue import Accelerator, Catalogue, Llm

REQUIRED: Final = ("id", "mode", "backend", "system", "isl", "osl", "x_concurrency", "x_gpus")

_UNIFORM_SOURCES: Final = ("db-dump", "2026-03-25.csv", "2026-04-06.csv", "gap-analysis.csv")
"""Exports of a client that draws lengths from [0.8, 1.0] of the nominal ones."""

_QUANTISED: Final = re.compile(r"[-_](fp8|fp4|nvfp4|mxfp4|int4|awq|gptq)(?=$|[-_])", re.IGNORECASE)
_SUFFIX: Final = re.compile(r"[-_](instruct|chat|hf)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Table:
    """The points of a file, and the rows that are none."""

    points: tuple[Point, ...]
    unusable: tuple[Unusable, ...]
    rows: int


def read_closed_loop_means(path: Path, catalogue: Catalogue, *, speculative: bool = False) -> Table:
    """Read a table of closed-loop means.

    Args:
        path: A CSV file.
        catalogue: Names of models and accelerators.
        speculative: Whether to keep rows measured with speculative decoding, or perhaps with
            it; their TPOT is another quantity, and no curve here predicts it.

    Raises:
        InputError: The file cannot be read or lacks a column.
    """
    points: list[Point] = []
    unusable: list[Unusable] = []
    number = -1
    for number, row in enumerate(rows_of(path, REQUIRED)):
        cells = row.cells
        name = cells.get("id") or f"row {number}"
        spec = cells.get("x_spec") or "none"
        if not speculative and spec not in ("none", "none_likely"):
            unusable.append(Unusable(number, name, f"speculative decoding: {spec}"))
            continue
        try:
            points.append(_point(number, name, row.whole(), catalogue))
        except InputError as error:
            unusable.append(Unusable(number, name, str(error)))
    return Table(tuple(points), tuple(unusable), number + 1)


def _point(number: int, name: str, cells: Mapping[str, str], catalogue: Catalogue) -> Point:
    accelerator = catalogue.accelerator(cells["system"])
    model_name = cells.get("x_model") or cells.get("model_path") or ""
    llm = find_llm(catalogue, model_name)
    stated = cells.get("x_precision") or cells.get("precision") or "unstated"
    precision = precision_of(llm, stated)
    mode: Mode = "disaggregated" if cells["mode"] == "disagg" else "colocated"
    note = ""
    prefill = None
    if mode == "disaggregated":
        prefill, main = _stage(cells, "prefill_"), _stage(cells, "decode_")
    else:
        main, note = _colocated(cells, llm, accelerator, precision)
    source = cells.get("silicon_data_source", "")
    uniform = any(mark in source for mark in _UNIFORM_SOURCES)
    lengths: Lengths = "uniform" if uniform else "fixed"
    system = System(
        llm=llm,
        precision=precision,
        accelerator=accelerator,
        engine=known_engine(cells["backend"]),
        engine_version=cells.get("backend_version", ""),
        mode=mode,
        main=main,
        prefill=prefill,
        multi_node_runtime="dynamo" in source,
    )
    return Point(
        row=number,
        id=name,
        system=system,
        load=Load(
            users=whole_in(cells, "x_concurrency", MOST_USERS, low=1),
            prompt_tokens=whole_in(cells, "isl", MOST_TOKENS, low=1),
            output_tokens=whole_in(cells, "osl", MOST_TOKENS, low=1),
            lengths=lengths,
        ),
        ttft_s=_milliseconds(cells, "silicon_ttft_ms"),
        tpot_s=_milliseconds(cells, "silicon_tpot_ms"),
        curve=cells.get("x_curve") or _curve(cells, system),
        note=note,
    )


def _curve(cells: Mapping[str, str], system: System) -> str:
    return f"{system.group} {system.engine_version} {cells['isl']} {cells['osl']}"


def find_llm(catalogue: Catalogue, name: str) -> Llm:
    """Return a model by its name, or by the name without marks of quantisation and tuning.

    A quantised checkpoint has the geometry of its base model; the precision is told apart.

    Raises:
        InputError: No model is called so.
    """
    short = name.rsplit("/", 1)[-1]
    bare = _QUANTISED.sub("", short)
    for candidate in (name, short, bare, _SUFFIX.sub("", bare)):
        llm = catalogue.find_llm(candidate)
        if llm is not None:
            return llm if llm.base is None else catalogue.llm(llm.base)
    raise InputError(catalogue.why_not("llm", name))


def precision_of(llm: Llm, stated: str) -> str:
    """Return the number format of the weights in the planner's words.

    4-bit floats mean the checkpoint's own kind (MXFP4) or NVFP4; what is not stated is the
    checkpoint's published format.

    Raises:
        InputError: Nothing is known of the format.
    """
    if llm.weights_precision == "mxfp4":
        return "mxfp4"
    if stated in ("unstated", "nan", ""):
        return llm.weights_precision or "bf16"
    precision = {"fp4": "nvfp4"}.get(stated, stated)
    formats_of(precision, geometry_of(llm).family)
    return precision


def _colocated(
    cells: Mapping[str, str], llm: Llm, accelerator: Accelerator, precision: str
) -> tuple[Stage, str]:
    devices = whole_in(cells, "x_gpus", MOST_DEVICES, low=1)
    replicas, dp, ep = (_degree(cells, name) for name in ("x_replicas", "x_attn_dp", "x_ep"))
    tp = whole_in(cells, "tp_size", MOST_DEVICES, default=devices)
    layout = whole_in(cells, "moe_tp_size", MOST_DEVICES, default=1)
    layout *= whole_in(cells, "moe_ep_size", MOST_DEVICES, default=1)
    if layout > devices and not _holds(llm, accelerator, precision, devices):
        note = f"{devices} devices cannot hold the weights; read as {layout} by the expert layout"
        return Stage(Degrees(layout, max(1, layout // max(tp, 1)), ep), replicas), note
    return Stage(Degrees(devices, min(dp, devices), ep), replicas), ""


def _holds(llm: Llm, accelerator: Accelerator, precision: str, devices: int) -> bool:
    g = geometry_of(llm)
    f = formats_of(precision, g.family)
    needed = g.plain_params * f.plain_bytes + g.experts * g.expert_params * f.expert_bytes
    return needed < devices * float(accelerator.memory)


def _stage(cells: Mapping[str, str], role: str) -> Stage:
    names = ("tp_size", "pp_size", "attention_dp_size", "moe_ep_size")
    tp, pp, dp, ep = (_degree(cells, f"{role}{name}") for name in names)
    workers = whole_in(cells, f"{role}num_workers", MOST_DEVICES, low=1)
    return Stage(Degrees(tp * pp * dp, dp, ep), workers)


def _degree(cells: Mapping[str, str], name: str) -> int:
    """Return a degree; a collection writes 0 for what does not apply."""
    return max(1, whole_in(cells, name, MOST_DEVICES, default=1))


def _milliseconds(cells: Mapping[str, str], name: str) -> float | None:
    value = number_in(cells, name, MOST_MS)
    return value / 1e3 if value else None
