"""Tables of Dynamo's profiler, as ``.npz`` or JSON, in milliseconds.

Prefill: TTFT of one prompt at a time by prompt length. Decode: the gap between tokens by KV
usage x = (requests × context) / max_kv_tokens and mean context y, so requests = x × max_kv_tokens
/ y. Copies in seconds exist: throughput per device × time must give a plausible number of devices,
which tells the unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planner.errors import InputError
from planner.measurements.build import Definition, finished, nominal
from planner.measurements.files import parse_json, probe, read_arrays, read_text
from planner.measurements.measurement import Arrivals, Measurement, Statistics
from planner.measurements.node import MS, Node
from planner.source import is_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from planner.measurements.files import Probe

    Tables = Mapping[str, NDArray[np.float64]]

KEYS: Final = frozenset(
    ("prefill_isl", "x_kv_usage", "decode_active_kv_tokens", "prefill_ttft", "z_itl")
)
FILES: Final = ("prefill_raw_data.json", "decode_raw_data.json")
FOLDERS: Final = ("selected_prefill_interpolation", "selected_decode_interpolation")
MOST_POINTS: Final = 100_000
LEAST_DEVICES, MOST_DEVICES = 0.5, 256.0
TTFT: Final = Definition(
    "ttft", "requests", "same", "one prompt at a time: prefill without a queue"
)
TPOT: Final = Definition(
    "tpot",
    "tokens",
    "close",
    "gap between tokens at a steady batch",
    "no prefill is mixed in: a served request sees longer gaps",
)


def claims(found: Probe) -> bool:
    """Tell a table of the profiler, or a folder with them."""
    if found.kind == "folder":
        return any(name in found.data for name in (*FILES, *FOLDERS)) or (
            "raw_data.npz" in found.data
        )
    return found.kind == "npz" or (found.kind == "json" and bool(KEYS & found.keys))


def read(found: Probe) -> Iterator[Measurement]:
    """Yield one measurement per point of a table.

    Raises:
        InputError: The arrays do not belong together, or hold what is no time or length.
    """
    if found.kind == "folder":
        for path in _inside(found):
            yield from read(probe(path))
        return
    tables = read_arrays(found.path) if found.kind == "npz" else _of_json(found)
    if not KEYS & tables.keys():
        there = ", ".join(sorted(tables))[:200]
        raise InputError(f"{found.path}: no table of the profiler among the arrays {there}")
    yield from _prefill(found, tables)
    yield from _decode(found, tables)


def _inside(found: Probe) -> Iterator[Path]:
    for name in found.data:
        path = found.path / name
        if name in FILES or name == "raw_data.npz":
            yield path
        elif name in FOLDERS and is_file(path / "raw_data.npz"):
            yield path / "raw_data.npz"


def _of_json(found: Probe) -> Tables:
    root = Node(parse_json(found.path, read_text(found.path)), str(found.path))
    tables: dict[str, NDArray[np.float64]] = {}
    for name in root.table():
        value = root.at(name)
        if value is None or isinstance(value.value, str | dict):
            continue
        if not isinstance(value.value, list):
            tables[name] = np.array([root.number(name)], np.float64)
        elif value.value and isinstance(value.value[0], list):
            rows = [row.vector(_plain(row)) for row in value.elements()]
            if len({len(row) for row in rows}) != 1:
                raise value.refuse("rows of different length")
            tables[name] = np.array(rows)
        else:
            tables[name] = value.vector(value.value)
    return tables


def _plain(row: Node) -> list[Any]:
    if not isinstance(row.value, list):
        raise row.refuse("expected a list of numbers")
    return row.value


def _column(found: Probe, tables: Tables, name: str, size: int | None = None) -> Any:
    """Return an array of positive numbers, shape ``(points,)``."""
    if name not in tables:
        raise InputError(f"{found.path}: {name}: is missing")
    array = tables[name]
    if array.ndim != 1 or (size is not None and len(array) != size):
        raise InputError(f"{found.path}: {name}: expected {size or 'some'} numbers in a row")
    if not ((array > 0) & (array < 1e12)).all() or not 0 < len(array) <= MOST_POINTS:
        raise InputError(f"{found.path}: {name}: expected numbers above 0")
    return array


def _unit(found: Probe, name: str, devices: Any) -> tuple[float, tuple[str, ...]]:
    """Return seconds per unit of a time, told by the devices that follow from milliseconds."""
    if devices is None:
        return MS, ("no throughput in the table: milliseconds are taken on trust",)
    middle = float(np.median(devices))
    if LEAST_DEVICES <= middle <= MOST_DEVICES:
        return MS, ()
    if LEAST_DEVICES <= middle * MS <= MOST_DEVICES:
        return 1.0, (f"{name} is in seconds: as milliseconds it contradicts the throughput",)
    raise InputError(
        f"{found.path}: {name}: throughput x time gives {middle:.3g} devices in milliseconds;"
        " neither they nor seconds can be meant"
    )


def _prefill(found: Probe, tables: Tables) -> Iterator[Measurement]:
    if "prefill_isl" not in tables:
        return
    isl = _column(found, tables, "prefill_isl")
    in_ms = "prefill_ttft_ms" in tables
    name = "prefill_ttft_ms" if in_ms else "prefill_ttft"
    ttft = _column(found, tables, name, len(isl))
    devices = None
    if "prefill_thpt_per_gpu" in tables:
        rate = _column(found, tables, "prefill_thpt_per_gpu", len(isl))
        devices = isl / (rate * ttft * MS)
    scale, notes = (MS, ()) if in_ms and devices is None else _unit(found, name, devices)
    for i, (tokens, time) in enumerate(zip(isl.tolist(), (ttft * scale).tolist(), strict=True)):
        yield finished(
            Measurement(
                format="dynamo profile",
                tool="dynamo profiler",
                path=found.path,
                location=f"prefill[{i}]",
                arrivals=Arrivals("closed_loop", concurrency=1.0),
                prompt=nominal(tokens),
                prefix_hit_rate=0.0,
                latencies=TTFT.of(Statistics(mean=time), name),
                notes=notes,
            )
        )


def _decode(found: Probe, tables: Tables) -> Iterator[Measurement]:
    if "x_kv_usage" in tables:
        usage = _column(found, tables, "x_kv_usage")
        context = _column(found, tables, "y_context_length", len(usage))
        room = _column(found, tables, "max_kv_tokens", 1)[0]
        itl = _column(found, tables, "z_itl", len(usage))
        requests, name = usage * room / context, "z_itl"
    elif "decode_active_kv_tokens" in tables:
        active = _column(found, tables, "decode_active_kv_tokens")
        lengths = _column(found, tables, "decode_context_length")
        grid = tables.get("decode_itl")
        if grid is None or grid.shape != (len(active), len(lengths)) or grid.size > MOST_POINTS:
            raise InputError(f"{found.path}: decode_itl: expected a row per active_kv_tokens")
        if not (grid > 0).all():
            raise InputError(f"{found.path}: decode_itl: expected numbers above 0")
        itl, name = grid.ravel(), "decode_itl"
        context = np.tile(lengths, len(active))
        requests = np.repeat(active, len(lengths)) / context
    else:
        return
    devices = None
    if "z_thpt_per_gpu" in tables:
        devices = requests / (_column(found, tables, "z_thpt_per_gpu", len(itl)) * itl * MS)
    scale, notes = _unit(found, name, devices)
    points = zip(requests.tolist(), context.tolist(), (itl * scale).tolist(), strict=True)
    for i, (users, tokens, time) in enumerate(points):
        yield finished(
            Measurement(
                format="dynamo profile",
                tool="dynamo profiler",
                path=found.path,
                location=f"decode[{i}]",
                arrivals=Arrivals("closed_loop", concurrency=users),
                mean_context_tokens=tokens,
                mean_concurrency=users,
                latencies=TPOT.of(Statistics(mean=time), name),
                notes=notes,
            )
        )
